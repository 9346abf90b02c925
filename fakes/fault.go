package fakes

import (
	"fmt"
	"strings"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// An Op is a method of bucket.Objects; the zero value stands for any.
type Op uint8

// The methods.
const (
	AnyOp Op = iota
	List
	Put
	Open
	Head
	Delete
)

var opNames = [...]string{"any", "List", "Put", "Open", "Head", "Delete"}

// String is the method's name.
func (o Op) String() string { return opNames[o] }

// A Match selects calls by their keys; the zero value matches any. The key of a List is its prefix. A Delete matches
// if any of its keys does, and the errors of a fault then befall only those that do.
type Match struct {
	text string
	fn   func(bucket.Key) bool
}

// Exact matches one key.
func Exact(key bucket.Key) Match {
	return Match{fmt.Sprintf("%q", key), func(k bucket.Key) bool { return k == key }}
}

// Prefix matches the keys that begin with prefix, byte by byte.
func Prefix(prefix string) Match {
	return Match{fmt.Sprintf("%q*", prefix), func(k bucket.Key) bool { return strings.HasPrefix(string(k), prefix) }}
}

// Where matches the keys that fn reports; text names it in messages. fn may be called from several goroutines.
func Where(text string, fn func(bucket.Key) bool) Match { return Match{text, fn} }

func (m Match) matches(key bucket.Key) bool { return m.fn == nil || m.fn(key) }

// A Fault says which call is struck, and by what. Several faults may strike one call; Before hooks then run first, in
// the order of the plan, and of two errors for one key or call the one planned first counts.
type Fault struct {
	Op    Op
	Key   Match
	Nth   int  // of the calls that match, counted from 1; 0 is 1
	Every bool // each call that matches, whatever Nth says
	Kind  Kind
}

// String names the fault as it is planned, such as `Put "a/b" #2: applied, then bucket: outcome unknown`.
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(f.Op.String())
	if f.Key.fn != nil {
		b.WriteString(" " + f.Key.text)
	}
	if f.Every {
		b.WriteString(" every")
	} else {
		fmt.Fprintf(&b, " #%d", max(f.Nth, 1))
	}
	return b.String() + ": " + f.Kind.String()
}

// matches says whether the fault's op and key select a call with those keys.
func (f Fault) matches(op Op, keys []bucket.Key) bool {
	if f.Op != AnyOp && f.Op != op {
		return false
	}
	for _, key := range keys {
		if f.Key.matches(key) {
			return true
		}
	}
	return false
}

// A Kind is what a fault does. Kinds are made by the functions of this package.
type Kind struct {
	text string
	on   func(Op) bool // the ops it has a meaning for; nil: all

	before, after func()
	hang          bool
	refuse        error // answered instead of calling the store
	lose          error // answered after the store has carried the call out

	page      int   // of a listing, from 1: the one that fails
	keep      int   // objects of that page that are delivered first; 0 delivers no page
	pageErr   error // of that page
	shuffle   func(pages []bucket.Page)
	time, now func(time.Time) time.Time // of everything told; of Page.Now only
}

// String says what the kind does, in the words of Fault.String.
func (k Kind) String() string { return k.text }

func only(ops ...Op) func(Op) bool {
	return func(op Op) bool {
		for _, o := range ops {
			if o == op {
				return true
			}
		}
		return false
	}
}

func orDefault(err, def error) error {
	if err == nil {
		return def
	}
	return err
}

// NotApplied answers err without calling the store; nil is bucket.ErrThrottled. Of a Delete only the keys that match
// are kept from the store.
func NotApplied(err error) Kind {
	err = orDefault(err, bucket.ErrThrottled)
	return Kind{text: fmt.Sprintf("not applied, %v", err), refuse: err}
}

// AppliedThenLost lets a Put or Delete be carried out and answers err all the same; nil is bucket.ErrUnknown. Of a
// Delete only the keys that match answer it.
func AppliedThenLost(err error) Kind {
	err = orDefault(err, bucket.ErrUnknown)
	return Kind{text: fmt.Sprintf("applied, then %v", err), lose: err, on: only(Put, Delete)}
}

// FailPage lets the n-th page of a listing (from 1) answer err; nil is bucket.ErrIncomplete. The pages before it are
// delivered. A listing that has fewer pages is not struck.
func FailPage(n int, err error) Kind {
	err = orDefault(err, bucket.ErrIncomplete)
	return Kind{text: fmt.Sprintf("page %d fails, %v", n, err), page: n, pageErr: err, on: only(List)}
}

// CutPage delivers the first keep objects of the n-th page (from 1), at least one, and then answers err; nil is
// bucket.ErrIncomplete. A page that has no more than keep objects is not struck.
func CutPage(n, keep int, err error) Kind {
	err = orDefault(err, bucket.ErrIncomplete)
	keep = max(keep, 1)
	text := fmt.Sprintf("page %d is cut after %d objects, %v", n, keep, err)
	return Kind{text: text, page: n, keep: keep, pageErr: err, on: only(List)}
}

// ShufflePages delivers the pages of a listing in an order that depends on seed and is not the right one where there
// are two or more. The listing is not Sorted, and After is refused with bucket.ErrUnsupported.
func ShufflePages(seed uint64) Kind {
	return Kind{text: fmt.Sprintf("pages shuffled by %d", seed), on: only(List),
		shuffle: func(pages []bucket.Page) { shufflePages(pages, seed) }}
}

// ShuffleObjects is ShufflePages for the single objects: each may come on any page.
func ShuffleObjects(seed uint64) Kind {
	return Kind{text: fmt.Sprintf("objects shuffled by %d", seed), on: only(List),
		shuffle: func(pages []bucket.Page) { shuffleObjects(pages, seed) }}
}

// Hang keeps the call until its context is done and answers the context's error, with bucket.ErrUnknown for a write.
// The store is not called.
func Hang() Kind { return Kind{text: "hangs", hang: true} }

// Before calls fn before the call reaches the store; what fn does, the store does first. text names it in messages.
func Before(text string, fn func()) Kind { return Kind{text: "before: " + text, before: fn} }

// After calls fn once the store has answered and before the caller knows: for a List, after its last page.
func After(text string, fn func()) Kind { return Kind{text: "after: " + text, after: fn} }

// ShiftTimes shifts every time that the call tells by d: the store times of Put, Head and List, and Page.Now. With
// Every and AnyOp it is a store whose clock is d ahead.
func ShiftTimes(d time.Duration) Kind {
	return Kind{text: fmt.Sprintf("times shifted by %v", d), on: only(List, Put, Head),
		time: func(t time.Time) time.Time { return shifted(t, d) }}
}

// ShiftNow shifts Page.Now alone: the store's clock has moved on by d since the objects were written.
func ShiftNow(d time.Duration) Kind {
	return Kind{text: fmt.Sprintf("Now shifted by %v", d), on: only(List),
		now: func(t time.Time) time.Time { return shifted(t, d) }}
}

// NoTimes makes the call tell no time at all. With Every and AnyOp it is a store that tells no time.
func NoTimes() Kind {
	return Kind{text: "no times", on: only(List, Put, Head), time: func(time.Time) time.Time { return time.Time{} }}
}

// shifted leaves alone the time that is not told.
func shifted(t time.Time, d time.Duration) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(d)
}
