package lease_test

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/lease"
	"github.com/blobindex/indexd/fakes/explore"
)

// start is when a scenario begins.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// checkpoint is where the holders of some scenarios keep their term, as those do who act on it.
const checkpoint = bucket.Key("checkpoint")

// A host is where an actor runs, and what it does there; zero is as it should be.
type host struct {
	skew   time.Duration // of its wall clock
	step   time.Duration // of its wall clock, at its reading of that number
	at     int
	stamps bool // it keeps its term in the checkpoint before it acts
	tries  int  // to acquire; 0 is once
	renews int  // between acts

	bug       func(cas.Store, *hostClock) cas.Store
	trustsEnd bool // of a renewal, and not its beginning
}

// A hostClock is both clocks of a host, read by one stop where the code reads one after the other.
type hostClock struct {
	env   *explore.Env
	host  host
	reads int
	last  time.Time // by the store's clock
	both  bool      // the wall clock was read, and nothing has happened since
}

func (c *hostClock) read() {
	c.last = c.env.Now()
	c.reads++
}

func (c *hostClock) wall() time.Time {
	c.read()
	c.both = true
	now := c.last.Add(c.host.skew)
	if c.host.step != 0 && c.reads >= c.host.at {
		now = now.Add(c.host.step)
	}
	return now
}

func (c *hostClock) running() time.Duration {
	if !c.both {
		c.read()
	}
	c.both = false
	return c.last.Sub(start)
}

// A watched store is one whose requests take time.
type watched struct {
	cas.Store
	clock *hostClock
}

func (w watched) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	w.clock.both = false
	return w.Store.Load(ctx, key)
}

func (w watched) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	w.clock.both = false
	return w.Store.Save(ctx, key, body, p)
}

// open is the lease as the actor's process has it. Its nonces begin with the name.
func (h host) open(env *explore.Env, name string) (*lease.Lease, *hostClock) {
	n := 0
	clock := &hostClock{env: env, host: h}
	var store cas.Store = watched{env.Store(), clock}
	if h.bug != nil {
		store = h.bug(store, clock)
	}
	l, err := lease.New(store, "running", lease.Operator, &lease.Options{
		TTL: lease.MinTTL, Clock: lease.Clock{Wall: clock.wall, Running: clock.running},
		Document: &cas.Options{
			Now: func() time.Time { return start }, Nonce: func() string { n++; return name + strconv.Itoa(n) },
			Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
		},
	})
	if err != nil {
		panic(err)
	}
	return l, clock
}

// holder acquires the lease, acts as long as the check passes, and lets go of it. It observes "got" with its term, "passed" with
// its term and the store's time of each check that passed, "out", "releasing" and "released".
func (h host) holder(name string) explore.Actor {
	return explore.Actor{Name: name, Run: func(ctx context.Context, env *explore.Env) error {
		l, clock := h.open(env, name)
		for range max(h.tries, 1) {
			after := uint64(0)
			if h.stamps {
				var err error
				if after, _, err = stamped(ctx, env.Store()); err != nil {
					continue
				}
			}
			held, err := l.Try(ctx, lease.AcquireOptions{After: after})
			if err != nil {
				env.Log("not")
				continue
			}
			if h.stamps && !stamp(ctx, env.Store(), held) {
				env.Log("outpaced")
				continue
			}
			env.Log("got", held.Term())
			h.act(ctx, env, held, clock)
			env.Log("releasing")
			if held.Release(ctx) == nil {
				env.Log("released")
			}
			return nil
		}
		return nil
	}}
}

func (h host) act(ctx context.Context, env *explore.Env, held *lease.Held, clock *hostClock) {
	for n := 0; ; n++ {
		if held.Check() != nil {
			env.Log("out")
			return
		}
		env.Log("passed", held.Term(), clock.last.Unix())
		if n == h.renews {
			env.Point("act")
			return
		}
		if held.Renew(ctx) == nil && h.trustsEnd {
			held.TrustFromNow()
		}
	}
}

// stamped returns the term in the checkpoint.
func stamped(ctx context.Context, s cas.Store) (uint64, cas.Object, error) {
	o, err := s.Load(ctx, checkpoint)
	if err != nil {
		return 0, o, err
	}
	term, err := strconv.ParseUint(string(o.Body), 10, 64)
	return term, o, err
}

// stamp puts the term of the holder into the checkpoint, or lets go of the lease.
func stamp(ctx context.Context, s cas.Store, held *lease.Held) bool {
	term, o, err := stamped(ctx, s)
	switch {
	case err != nil:
		_ = held.Release(ctx)
		return false
	case term >= held.Term():
		_ = held.Outpaced(ctx, term)
		return false
	}
	if _, err := s.Save(ctx, checkpoint, []byte(strconv.FormatUint(held.Term(), 10)), cas.IfMatch(o.Version)); err != nil {
		_ = held.Release(ctx)
		return false
	}
	return true
}

// breaker breaks whatever term it sees.
func breaker(name string) explore.Actor {
	return explore.Actor{Name: name, Run: func(ctx context.Context, env *explore.Env) error {
		l, _ := host{}.open(env, name)
		st, err := l.Status(ctx)
		if err == nil {
			_, err = l.Break(ctx, st.Term)
		}
		if err == nil {
			env.Log("broke", st.Term)
		}
		return nil
	}}
}

