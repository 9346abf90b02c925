package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/lease"
	"github.com/blobindex/indexd/prune/janitor"
)

// A lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// take returns what was written since the last time.
func (b *lockedBuffer) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.buf.Reset()
	return b.buf.String()
}

// String returns what was written and not taken yet.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// A slowDelete waits before it deletes, whatever becomes of its context.
type slowDelete struct {
	*membucket.Bucket
	takes    atomic.Int64
	deleting func() // called before each
}

func (b *slowDelete) Delete(ctx context.Context, keys []bucket.Key) []error {
	if b.deleting != nil {
		b.deleting()
	}
	time.Sleep(time.Duration(b.takes.Load())) // synctest's
	return b.Bucket.Delete(context.WithoutCancel(ctx), keys)
}

// A scene is the passes of a server over one index in a bubble.
type scene struct {
	t      *testing.T
	store  *slowDelete
	index  *blobindex.Index
	log    *lockedBuffer
	passes *passes
	stop   context.CancelFunc
	usable atomic.Pointer[error] // what is found out of the store's conditions
}

func (s *scene) find(err error) { s.usable.Store(&err) }

func (s *scene) guarded() bool { return *s.usable.Load() == nil }

func newScene(t *testing.T) *scene {
	t.Helper()
	time.Sleep(time.Until(time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC))) // synctest's
	s := &scene{t: t, store: &slowDelete{Bucket: membucket.New(nil)}, log: &lockedBuffer{}}
	var err error
	if s.index, err = blobindex.New(s.store, blobindex.Config{}, nil); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	s.stop = stop
	s.find(nil)
	s.passes = newPasses(ctx, s.store, func(context.Context) error { return *s.usable.Load() }, slog.New(slog.NewTextHandler(s.log, nil)))
	return s
}

// stale puts markers that will be over in three hours, and lets these pass.
func (s *scene) stale(n int) {
	s.t.Helper()
	for i := range n {
		key := bucket.Key(fmt.Sprintf("_active_runs/team/old%d_%d", i, time.Now().UnixMilli()))
		if _, err := s.store.Put(s.t.Context(), key, strings.NewReader("")); err != nil {
			s.t.Fatal(err)
		}
	}
	time.Sleep(3 * time.Hour) // synctest's
}

func (s *scene) left() (n int) {
	s.t.Helper()
	err := s.store.List(s.t.Context(), bucket.ListRequest{Prefix: "_active_runs/"}, func(p bucket.Page) error {
		n += len(p.Objects)
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *scene) lease() *lease.Lease {
	s.t.Helper()
	l, err := lease.New(s.store, "_active_runs", lease.Operator, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

func (s *scene) status() lease.Status {
	s.t.Helper()
	st, err := s.lease().Status(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return st
}

// TestPasses_Scheduled: a server prunes at its interval, leaves the index to an operator who is at work, goes on when that is
// over, and does not guard its passes where conditions cannot be used.
func TestPasses_Scheduled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.stale(3)
		s.store.deleting = func() {
			if st := s.status(); st.Class != lease.Scheduler && s.guarded() {
				t.Errorf("a pass holds the lease as %+v", st)
			}
		}
		s.passes.schedule(s.index, 5*time.Minute)
		time.Sleep(5 * time.Minute)
		if log := s.log.take(); s.left() != 0 || !strings.Contains(log, "msg=pass index=running term=1 namespaces=1 deleted=3 failures=0") {
			t.Errorf("%d left; %s", s.left(), log)
		}
		s.stale(2)
		h, err := s.lease().Acquire(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		s.stale(1)
		log := s.log.take()
		if s.left() != 1 || !strings.Contains(log, "level=INFO msg=lease_held index=running class=operator since=") ||
			strings.Contains(log, "ERROR") {
			t.Errorf("beside an operator: %d left; %s", s.left(), log)
		}
		if err := h.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Minute)
		if log := s.log.take(); s.left() != 0 || !strings.Contains(log, "deleted=1") {
			t.Errorf("after the operator: %d left; %s", s.left(), log)
		}
		s.find(fmt.Errorf("create-only: %w", cas.ErrUnsupported))
		s.stale(1)
		if log := s.log.take(); s.left() != 0 || !strings.Contains(log, "msg=lease_unavailable") || !strings.Contains(log, "create-only") {
			t.Errorf("without conditions: %d left; %s", s.left(), log)
		}
		s.find(errOnTrial)
		s.stale(1)
		if log := s.log.take(); s.left() != 1 || !strings.Contains(log, "it is still being found out") {
			t.Errorf("on trial: %d left; %s", s.left(), log)
		}
		s.stop()
		s.passes.end()
	})
}

// TestPasses_End: a server that is told to stop ends its passes, which let go of their leases first; no pass begins any more.
func TestPasses_End(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.stale(2500)
		s.store.takes.Store(int64(time.Second))
		asked := make(chan error, 1)
		go func() {
			_, err := s.passes.run(t.Context(), s.index, &janitor.RunOptions{})
			asked <- err
		}()
		time.Sleep(time.Second / 2)
		if st := s.status(); st.Class != lease.Operator {
			t.Fatalf("it is not at work: %+v", st)
		}
		began := time.Now()
		s.stop()
		s.passes.end()
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v to end", took)
		}
		if err := <-asked; !errors.Is(err, context.Canceled) {
			t.Errorf("the pass: %v", err)
		}
		if st := s.status(); st.Class != "" || st.Within != 0 || s.left() != 1500 {
			t.Errorf("%d left; %+v", s.left(), st)
		}
		if _, err := s.passes.run(t.Context(), s.index, &janitor.RunOptions{}); !errors.Is(err, errStopping) || !errors.Is(err, context.Canceled) {
			t.Errorf("a pass after the end: %v", err)
		}
	})
}

// TestPasses_EndsInTime: nobody waits for a store that does not answer; the lease opens by itself.
func TestPasses_EndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.stale(10)
		s.store.takes.Store(int64(time.Minute))
		go s.passes.run(t.Context(), s.index, &janitor.RunOptions{}) // until the store answers
		time.Sleep(time.Second)
		began := time.Now()
		s.passes.end() // as after an address that cannot be served any more: nobody was told to stop
		if took := time.Since(began); took != shutdownTime {
			t.Errorf("it took %v", took)
		}
		time.Sleep(2 * time.Minute)
		s.stop()
	})
}

// TestPasses_ClientLeaves: the pass of a client that has left ends, and its lease is let go of.
func TestPasses_ClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.stale(2500)
		s.store.takes.Store(int64(time.Second))
		ctx, leave := context.WithTimeout(t.Context(), time.Second/2)
		defer leave()
		r, err := s.passes.run(ctx, s.index, &janitor.RunOptions{})
		if !errors.Is(err, context.DeadlineExceeded) || total(r.Deleted) != 1000 {
			t.Errorf("%v, %+v", err, r)
		}
		if st := s.status(); st.Class != "" || st.Within != 0 {
			t.Errorf("%+v", st)
		}
		s.stop()
		s.passes.end()
	})
}
