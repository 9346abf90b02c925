package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobindex/indexd/cas"
)

// TestTrial: all who ask share one try; who has waited long enough is told that it goes on; what it found is told to who asks
// then; it ends with the process, which waits for it.
func TestTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		broken := errors.New("broken")
		var tries, cleaned atomic.Int32
		trial := newTrial(ctx, func(ctx context.Context) error {
			tries.Add(1)
			defer cleaned.Add(1)
			select {
			case <-time.After(time.Minute):
				return broken
			case <-ctx.Done():
				time.Sleep(time.Second) // synctest's: what was made is deleted
				return ctx.Err()
			}
		})
		usable := trial.usable
		started := time.Now()
		answers := make(chan error, 8)
		for range cap(answers) {
			go func() { answers <- usable(t.Context()) }()
		}
		for range cap(answers) {
			if err := <-answers; !errors.Is(err, errOnTrial) {
				t.Errorf("while it goes on: %v", err)
			}
		}
		if took := time.Since(started); took != trialWait || tries.Load() != 1 {
			t.Errorf("%d tries, waited %v", tries.Load(), took)
		}
		time.Sleep(time.Minute - trialWait - time.Second)
		if err := usable(t.Context()); !errors.Is(err, broken) || tries.Load() != 1 {
			t.Errorf("at its end: %v after %d tries", err, tries.Load())
		}
		if err := usable(t.Context()); !errors.Is(err, errOnTrial) || tries.Load() != 2 {
			t.Errorf("after a failure: %v after %d tries", err, tries.Load())
		}
		asked, end := context.WithCancel(t.Context())
		end()
		if err := usable(asked); !errors.Is(err, context.Canceled) {
			t.Errorf("asked by who is gone: %v", err)
		}
		cancel()
		trial.end()
		if cleaned.Load() != 2 {
			t.Errorf("%d of 2 tries have ended", cleaned.Load())
		}
	})
}

// TestTrial_Patient: who cannot go on without the answer waits for it.
func TestTrial_Patient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trial := newTrial(t.Context(), func(ctx context.Context) error {
			select {
			case <-time.After(2 * time.Minute):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		defer trial.end()
		trial.waitFor(trialTime)
		if err := trial.usable(t.Context()); err != nil {
			t.Errorf("patiently: %v", err)
		}
		trial.waitFor(trialWait)
		if err := trial.usable(t.Context()); !errors.Is(err, errOnTrial) {
			t.Errorf("no more: %v", err)
		}
	})
}

// TestTrial_Ends: a server that is told to stop, or fails to start, ends the try, and does not wait for a store that does
// not answer.
func TestTrial_Ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cleaning := func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Minute)
			return ctx.Err()
		}
		for name, x := range map[string]struct {
			before time.Duration // since the signal
			want   time.Duration
		}{"at the signal": {0, shutdownTime}, "after requests were waited for": {shutdownTime, 0}} {
			ctx, cancel := context.WithCancel(t.Context())
			trial := newTrial(ctx, cleaning)
			trial.enter()
			cancel()
			time.Sleep(x.before)
			began := time.Now()
			if trial.end(); time.Since(began) != x.want {
				t.Errorf("%s: it took %v, want %v", name, time.Since(began), x.want)
			}
		}
		trial := newTrial(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		f, _ := trial.enter()
		trial.end()
		if <-f.done; !errors.Is(f.err, context.Canceled) {
			t.Errorf("where it fails to start: %v", f.err)
		}
		time.Sleep(time.Minute) // nothing is left running
	})
}

// TestChecks: /readyz tells what a server knows of conditional writes and of rules, without asking anybody.
func TestChecks(t *testing.T) {
	var answer error
	trial := newTrial(t.Context(), func(context.Context) error { return answer })
	defer trial.end()
	all := checks(trial, nil, nil)
	if more := checks(trial, nil, func() error { return nil }); len(more) != len(all)+1 || more[len(all)].Name != "issuer" {
		t.Errorf("with an issuer: %v", more)
	}
	kinds := func() (s string) {
		for _, c := range all {
			kind, err := c.Do(t.Context())
			s += fmt.Sprintf("%s=%s,%t ", c.Name, kind, err != nil)
			if c.Needed {
				t.Errorf("%s is said to be needed", c.Name)
			}
		}
		return s
	}
	if got := kinds(); got != "cas=untried,false rules=ok,false " {
		t.Error(got)
	}
	for _, tc := range []struct {
		err  error
		want string
	}{
		{nil, "cas=usable,false rules=ok,false "},
		{fmt.Errorf("x: %w", cas.ErrUnsupported), "cas=unusable,true rules=ok,false "},
		{cas.ErrThrottled, "cas=,true rules=ok,false "}, // its kind is that of the error
	} {
		answer = tc.err
		if err := trial.usable(t.Context()); !errors.Is(err, tc.err) {
			t.Fatal(err)
		}
		if got := kinds(); got != tc.want {
			t.Errorf("%v: %s, want %s", tc.err, got, tc.want)
		}
	}
}
