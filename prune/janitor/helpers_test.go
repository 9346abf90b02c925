package janitor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/lease"
	"github.com/blobindex/indexd/prune/janitor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	checkpointKey = bucket.Key("_indexd/janitor/_active_runs")
	leaseKey      = bucket.Key("_indexd/lease/_active_runs")
)

// A world is a bucket in a bubble, whose clock is that of all.
type world struct {
	t *testing.T
	*membucket.Bucket
}

// inBubble runs a test from an instant in 2026, and again on a store that counts its versions.
func inBubble(t *testing.T, test func(w *world)) {
	t.Helper()
	for name, generations := range map[string]bool{"hashes": false, "generations": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)))
				test(&world{t, membucket.New(&membucket.Options{Generations: generations})})
			})
		})
	}
}

// wire is a way of its own to the bucket, as each process has one.
func (w *world) wire() *wire { return &wire{Bucket: w.Bucket} }

// janitor is that of a process of its own.
func (w *world) janitor(on *wire, opts janitor.Options) *janitor.Janitor {
	w.t.Helper()
	if on == nil {
		on = w.wire()
	}
	x, err := blobindex.New(on, blobindex.Config{}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	opts.Store = on
	return janitor.New(x, &opts)
}

// place stores n empty markers of a namespace, whose ids are dated so long ago.
func (w *world) place(namespace string, n int, age time.Duration) {
	w.t.Helper()
	for i := range n {
		w.put(fmt.Sprintf("_active_runs/%s/%s", namespace, markerName(i, time.Now().Add(-age))), "")
	}
}

func markerName(i int, at time.Time) string { return fmt.Sprintf("s%06d_%d", i, at.Unix()) }

func (w *world) put(key, body string) {
	w.t.Helper()
	if _, err := w.Put(w.t.Context(), bucket.Key(key), strings.NewReader(body)); err != nil {
		w.t.Fatal(err)
	}
}

// old are namespaces with so many markers each that have gone stale since, and one live marker each.
func (w *world) old(n int, namespaces ...string) {
	w.t.Helper()
	for _, name := range namespaces {
		w.place(name, n, 0)
	}
	time.Sleep(3 * time.Hour)
	for _, name := range namespaces {
		w.put("_active_runs/"+name+"/live_"+fmt.Sprint(time.Now().Unix()), "")
	}
}

// all is the whole bucket, with bodies and store times.
func (w *world) all() string {
	w.t.Helper()
	var text strings.Builder
	err := w.List(w.t.Context(), bucket.ListRequest{}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			fmt.Fprintln(&text, o.Key, o.StoreTime, w.body(o.Key))
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return text.String()
}

// body is that of an object, empty if there is none.
func (w *world) body(key bucket.Key) string {
	w.t.Helper()
	r, err := w.Open(w.t.Context(), key)
	if errors.Is(err, bucket.ErrNotExist) {
		return ""
	}
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Close()
	body, err := io.ReadAll(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(body)
}

// markers counts the keys of the index, by namespace; a namespace without is left out.
func (w *world) markers() map[string]int {
	w.t.Helper()
	count := map[string]int{}
	err := w.List(w.t.Context(), bucket.ListRequest{Prefix: "_active_runs/"}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			count[strings.Split(string(o.Key), "/")[1]]++
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return count
}

// A noted is a checkpoint as it is stored.
type noted struct {
	Term       uint64                    `json:"term"`
	PassedAt   time.Time                 `json:"passed_at,omitzero"`
	Namespaces map[string]notedNamespace `json:"namespaces"`
}

type notedNamespace struct {
	Failures int       `json:"failures"`
	RetryAt  time.Time `json:"retry_at"`
	PassedAt time.Time `json:"passed_at,omitzero"`
}

// checkpoint is the one that is stored, zero if there is none.
func (w *world) checkpoint() noted {
	w.t.Helper()
	body := w.body(checkpointKey)
	if body == "" {
		return noted{}
	}
	var e struct{ Payload noted }
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		w.t.Fatal(err)
	}
	return e.Payload
}

// plant saves a checkpoint as another process would.
func (w *world) plant(n noted) {
	w.t.Helper()
	if n.Namespaces == nil {
		n.Namespaces = map[string]notedNamespace{}
	}
	doc := cas.NewDoc[noted](w.Bucket, checkpointKey, "janitor/1", nil)
	_, err := doc.Update(w.t.Context(), func(next *noted, _ cas.State[noted]) error {
		*next = n
		return nil
	}, &cas.UpdateOptions{Create: true})
	if err != nil {
		w.t.Fatal(err)
	}
}

// lease is the index's lease as a process of its own sees it.
func (w *world) lease(on cas.Store) *lease.Lease {
	w.t.Helper()
	l, err := lease.New(on, "_active_runs", lease.Scheduler, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// acquire holds the lease until the function is called.
func (w *world) acquire() (release func()) {
	w.t.Helper()
	h, err := w.lease(w.Bucket).Acquire(w.t.Context(), &lease.AcquireOptions{Reason: "pass"})
	if err != nil {
		w.t.Fatal(err)
	}
	return func() {
		if err := h.Release(w.t.Context()); err != nil {
			w.t.Error(err)
		}
	}
}

// wantFree checks that anybody may have the lease at once.
func (w *world) wantFree() {
	w.t.Helper()
	if st, err := w.lease(w.Bucket).Status(w.t.Context()); err != nil || st.Class != "" || st.Within != 0 {
		w.t.Errorf("the lease is %+v, %v", st, err)
	}
}

// mustRun is a pass that comes to its end.
func mustRun(t *testing.T, j *janitor.Janitor, opt *janitor.RunOptions) janitor.Report {
	t.Helper()
	r, err := j.Run(t.Context(), opt)
	if err != nil {
		t.Fatalf("%v (%+v)", err, r)
	}
	return r
}

// sum is the number of keys.
func sum(byReason map[string]int) (n int) {
	for _, c := range byReason {
		n += c
	}
	return n
}

// A request is one on a wire: of a Delete with its keys, of a List with its prefix.
type request struct {
	op   string // load, save, list or delete
	keys []bucket.Key
}

func (r request) String() string {
	if r.op == "delete" {
		return fmt.Sprintf("delete %d", len(r.keys))
	}
	return r.op + " " + string(r.keys[0])
}

func (r request) is(op string, key bucket.Key) bool { return r.op == op && r.keys[0] == key }

// A setting is something that a test changes while others look at it.
type setting[T any] struct {
	mu sync.Mutex
	v  T // under mu
}

func (s *setting[T]) set(v T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.v = v
}

func (s *setting[T]) get() T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.v
}

// A fate is what becomes of a request.
type fate struct {
	refuse error // answered instead of carrying it out
	lose   error // answered after it was carried out
}

// A wire is a way to a bucket on which requests meet with their fates.
type wire struct {
	*membucket.Bucket
	strike func(n int, r request) fate // of the n-th request from 1; called without a lock
	deny   func(bucket.Key) error      // of a key that is to be deleted

	listing func(context.Context) // called before each page
	mute    bool                  // pages tell no time

	mu    sync.Mutex // guards asked
	asked []request
}

func (w *wire) begin(op string, keys ...bucket.Key) fate {
	w.mu.Lock()
	r := request{op, slices.Clone(keys)}
	w.asked = append(w.asked, r)
	n := len(w.asked)
	w.mu.Unlock()
	if w.strike == nil {
		return fate{}
	}
	return w.strike(n, r)
}

// requests are those so far, in words.
func (w *wire) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var words []string
	for _, r := range w.asked {
		words = append(words, r.String())
	}
	return words
}

// count tells how many requests were of each kind: a page of a listing is one.
func (w *wire) count() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := map[string]int{}
	for _, r := range w.asked {
		n[r.op]++
	}
	return n
}

func (w *wire) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	f := w.begin("load", key)
	if f.refuse != nil {
		return cas.Object{}, f.refuse
	}
	o, err := w.Bucket.Load(ctx, key)
	if f.lose != nil {
		return cas.Object{}, f.lose
	}
	return o, err
}

func (w *wire) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	f := w.begin("save", key)
	if f.refuse != nil {
		return "", f.refuse
	}
	v, err := w.Bucket.Save(ctx, key, body, p)
	if f.lose != nil {
		return "", f.lose
	}
	return v, err
}

