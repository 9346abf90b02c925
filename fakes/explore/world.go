package explore

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// A digest stands for what was hashed into it: 128 bits, so that equal means equal.
type digest [16]byte

// A hasher collects the parts of a digest; each part carries its length, so that no two lists of parts look alike.
type hasher struct{ buf []byte }

func (h *hasher) str(s string) *hasher {
	h.buf = binary.AppendUvarint(h.buf, uint64(len(s)))
	h.buf = append(h.buf, s...)
	return h
}

func (h *hasher) num(n int64) *hasher {
	h.buf = binary.AppendVarint(h.buf, n)
	return h
}

func (h *hasher) sub(d digest) *hasher {
	h.buf = append(h.buf, d[:]...)
	return h
}

func (h *hasher) time(t time.Time) *hasher {
	return h.num(t.Unix()).num(int64(t.Nanosecond()))
}

func (h *hasher) sum() digest {
	full := sha256.Sum256(h.buf)
	return digest(full[:16])
}

type object struct {
	key  bucket.Key
	body string
	time time.Time
}

// A world is the store at one instant. It is a value: its slices are never written to, so that a copy is a snapshot.
type world struct {
	objects []object // ascending by key
	clock   time.Time
	late    []*request // answered with ErrUnknown, still to be carried out
	digest  digest     // of all of the above, by sealed; zero after a change
}

func (w world) find(key bucket.Key) (int, bool) {
	i := sort.Search(len(w.objects), func(i int) bool { return w.objects[i].key >= key })
	return i, i < len(w.objects) && w.objects[i].key == key
}

func (w world) with(o object) world {
	i, found := w.find(o.key)
	w.digest = digest{}
	if found {
		w.objects = slices.Clone(w.objects)
		w.objects[i] = o
		return w
	}
	grown := make([]object, 0, len(w.objects)+1)
	w.objects = append(append(append(grown, w.objects[:i]...), o), w.objects[i:]...)
	return w
}

func (w world) without(key bucket.Key) world {
	if i, found := w.find(key); found {
		w.digest = digest{}
		w.objects = slices.Delete(slices.Clone(w.objects), i, i+1)
	}
	return w
}

// on is w with its clock moved.
func (w world) on(d time.Duration) world {
	w.digest = digest{}
	w.clock = w.clock.Add(d)
	return w
}

// sending is w with one more request on its way.
func (w world) sending(r *request) world {
	w.digest = digest{}
	w.late = append(slices.Clip(w.late), r)
	return w
}

// delivered is w without the i-th of the requests on their way.
func (w world) delivered(i int) world {
	w.digest = digest{}
	w.late = slices.Delete(slices.Clone(w.late), i, i+1)
	return w
}

// sealed is w with its digest brought up to date.
func (w world) sealed() world {
	if w.digest != (digest{}) {
		return w
	}
	var h hasher
	h.time(w.clock).num(int64(len(w.objects)))
	for _, o := range w.objects {
		h.str(string(o.key)).str(o.body).time(o.time)
	}
	for _, r := range w.late {
		h.num(int64(r.actor)).str(r.text)
	}
	w.digest = h.sum()
	return w
}

// An op is what a request asks for. Its value is the order in which the pending requests of one actor are named.
type op uint8

const (
	opList op = iota
	opPut
	opOpen
	opHead
	opDelete
	opLoad
	opSave
	opNow
	opPoint
	opTick
)

func (o op) writes() bool { return o == opPut || o == opDelete || o == opSave }
func (o op) reads() bool  { return o == opList || o == opOpen || o == opHead || o == opLoad }

// A request is one stop of an actor. But for reply it does not change once it is posted.
type request struct {
	actor int
	op    op
	key   bucket.Key // of an object; the prefix of a listing; the label of a point
	body  string
	on    cas.Precondition // of a save
	after bucket.Key       // of a listing
	cont  bucket.Key       // the last key of the page before
	page  int              // counted from 1
	step  time.Duration
	text  string // names the request among the pending ones of its actor; set by describe
	reply chan answer
}

// describe spells the request out, with all that can tell two of them apart.
func (r *request) describe() string {
	key := strconv.Quote(string(r.key))
	switch r.op {
	case opList:
		s := "list " + key + " page " + strconv.Itoa(r.page)
		if r.after != "" {
			s += " after " + strconv.Quote(string(r.after))
		}
		if r.page > 1 {
			s += " from " + strconv.Quote(string(r.cont))
		}
		return s
	case opPut:
		if r.body != "" {
			return "put " + key + " " + abridged(r.body)
		}
		return "put " + key
	case opOpen:
		return "open " + key
	case opHead:
		return "head " + key
	case opDelete:
		return "delete " + key
	case opLoad:
		return "load " + key
	case opSave:
		return "save " + key + " " + abridged(r.body) + " " + r.on.String()
	case opNow:
		return "read the clock"
	case opPoint:
		return "point " + key
	default:
		return "tick " + r.step.String()
	}
}

// abridged is a quoted body, of a long one the beginning and a digest that tells it from others.
func abridged(body string) string {
	const most = 200
	if len(body) <= most {
		return strconv.Quote(body)
	}
	d := new(hasher).str(body).sum()
	return fmt.Sprintf("%q... (%d bytes, %x)", body[:most/2], len(body), d[:8])
}

// An answer is what the store says to a request.
type answer struct {
	err    error
	page   bucket.Page
	more   bool // another page follows
	body   string
	object bucket.Object
	time   time.Time
}

