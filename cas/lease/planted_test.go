package lease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/lease"
	"github.com/blobindex/indexd/fakes/explore"
)

// Each of the types below plants a bug below the code of the package, where it acts as if the code had it.

// anyState saves whatever the condition is, if of that body it is to.
type anyState struct {
	cas.Store
	of func(lease.Payload) bool
}

func (a anyState) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	d, err := decode(string(body))
	if err != nil {
		return "", err
	}
	if !p.Absent() && a.of(d.Payload) {
		o, err := a.Store.Load(ctx, key)
		if err != nil {
			return "", err
		}
		p = cas.IfMatch(o.Version)
	}
	return a.Store.Save(ctx, key, body, p)
}

// sameTerm makes who acquires go on with the term that it finds.
type sameTerm struct{ cas.Store }

func (s sameTerm) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	o, err := s.Store.Load(ctx, key)
	if d, bad := decode(string(o.Body)); err == nil && bad == nil {
		o.Body = []byte(replaceTerm(string(o.Body), d.Payload.Term, d.Payload.Term-1))
	}
	return o, err
}

// ownTime takes the host's wall clock for the store's.
type ownTime struct {
	cas.Store
	clock *hostClock
}

func (o ownTime) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	got, err := o.Store.Load(ctx, key)
	if err == nil {
		got.StoreTime = o.clock.wall()
	}
	return got, err
}

// TestP10_Planted: the explorer finds each of these bugs, and nothing where there is none.
func TestP10_Planted(t *testing.T) {
	renewals := func() func(lease.Payload) bool {
		n := 0
		return func(p lease.Payload) bool { n++; return n > 1 && p.Class != "" }
	}
	for _, c := range []struct {
		name  string
		a, b  host
		plant func(a, b *host)
		want  string
	}{
		{
			name: "renew without condition", a: host{renews: 1}, want: "what is stored has term",
			plant: func(a, _ *host) {
				a.bug = func(s cas.Store, _ *hostClock) cas.Store { return anyState{s, renewals()} }
			},
		}, {
			name: "release without exact version", a: host{renews: 1}, want: "what is stored has term",
			plant: func(a, _ *host) {
				a.bug = func(s cas.Store, _ *hostClock) cas.Store {
					return anyState{s, func(p lease.Payload) bool { return p.Class == "" }}
				}
			},
		}, {
			name: "term not raised", want: "both got term 7",
			plant: func(_, b *host) { b.bug = func(s cas.Store, _ *hostClock) cas.Store { return sameTerm{s} } },
		}, {
			name: "trust from when the renewal ended", a: host{renews: 1}, want: "passed its check",
			plant: func(a, _ *host) { a.trustsEnd = true },
		}, {
			name: "stale by the local wall clock", a: host{renews: 1}, b: host{skew: 90 * time.Second}, want: "passed its check",
			plant: func(_, b *host) {
				b.bug = func(s cas.Store, c *hostClock) cas.Store { return ownTime{s, c} }
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			scenario := func(a, b host) explore.Scenario {
				return newJudge(t).of(explore.Scenario{Setup: free, Actors: []explore.Actor{
					a.holder("a"), b.holder("b"), explore.Clock(stale + time.Second),
				}})
			}
			explore.Run(t, scenario(c.a, c.b))
			c.plant(&c.a, &c.b)
			broken := scenario(c.a, c.b)
			_, err := explore.Search(t, broken)
			var found *explore.Failure
			if !errors.As(err, &found) || !strings.Contains(fmt.Sprint(found.Err), c.want) {
				t.Fatalf("%v, want one that says that %s", err, c.want)
			}
			t.Logf("%s\nfound: %s", found.Err, found.Schedule)
			if again := explore.Replay(t, broken, found.Schedule); again == nil || again.Error() != found.Error() {
				t.Errorf("replayed, it is another failure: %v", again)
			}
		})
	}
}
