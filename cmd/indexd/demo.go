package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
	"github.com/blobindex/indexd/web"
)

func (a *app) demoCommand() *cobra.Command {
	var compare bool
	cmd := &cobra.Command{
		Use:   "demo [--versus-list]",
		Short: "Watch an index at work, with simulated producers",
		Long: fmt.Sprintf(`Watch an index at work: simulated producers register, heartbeat, finish, fail, crash and fall
silent on a temporary directory, and a page shows what is running. The TTL is %v, so that one sees items age out.

With --versus-list the same producers also keep a shared JSON list in the same directory, by reading, changing and
writing it back, and a reader prunes it in the same way. Every request of either side takes %v to %v, as on an object
store nearby. What the list loses is counted live, beside what the index loses.

It ends on SIGINT, and removes the directory.`, demoTTL, shortestDelay, longestDelay),
		Args: takes(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.demo(cmd, compare) },
	}
	cmd.Flags().String("listen", defaultListen, "address to listen on; loopback only")
	cmd.Flags().BoolVar(&compare, "versus-list", false, "count what a shared list loses beside it")
	return cmd
}

func (a *app) demo(cmd *cobra.Command, compare bool) (err error) {
	settings, err := a.settings(cmd)
	if err != nil {
		return err
	}
	if err := checkListen(settings.Listen); err != nil {
		return settings.blame("listen", err)
	}
	l, err := a.listenSomewhere(cmd.Context(), settings.Listen)
	if err != nil {
		return err
	}
	defer l.Close()
	dir, err := os.MkdirTemp("", "indexd-demo-")
	if err != nil {
		return fmt.Errorf("making a temporary directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b, err := dirbucket.Create(filepath.Join(dir, "bucket"), nil)
	if err != nil {
		return err
	}
	defer b.Close()
	var objects bucket.Objects = b
	if compare {
		objects = &slowBucket{b, storeDelay}
	}
	return a.play(cmd.Context(), l, newStage(objects, compare, a.log(slog.LevelWarn)))
}

// listenSomewhere takes a free port instead of the default one where that is taken: a demonstration starts in any case.
func (a *app) listenSomewhere(ctx context.Context, addr string) (net.Listener, error) {
	l, err := listen(ctx, addr)
	if addr != defaultListen || !errors.Is(err, syscall.EADDRINUSE) {
		return l, err
	}
	a.note("%s is in use by another process; taking a free port", addr)
	return listen(ctx, "127.0.0.1:0")
}

// play lets the crew act, shows it on a page, and compares if the stage has a list, until ctx ends.
func (a *app) play(ctx context.Context, l net.Listener, s *stage) error {
	sweeper := blobindex.NewSweeper(&blobindex.SweeperOptions{Log: s.log})
	defer sweeper.Close()
	index, err := s.index(sweeper, 0)
	if err != nil {
		return err
	}
	v, err := newVersus(s, index)
	if err != nil {
		return err
	}
	opt := &web.Options{Log: s.log}
	if s.list != nil {
		opt.Notice = v.text
	}
	handler, err := web.New([]*blobindex.Index{index}, readiness(s.objects), opt)
	if err != nil {
		return err
	}
	defer handler.Close()
	text := fmt.Sprintf("indexd demo: open http://%s/ in a browser; Ctrl-C ends it\n", l.Addr())
	if err := a.print(text); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop() // before the wait
	wg.Go(func() { s.perform(ctx, crew()) })
	wg.Go(func() { v.read(ctx) })
	if s.list != nil {
		wg.Go(func() { v.watch(ctx, a.stderr) })
	}
	if err := serveHTTP(ctx, l, handler, s.log); err != nil {
		return err
	}
	stop()
	wg.Wait()
	return a.conclude(s, v)
}

// conclude tells how a comparison ended.
func (a *app) conclude(s *stage, v *versus) error {
	if s.list == nil {
		return nil
	}
	if err := a.print(v.text() + "\n"); err != nil {
		return err
	}
	if n := s.ours.tally().Lost; n > 0 {
		return fmt.Errorf("the index lost %d items, which it must never do: please report it", n)
	}
	return nil
}
