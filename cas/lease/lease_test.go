package lease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas/lease"
)

// TestAcquire_Takeover takes the lease from a holder that ends without letting go of it.
func TestAcquire_Takeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		b := membucket.New(nil)
		one, err := lease.New(b, "running", lease.Operator, nil)
		if err != nil {
			t.Fatal(err)
		}
		two, _ := lease.New(b, "running", lease.Scheduler, nil)
		h, err := one.Acquire(ctx, &lease.AcquireOptions{Reason: "pass"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if err := h.Check(); err != nil {
			t.Fatal(err)
		}
		var held *lease.HeldError
		if _, err := two.Acquire(ctx, nil); !errors.As(err, &held) || held.Status.Class != lease.Operator {
			t.Fatalf("%v", err)
		}
		t.Log(held)
		if err := h.Release(context.WithoutCancel(ctx)); err != nil {
			t.Fatal(err)
		}
		h2, err := two.Acquire(ctx, nil)
		if err != nil || h2.Term() != h.Term()+1 {
			t.Fatal(h2, err)
		}
		defer h2.Release(context.WithoutCancel(ctx))
	})
}
