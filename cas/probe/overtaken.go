package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

const (
	slowSize = 256 << 10       // bytes of a slow body: more than connections keep for themselves
	overtake = 3 * time.Second // how long a slow upload waits for the one that overtakes it, which may wait in turn

	pacedPause = 1500 * time.Millisecond // between writes of one object, where the store wants one
)

// overtaken begins an upload, has another one come and go in the middle of it, and lets it end.
func overtaken(ctx context.Context, r *run) error {
	slow, ok := r.site().extra().(SlowSaver)
	if !ok {
		return overtakenPut(ctx, r)
	}
	for _, name := range []string{"create", "match"} {
		for n := 1; ; n++ {
			err := r.overtakeOnce(ctx, slow, name, n)
			if err == nil {
				break
			}
			if isOfRun(err) || isFinal(err) || ctx.Err() != nil || n == looks {
				return err
			}
		}
	}
	r.yes(OvertakenUpload, "it is, and what overtook it is there")
	return nil
}

// overtakeOnce tries it with a condition of one kind.
func (r *run) overtakeOnce(ctx context.Context, slow SlowSaver, name string, n int) error {
	key := r.key(fmt.Sprintf("overtaken/%s-%d", name, n))
	p := cas.IfAbsent()
	if name == "match" {
		v, err := r.create(ctx, key, "start")
		if err != nil {
			return err
		}
		if r.isPaced() {
			if err := r.opts.Wait(ctx, pacedPause); err != nil { // else the one that overtakes is refused for its pace
				return err
			}
		}
		p = cas.IfMatch(v)
	}
	return r.overtake(ctx, slow, key, p)
}

// An overtaking is the fast one of two uploads on the same condition.
type overtaking struct {
	once sync.Once
	done chan struct{}
	out  outcome
	err  error
}

func (r *run) overtake(ctx context.Context, slow SlowSaver, key bucket.Key, p cas.Precondition) error {
	s := r.site()
	fast := &overtaking{done: make(chan struct{})}
	begin := func() {
		fast.once.Do(func() {
			go func() {
				defer close(fast.done)
				_, fast.out, fast.err = r.save(ctx, s, key, "fast", p)
			}()
		})
	}
	body := strings.Repeat("slow", slowSize/4)
	_, err := slow.SaveSlowly(ctx, key, []byte(body), p, func() {
		begin()
		late, cancel := context.WithCancel(ctx)
		go func() {
			defer cancel()
			select {
			case <-fast.done:
			case <-late.Done():
			}
		}()
		_ = r.opts.Wait(late, overtake) // a store may let the other one wait for this one
		cancel()
		if r.isPaced() {
			_ = r.opts.Wait(ctx, pacedPause)
		}
	})
	begin()
	<-fast.done
	if fast.err != nil {
		return fast.err
	}
	slowWon := err == nil
	switch {
	case isOfRun(err) || ctx.Err() != nil:
		return errors.Join(err, ctx.Err())
	case err != nil && !errors.Is(err, cas.ErrConflict) && !errors.Is(err, cas.ErrNotExist):
		return fmt.Errorf("the slow upload: %w", err)
	}
	want := "fast"
	switch {
	case slowWon && fast.out == won:
		r.no(OvertakenUpload, "both saves %v were acknowledged", p)
		return nil
	case !slowWon && fast.out != won:
		r.no(OvertakenUpload, "both saves %v were refused", p)
		return nil
	case slowWon:
		want = body
	}
	now, ok, err := r.holds(ctx, key, want)
	if err == nil && !ok {
		r.no(OvertakenUpload, "a save %v was acknowledged, and %.20q is there", p, now.Body)
	}
	return err
}

// overtakenPut is for drivers that have a whole body before they look at a condition: nothing can overtake them. What can
// be seen of them is that half an upload does not show.
func overtakenPut(ctx context.Context, r *run) error {
	s := r.site()
	key := r.key("overtaken/put")
	if err := r.put(ctx, s, key, "start"); err != nil {
		return err
	}
	body := strings.Repeat("slow", slowSize/4)
	var between string
	var inner error
	in := &pausing{Reader: strings.NewReader(body), at: slowSize / 2, midway: func() {
		if inner = r.put(ctx, s, key, "fast"); inner == nil {
			between, inner = r.read(ctx, s.Objects, key)
		}
	}}
	_, err := s.Objects.Put(ctx, key, in)
	if err = errors.Join(err, inner); err != nil {
		return err
	}
	last, err := r.reads(ctx, s, key, body)
	switch {
	case err != nil:
		return err
	case between != "fast":
		r.no(OvertakenUpload, "in the middle of an upload there was %.20q", between)
	case last != body:
		r.no(OvertakenUpload, "after an upload there was %.20q", last)
	}
	r.yes(OvertakenUpload, "half an upload does not show; a conditional one has its whole body before it begins")
	return nil
}

// A pausing reader calls midway once, before it goes on from there.
type pausing struct {
	io.Reader
	at     int
	midway func()
}

func (p *pausing) Read(b []byte) (int, error) {
	if p.at <= 0 && p.midway != nil {
		p.midway()
		p.midway = nil
	}
	if p.at > 0 {
		b = b[:min(len(b), p.at)]
	}
	n, err := p.Reader.Read(b)
	p.at -= n
	return n, err
}
