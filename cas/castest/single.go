package castest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

func absent(e *env) {
	if o, err := e.s.Load(e.Context(), e.key()); !errors.Is(err, cas.ErrNotExist) {
		e.Errorf("Load of what is absent: %+v, %v, want ErrNotExist", o, err)
	}
}

func create(e *env) {
	key := e.key()
	v := e.save(key, "one", cas.IfAbsent())
	e.want(key, "one", v)
}

func createExisting(e *env) {
	key := e.key()
	v := e.save(key, "one", cas.IfAbsent())
	for _, body := range []string{"two", "one"} {
		if got, err := e.s.Save(e.Context(), key, []byte(body), cas.IfAbsent()); !errors.Is(err, cas.ErrConflict) {
			e.Errorf("Save of %q if absent, over another one: %q, %v, want ErrConflict", body, got, err)
		}
	}
	e.want(key, "one", v)
}

func match(e *env) {
	key := e.key()
	v := e.save(key, "one", cas.IfAbsent())
	for _, body := range []string{"two", "three", "", "four"} {
		next := e.save(key, body, cas.IfMatch(v))
		if next == v {
			e.Errorf("the version %s is that of %q and of the body before", v, body)
		}
		v = next
		e.want(key, body, v)
	}
}

func stale(e *env) {
	key := e.key()
	first := e.save(key, "one", cas.IfAbsent())
	second := e.save(key, "two", cas.IfMatch(first))
	other := e.save(e.key(), "another", cas.IfAbsent())
	for name, v := range map[string]cas.Version{"the version before": first, "another object's": other} {
		for _, body := range []string{"six", "two"} { // as long as what is there, and the same
			if got, err := e.s.Save(e.Context(), key, []byte(body), cas.IfMatch(v)); !errors.Is(err, cas.ErrConflict) {
				e.Errorf("Save of %q if match %s: %q, %v, want ErrConflict", body, name, got, err)
			}
		}
	}
	e.want(key, "two", second)
}

// matchAbsent: some stores say of a version that there is no object, others that it does not match. Both are right.
func matchAbsent(e *env) {
	v := e.save(e.key(), "one", cas.IfAbsent())
	key := e.key()
	got, err := e.s.Save(e.Context(), key, []byte("two"), cas.IfMatch(v))
	if !errors.Is(err, cas.ErrNotExist) && !errors.Is(err, cas.ErrConflict) {
		e.Errorf("Save if match where there is nothing: %q, %v, want ErrNotExist or ErrConflict", got, err)
	}
	if _, err := e.s.Load(e.Context(), key); !errors.Is(err, cas.ErrNotExist) {
		e.Errorf("it was created: Load: %v", err)
	}
}

func noPrecondition(e *env) {
	key := e.key()
	v := e.save(key, "one", cas.IfAbsent())
	for _, p := range []cas.Precondition{{}, cas.IfMatch(""), cas.IfMatch("0")} {
		for _, k := range []bucket.Key{key, e.key()} {
			if got, err := e.s.Save(e.Context(), k, []byte("two"), p); !errors.Is(err, cas.ErrPrecondition) {
				e.Errorf("Save %v: %q, %v, want ErrPrecondition", p, got, err)
			}
			if k != key {
				if _, err := e.s.Load(e.Context(), k); !errors.Is(err, cas.ErrNotExist) {
					e.Errorf("Load after it: %v", err)
				}
			}
		}
	}
	e.want(key, "one", v)
}

func bodies(e *env) {
	for _, body := range []string{"", "\x00", "\r\n", strings.Repeat("0123456789abcdef", 1<<16), "\xff\xfe"} {
		key := e.key()
		e.want(key, body, e.save(key, body, cas.IfAbsent()))
	}
}

// backToBefore: what versions are of.
func backToBefore(e *env) {
	key := e.key()
	a := e.save(key, "a", cas.IfAbsent())
	b := e.save(key, "b", cas.IfMatch(a))
	again := e.save(key, "a", cas.IfMatch(b))
	if e.c.ContentVersions != (again == a) {
		e.Errorf("the same body again has the version %s after %s, content versions: %t", again, a, e.c.ContentVersions)
	}
}

func times(e *env) {
	key := e.key()
	before := time.Now()
	v := e.save(key, "one", cas.IfAbsent())
	o := e.want(key, "one", v)
	if !e.c.TellsTime {
		if !o.ModTime.IsZero() || !o.StoreTime.IsZero() {
			e.Errorf("a store that tells no time tells %v and %v", o.ModTime, o.StoreTime)
		}
		return
	}
	// A day of difference is a bug; less may be a clock.
	for name, at := range map[string]time.Time{"ModTime": o.ModTime, "StoreTime": o.StoreTime} {
		if d := at.Sub(before); d < -24*time.Hour || d > 24*time.Hour {
			e.Errorf("%s is %v, at %v", name, at, before)
		}
	}
	if o.ModTime.After(o.StoreTime.Add(2 * time.Second)) {
		e.Errorf("the object is of %v, and it was %v then", o.ModTime, o.StoreTime)
	}
}

// cancelled: an error tells of the context, and never of a conflict; nothing was sent.
func cancelled(e *env) {
	key := e.key()
	v := e.save(key, "one", cas.IfAbsent())
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	if _, err := e.s.Load(ctx, key); !errors.Is(err, context.Canceled) || errors.Is(err, cas.ErrNotExist) {
		e.Errorf("Load under a cancelled context: %v", err)
	}
	for _, p := range []cas.Precondition{cas.IfAbsent(), cas.IfMatch(v)} {
		if _, err := e.s.Save(ctx, key, []byte("two"), p); !errors.Is(err, context.Canceled) || errors.Is(err, cas.ErrConflict) {
			e.Errorf("Save %v under a cancelled context: %v", p, err)
		}
	}
	e.want(key, "one", v)
}

func badKey(e *env) {
	if _, err := e.s.Save(e.Context(), "", nil, cas.IfAbsent()); !errors.Is(err, bucket.ErrInvalidKey) {
		e.Errorf("Save of the empty key: %v", err)
	}
	if _, err := e.s.Load(e.Context(), ""); !errors.Is(err, bucket.ErrInvalidKey) {
		e.Errorf("Load of the empty key: %v", err)
	}
}