func (w *wire) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	return w.Bucket.List(ctx, req, func(p bucket.Page) error {
		if f := w.begin("list", bucket.Key(req.Prefix)); f.refuse != nil || f.lose != nil {
			return errors.Join(f.refuse, f.lose)
		}
		if w.listing != nil {
			if w.listing(ctx); ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if w.mute {
			p.Now = time.Time{}
		}
		return fn(p)
	})
}

func (w *wire) Delete(ctx context.Context, keys []bucket.Key) []error {
	f := w.begin("delete", keys...)
	errs := make([]error, len(keys))
	for i, key := range keys {
		if errs[i] = f.refuse; errs[i] == nil && w.deny != nil {
			errs[i] = w.deny(key)
		}
		if errs[i] == nil {
			errs[i] = errors.Join(w.Bucket.Delete(ctx, []bucket.Key{key})...)
		}
		if f.lose != nil {
			errs[i] = f.lose
		}
	}
	if !slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		return nil
	}
	return errs
}

func (w *wire) Put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	w.begin("put", key)
	return w.Bucket.Put(ctx, key, body)
}

// at strikes one request with a fate: the nth of that kind, of that key if it is not empty.
func at(nth int, op string, key bucket.Key, f func() fate) func(int, request) fate {
	var mu sync.Mutex
	seen := 0
	return func(_ int, r request) fate {
		mu.Lock()
		hit := r.op == op && (key == "" || r.keys[0] == key)
		if hit {
			seen++
		}
		hit = hit && seen == nth
		mu.Unlock()
		if !hit {
			return fate{}
		}
		return f()
	}
}

// wantText checks that a text holds the words.
func wantText(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%q is not in %q", word, text)
		}
	}
}
