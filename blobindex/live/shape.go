package live

import (
	"fmt"
	"strconv"
	"sync"

	"github.com/blobindex/indexd/blobindex"
)

// maxRing is about how many bytes of events are kept of a shape.
const maxRing = 1 << 20

// A shape is one request, and the events of all streams that asked for it.
type shape struct {
	v      *view
	req    blobindex.CardsRequest
	digest string
	// streams is how many there are, guarded by the view's mu.
	streams int

	mu      sync.Mutex // taken after the view's
	view    blobindex.View
	version uint64 // of the view, and how many items were known to be over
	buried  uint64
	seq     uint64  // of the last event; the first one is the view that the shape began with
	ring    []Event // the last ones
	bytes   int     // of their data
	whole   [2]*Event
	ready   chan struct{} // closed when there is more to say
	err     error         // why the streams end
}

func (v *view) newShape(req blobindex.CardsRequest) *shape {
	return &shape{v: v, req: req, digest: digest(req), ready: make(chan struct{})}
}

// shows tells whether the streams have been told of that version.
func (sh *shape) shows(version, buried uint64) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.err != nil || sh.version == version && sh.buried == buried
}

// advance leads the streams to a view; an older one than they have is passed over. changed tells whether there was anything
// to tell.
func (sh *shape) advance(view blobindex.View, version, buried uint64) (changed bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.err != nil || sh.seq > 0 && (version < sh.version || version == sh.version && buried <= sh.buried) {
		return false
	}
	before := sh.view
	sh.view, sh.version, sh.buried, sh.whole = view, version, buried, [2]*Event{}
	if sh.seq == 0 {
		sh.seq = 1
		return false
	}
	for _, e := range diff(before, view) {
		sh.seq++
		e.ID, e.Prev = sh.id(sh.seq), sh.id(sh.seq-1)
		if err := sh.encode(&e); err != nil {
			sh.fail(err)
			return true
		}
		sh.push(e)
		changed = true
	}
	if changed {
		close(sh.ready)
		sh.ready = make(chan struct{})
	}
	return changed
}

func (sh *shape) id(seq uint64) string {
	return sh.v.epoch + "-" + sh.digest + "-" + strconv.FormatUint(seq, 10)
}

func (sh *shape) push(e Event) {
	sh.ring = append(sh.ring, e)
	sh.bytes += len(e.Data)
	for len(sh.ring) > 1 && (len(sh.ring) > sh.v.h.opt.Buffer || sh.bytes > maxRing) {
		sh.bytes -= len(sh.ring[0].Data)
		sh.ring[0] = Event{}
		sh.ring = sh.ring[1:]
	}
}

// encode makes the data of an event, and drops what it was made of.
func (sh *shape) encode(e *Event) error {
	if sh.v.h.opt.Encode == nil {
		return nil
	}
	data, err := sh.v.h.opt.Encode(*e)
	if err != nil {
		return fmt.Errorf("encoding an event of namespace %q: %w", sh.v.n.Name(), err)
	}
	e.Data, e.View, e.Removed = data, blobindex.View{}, nil
	return nil
}

// begin is the event that a stream begins with: the whole view, under the id of the last event. The lock is held.
func (sh *shape) begin(reset bool) (*Event, error) {
	i := 0
	if reset {
		i = 1
	}
	if sh.whole[i] == nil {
		e := &Event{Kind: Snapshot, ID: sh.id(sh.seq), Reset: reset, View: sh.view}
		if e.View.Cost = (blobindex.Cost{}); sh.seq > 1 {
			e.Prev = sh.id(sh.seq - 1)
		}
		if err := sh.encode(e); err != nil {
			return nil, err
		}
		sh.whole[i] = e
	}
	return sh.whole[i], nil
}

// next returns the event after a position, or what to wait for.
func (sh *shape) next(pos uint64) (Event, <-chan struct{}, error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	behind := sh.seq - pos
	switch {
	case sh.err != nil:
		return Event{}, nil, sh.err
	case behind == 0:
		return Event{}, sh.ready, nil
	case behind > uint64(len(sh.ring)):
		return Event{}, nil, ErrSlow
	}
	return sh.ring[uint64(len(sh.ring))-behind], nil, nil
}

// end ends the streams with an error.
func (sh *shape) end(err error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.fail(err)
}

func (sh *shape) fail(err error) {
	if sh.err == nil {
		sh.err = err
		close(sh.ready)
	}
}