// deleter deletes the document.
func deleter(name string) explore.Actor {
	return explore.Actor{Name: name, Run: func(ctx context.Context, env *explore.Env) error {
		_ = env.Objects().Delete(ctx, []bucket.Key{key})
		return nil
	}}
}

// free is a lease of term 6 that nobody holds, as the checkpoint knows.
func free(w *explore.World) {
	w.Put(key, `{"format":"lease/1","created":{"nonce":"s1","at":"2026-01-01T00:00:00Z"},"seq":1,"nonce":"s1","recent":[],`+
		`"payload":{"term":6,"class":"","ttl_ms":0,"opens_ms":0,"since":"2026-01-01T00:00:00Z","reason":""}}`, start)
	w.Put(checkpoint, "6", start)
}

// wide is whether this is `make explore`.
func wide() bool { return os.Getenv("INDEXD_EXPLORE") != "" }

// explored searches a scenario for a state that breaks a promise, and wants that somebody observed each of want. Its faults are
// those of `go test`, one in a run; `make explore` has all kinds.
func explored(t *testing.T, s explore.Scenario, want ...string) {
	t.Helper()
	if wide() {
		s.Faults, s.MaxStates = explore.AllFaults, 20_000_000
	}
	searched(t, s, want...)
}

func searched(t *testing.T, s explore.Scenario, want ...string) {
	t.Helper()
	j := newJudge(t)
	explore.Run(t, j.of(s))
	for _, w := range want {
		if j.tally[w] == 0 {
			t.Errorf("there is no %q: %v", w, j.tally)
		}
	}
}

// ticks are steps of time: a lease gets old with and without a renewal, and trust ends before that.
func ticks() explore.Actor {
	if wide() {
		return explore.Clock(5*time.Second, 7*time.Second)
	}
	return explore.Clock(stale + time.Second)
}

// stale is how long a lease of these scenarios is waited for.
const stale = lease.MinTTL + lease.Margin

// often is how often who waits tries.
func often() int {
	if wide() {
		return 2
	}
	return 1
}

// TestP10_Takeover: a holder that renews and lets go of it late, beside one who takes it over, with one fault, crash or step of
// time anywhere.
func TestP10_Takeover(t *testing.T) {
	explored(t, explore.Scenario{Setup: free, Faults: explore.AllFaults, Actors: []explore.Actor{
		host{renews: 1}.holder("a"), host{tries: often()}.holder("b"), ticks(),
	}}, "a got", "b got", "a released", "a out")
}

// TestP10_FirstDocument: there is none yet.
func TestP10_FirstDocument(t *testing.T) {
	explored(t, explore.Scenario{Faults: explore.AppliedLost | explore.AppliedLate, Actors: []explore.Actor{
		host{}.holder("a"), host{}.holder("b"), ticks(),
	}}, "a got", "b got", "a released", "a out")
}

// TestP10_NoStoreTime: the store tells no time, so that who waits looks again.
func TestP10_NoStoreTime(t *testing.T) {
	explored(t, explore.Scenario{Setup: free, NoStoreTime: true, Faults: explore.CrashBefore, Actors: []explore.Actor{
		host{renews: 1}.holder("a"), host{tries: 2}.holder("b"), explore.Clock(stale + time.Second),
	}}, "a got", "b got", "a released", "a out")
}

// TestP10_Break: the lease is broken at any moment.
func TestP10_Break(t *testing.T) {
	explored(t, explore.Scenario{Setup: free, Actors: []explore.Actor{
		host{renews: 1}.holder("a"), host{}.holder("b"), breaker("breaker"), explore.Clock(stale + time.Second),
	}}, "a got", "b got", "breaker broke", "a out")
}

// TestP10_ClockSteps: the wall clock of one of the two steps at any of its readings, while the other's is wrong all the time.
func TestP10_ClockSteps(t *testing.T) {
	faults := explore.Fault(0)
	if wide() {
		faults = explore.AppliedLost
	}
	for i, d := range []time.Duration{-time.Hour, 90 * time.Second, time.Hour} {
		for at := 1; at < 9; at++ {
			if !wide() && at%3 != i {
				continue
			}
			a, b := host{renews: 1, step: d, at: at}, host{tries: often(), skew: d}
			searched(t, explore.Scenario{Setup: free, Faults: faults, Actors: []explore.Actor{a.holder("a"), b.holder("b"), ticks()}},
				"a got", "b got", "a out")
			if !wide() && at > 3 {
				continue
			}
			a, b = host{renews: 1, skew: d}, host{tries: 2, step: d, at: at}
			searched(t, explore.Scenario{Setup: free, NoStoreTime: true, Faults: faults, Actors: []explore.Actor{
				a.holder("a"), b.holder("b"), explore.Clock(stale + time.Second),
			}}, "a got", "b got", "a out")
		}
	}
}

// TestP10_Deleted: the document is deleted at any moment. Who has stamped its term into the checkpoint is the only one who acts,
// and no stamp is lower than one before.
func TestP10_Deleted(t *testing.T) {
	explored(t, explore.Scenario{Setup: free, Actors: []explore.Actor{
		host{stamps: true, renews: 1}.holder("a"), host{stamps: true, tries: often()}.holder("b"), deleter("rm"),
		explore.Clock(lease.DefaultTTL + lease.Margin + time.Second),
	}}, "a got", "b got", "a out", "b outpaced")
}