// hash adds all that an actor can see of the answer.
func (a *answer) hash(h *hasher) {
	if a.err != nil {
		h.str("error").str(a.err.Error())
		return
	}
	h.time(a.page.Now).num(int64(len(a.page.Objects)))
	for _, o := range a.page.Objects {
		h.str(string(o.Key)).num(o.Size).time(o.StoreTime)
	}
	if a.more {
		h.str("more")
	}
	h.str(a.body).num(a.object.Size).time(a.object.StoreTime).time(a.time)
}

// brief is the answer as a line of a schedule shows it.
func (a *answer) brief(r *request) string {
	switch {
	case a.err != nil:
		return a.err.Error()
	case r.op == opList:
		keys := make([]string, len(a.page.Objects))
		for i, o := range a.page.Objects {
			keys[i] = string(o.Key)
		}
		s := "[" + strings.Join(keys, " ") + "]"
		if a.more {
			s += " more"
		}
		return s
	case r.op == opOpen, r.op == opLoad:
		return strconv.Quote(a.body)
	case r.op == opNow || r.op == opTick:
		return a.time.Format("15:04:05.999")
	default:
		return "ok"
	}
}

// apply carries the request out and answers it. It is pure: the state after a step is known before any actor has
// run on.
func (s *Scenario) apply(w world, r *request) (world, answer) {
	told := func(t time.Time) time.Time {
		if s.NoStoreTime {
			return time.Time{}
		}
		return t
	}
	switch r.op {
	case opList:
		return w, s.list(w, r, told)
	case opPut:
		return w.with(object{key: r.key, body: r.body, time: w.clock}), answer{time: told(w.clock)}
	case opDelete:
		return w.without(r.key), answer{}
	case opSave:
		return s.save(w, r)
	case opOpen, opHead, opLoad:
		i, found := w.find(r.key)
		if !found {
			return w, answer{err: fmt.Errorf("reading %q: %w", r.key, bucket.ErrNotExist)}
		}
		o := w.objects[i]
		switch r.op {
		case opOpen:
			return w, answer{body: o.body}
		case opLoad:
			return w, answer{body: o.body, object: bucket.Object{StoreTime: told(o.time)}, time: told(w.clock)}
		}
		return w, answer{object: bucket.Object{Key: o.key, Size: int64(len(o.body)), StoreTime: told(o.time)}}
	case opNow:
		return w, answer{time: w.clock.Add(s.Actors[r.actor].Skew)}
	case opTick:
		w = w.on(r.step)
		return w, answer{time: w.clock}
	default:
		return w, answer{}
	}
}

// save carries out a conditional write. What is there is named by a hash of its body, as an ETag does.
func (s *Scenario) save(w world, r *request) (world, answer) {
	i, found := w.find(r.key)
	switch {
	case r.on.Absent() && found, !r.on.Absent() && found && version(w.objects[i].body) != r.on.Version():
		return w, answer{err: fmt.Errorf("%s: %w", r.text, cas.ErrConflict)}
	case !r.on.Absent() && !found:
		return w, answer{err: fmt.Errorf("%s: %w", r.text, bucket.ErrNotExist)}
	}
	return w.with(object{key: r.key, body: r.body, time: w.clock}), answer{}
}

func version(body string) cas.Version {
	d := new(hasher).str(body).sum()
	return cas.Version(hex.EncodeToString(d[:]))
}

// list answers one page: the keys that follow the last one of the page before, as the store is now.
func (s *Scenario) list(w world, r *request, told func(time.Time) time.Time) answer {
	a := answer{page: bucket.Page{Now: told(w.clock), Sorted: !s.Unsorted}}
	for i := range w.objects {
		o := w.objects[i]
		if s.Unsorted {
			o = w.objects[len(w.objects)-1-i]
		}
		switch {
		case !strings.HasPrefix(string(o.key), string(r.key)), o.key <= r.after:
			continue
		case r.page > 1 && !s.Unsorted && o.key <= r.cont, r.page > 1 && s.Unsorted && o.key >= r.cont:
			continue
		}
		if len(a.page.Objects) == s.PageSize {
			a.more = true
			break
		}
		listed := bucket.Object{Key: o.key, Size: int64(len(o.body)), StoreTime: told(o.time)}
		a.page.Objects = append(a.page.Objects, listed)
	}
	return a
}

// strike is apply under a fault. The answer means nothing if the fault is a crash.
func (s *Scenario) strike(w world, r *request, f Fault) (world, answer) {
	switch f {
	case none:
		return s.apply(w, r)
	case Refused:
		return w, answer{err: fmt.Errorf("%s: %w", r.text, bucket.ErrThrottled)}
	case FailedRead:
		return w, answer{err: fmt.Errorf("%s: %w", r.text, bucket.ErrThrottled)}
	case NotApplied:
		return w, lost(r)
	case AppliedLost:
		w, _ = s.apply(w, r)
		return w, lost(r)
	case AppliedLate:
		return w.sending(r), lost(r)
	case CrashAfter:
		w, _ = s.apply(w, r)
		return w, answer{}
	default: // CrashBefore
		return w, answer{}
	}
}

// lost is the one answer of all writes whose outcome is not told: an actor cannot tell them apart.
func lost(r *request) answer {
	return answer{err: fmt.Errorf("%s: %w", r.text, bucket.ErrUnknown)}
}

// faultsOf are the kinds that can strike the request. A crash after a request that wrote nothing is the crash
// before it.
func (r *request) faultsOf() Fault {
	switch {
	case r.op == opTick:
		return none
	case r.op.writes():
		return AllFaults &^ FailedRead
	case r.op.reads():
		return FailedRead | CrashBefore
	default:
		return CrashBefore
	}
}
