package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket/openbucket"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/prune"
	"github.com/blobindex/indexd/prune/janitor"
)

// The second index of a soak on a server, where no time can be set back: its items are over after seconds.
const (
	shortName   = "short"
	shortPrefix = "_short_runs"
	shortTTL    = 6 * time.Second
)

// soakWorker is one process of TestSoak. It ends when its standard input does, so that none outlives the test.
//
//	soak producer ADDRESS SKEW NUMBER COUNT LOG   registers COUNT items, and logs what was acknowledged
//	soak reader ADDRESS SKEW                      reads both indexes with a sweeper, again and again
//	soak pruner ADDRESS SKEW                      prunes both indexes, again and again
//	soak mayfly ADDRESS SKEW                      registers in the short index, and looks whether it is shown
func soakWorker() {
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	if err := soakRole(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func soakRole(role, address, skew string, args []string) error {
	ctx := context.Background()
	objects, err := openbucket.Open(ctx, address)
	if err != nil {
		return err
	}
	rules := prune.Rules{}
	if rules.Skew, err = time.ParseDuration(skew); err != nil {
		return err
	}
	opt := &blobindex.Options{}
	if role == "reader" {
		opt.Sweeper = blobindex.NewSweeper(nil)
	}
	long, err := blobindex.New(objects, blobindex.Config{Rules: rules}, opt)
	if err != nil {
		return err
	}
	rules.TTL = shortTTL
	short, err := blobindex.New(objects, blobindex.Config{Name: shortName, Prefix: shortPrefix, Rules: rules}, opt)
	if err != nil {
		return err
	}
	switch role {
	case "producer":
		return produce(ctx, long, args)
	case "reader":
		return readOn(ctx, long, short)
	case "mayfly":
		return flutter(ctx, short)
	}
	return pruneOn(ctx, long, short)
}

func readOn(ctx context.Context, indexes ...*blobindex.Index) error {
	for {
		for _, x := range indexes {
			n, err := x.Namespace(defaultNamespace)
			if err != nil {
				return err
			}
			if _, err := n.Cards(ctx, blobindex.CardsRequest{}); err != nil {
				return err
			}
			if _, err := n.Recent(ctx); err != nil {
				return err
			}
		}
		fmt.Println("read")
	}
}

func pruneOn(ctx context.Context, indexes ...*blobindex.Index) error {
	for {
		for _, x := range indexes {
			r, err := janitor.New(x, nil).Run(ctx, nil)
			if err != nil {
				return err
			}
			if r.Failures > 0 || r.Withheld != "" {
				return fmt.Errorf("a pass failed: %+v", r)
			}
			fmt.Println("deleted", total(r.Deleted))
		}
	}
}

// flutter registers items without end. Each must be listed at once, and as long as its TTL lasts by the store's clock.
func flutter(ctx context.Context, x *blobindex.Index) error {
	n, err := x.Namespace(defaultNamespace)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		id, err := x.Mint(fmt.Sprintf("mayfly%d-%d", os.Getpid(), i))
		if err != nil {
			return err
		}
		if _, err := n.Register(ctx, id, nil); err != nil {
			return err
		}
		list, err := n.List(ctx)
		if err != nil {
			return err
		}
		listed := slices.ContainsFunc(list.Items, func(it blobindex.Live) bool { return it.ID == id.String() })
		if !listed && list.AsOf.Sub(id.Time()) <= shortTTL {
			return fmt.Errorf("%s was acknowledged and is not among the %d listed as of %v", id, len(list.Items), list.AsOf)
		}
		fmt.Println("fluttered")
	}
}

// A soakLog is what a producer remembers of what it was told, over its own deaths: a line for each step, durable before
// the next one is made.
//
//	acknowledged ID   it must be listed from now on
//	ending ID         it is about to be finished: it may be listed or not
//	finished ID       it must not be listed any more
type soakLog struct {
	f    *os.File
	acks int
}

func openSoakLog(path string) (*soakLog, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	whole := bytes.LastIndexByte(body, '\n') + 1 // what follows was being written when its writer was killed
	if err := f.Truncate(int64(whole)); err != nil {
		return nil, err
	}
	if _, err := f.Seek(int64(whole), io.SeekStart); err != nil {
		return nil, err
	}
	return &soakLog{f, bytes.Count(body[:whole], []byte("acknowledged "))}, nil
}

func (l *soakLog) write(step string, id itemid.ID) error {
	if _, err := fmt.Fprintln(l.f, step, id); err != nil {
		return err
	}
	return l.f.Sync()
}

// readSoakLog returns the ids of each step, in order.
func readSoakLog(path string) (map[string][]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	steps := make(map[string][]string)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		step, id, _ := strings.Cut(lines.Text(), " ")
		steps[step] = append(steps[step], id)
	}
	return steps, lines.Err()
}

// produce registers items until the log holds enough. Of five, one is finished, one heartbeats, and one is a run of a
// sub-key that it shares with others.
func produce(ctx context.Context, index *blobindex.Index, args []string) error {
	n, err := index.Namespace(defaultNamespace)
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	log, err := openSoakLog(args[2])
	if err != nil {
		return err
	}
	for ; log.acks < count; log.acks++ {
		subkey := fmt.Sprintf("p%s-%d", args[0], log.acks)
		if log.acks%5 == 2 {
			subkey = churnKey(args[0])
		}
		id, err := index.Mint(subkey)
		if err != nil {
			return err
		}
		if _, err := n.Register(ctx, id, nil); err != nil {
			return err
		}
		if err := log.write("acknowledged", id); err != nil {
			return err
		}
		fmt.Println("acknowledged")
		switch log.acks % 5 {
		case 0:
			err = finishLogged(ctx, n, log, id)
		case 1:
			_, err = n.Heartbeat(ctx, id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func churnKey(producer string) string { return "churn-" + producer }

func finishLogged(ctx context.Context, n *blobindex.Namespace, log *soakLog, id itemid.ID) error {
	if err := log.write("ending", id); err != nil {
		return err
	}
	f, err := n.Finish(ctx, id, prune.Done)
	if err != nil {
		return err
	}
	if f.Cleanup != nil {
		return f.Cleanup
	}
	return log.write("finished", id)
}
