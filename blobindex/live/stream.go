package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/blobindex/indexd/blobindex"
)

// A Stream is the events of one shape from one place on. It holds no goroutine, and little memory. Its methods are not safe for
// concurrent use, but for Close.
type Stream struct {
	sh    *shape
	pos   uint64 // of the event that was told last
	first *Event
	close sync.Once
}

// Subscribe opens a stream of a request's events. It waits for the first view, as Cards does, and has the same errors. With the
// id of an event of which all successors are kept the stream goes on after it; with another one, or none, it begins with a
// snapshot, flagged Reset if there was an id.
func (h *Hub) Subscribe(ctx context.Context, n *blobindex.Namespace, req blobindex.CardsRequest, lastEventID string) (
	*Stream, error) {
	req, err := n.Check(req)
	if err != nil {
		return nil, err
	}
	if err := h.admit(); err != nil {
		return nil, err
	}
	v, err := h.use(n)
	if err != nil {
		h.dismiss()
		return nil, err
	}
	s, err := v.subscribe(ctx, req, lastEventID)
	if err != nil {
		v.leave()
		h.dismiss()
		return nil, err
	}
	h.observe(v, Observation{Kind: Opened})
	return s, nil
}

// admit counts a stream.
func (h *Hub) admit() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.streams >= h.opt.MaxStreams {
		return fmt.Errorf("%w: %d streams", ErrTooMany, h.streams)
	}
	h.streams++
	return nil
}

func (h *Hub) dismiss() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.streams--
}

func (v *view) subscribe(ctx context.Context, req blobindex.CardsRequest, last string) (*Stream, error) {
	if _, err := v.refresh(ctx); err != nil {
		return nil, err
	}
	r := v.read()
	buried := r.snapshot.Buried()
	cards, err := v.cards(ctx, r, req)
	if err != nil {
		return nil, err
	}
	sh, err := v.join(req)
	if err != nil {
		return nil, err
	}
	sh.advance(cards, r.version, buried)
	s := &Stream{sh: sh}
	if err := s.begin(last); err != nil {
		v.part(sh)
		return nil, err
	}
	v.stir() // it lists from now on, and what has changed meanwhile is told
	return s, nil
}

// join adds a stream to the shape of a request.
func (v *view) join(req blobindex.CardsRequest) (*shape, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	// Whoever ends the streams looks for them when it has said so.
	if v.ended != nil || v.h.streamsEnded.Load() {
		return nil, ErrClosed
	}
	sh := v.shapes[req]
	if sh == nil {
		if len(v.shapes) >= v.h.opt.MaxShapes {
			for other, idle := range v.shapes {
				if idle.streams == 0 {
					delete(v.shapes, other)
				}
			}
		}
		if len(v.shapes) >= v.h.opt.MaxShapes {
			return nil, fmt.Errorf("%w: %d shapes of namespace %q", ErrTooMany, len(v.shapes), v.n.Name())
		}
		sh = v.newShape(req)
		v.shapes[req] = sh
	}
	sh.streams++
	v.streams++
	return sh, nil
}

// part takes a stream off its shape.
func (v *view) part(sh *shape) {
	v.mu.Lock()
	defer v.mu.Unlock()
	sh.streams--
	v.streams--
	v.abandon()
}

// begin places the stream after the event of that id, or at the last one.
func (s *Stream) begin(last string) error {
	s.sh.mu.Lock()
	defer s.sh.mu.Unlock()
	if seq, ok := position(last, s.sh.v.epoch, s.sh.digest); ok && seq <= s.sh.seq && s.sh.seq-seq <= uint64(len(s.sh.ring)) {
		s.pos = seq
		return nil
	}
	first, err := s.sh.begin(last != "")
	if err != nil {
		return err
	}
	s.pos, s.first = s.sh.seq, first
	return nil
}

// Next waits for the next event. Errors: ErrSlow, ErrClosed, what Options.Encode returned, and the context's.
func (s *Stream) Next(ctx context.Context) (Event, error) {
	for {
		e, ready, err := s.TryNext()
		if err != nil || ready == nil {
			return e, err
		}
		select {
		case <-ready:
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}

// TryNext returns the next event if there is one, else a channel that is closed when it is worth another try. Errors: as for
// Next.
func (s *Stream) TryNext() (Event, <-chan struct{}, error) {
	if s.first != nil {
		e := *s.first
		s.first = nil
		return e, nil, nil
	}
	e, ready, err := s.sh.next(s.pos)
	if err == nil && ready == nil {
		s.pos++
	}
	if errors.Is(err, ErrSlow) {
		s.sh.v.h.observe(s.sh.v, Observation{Kind: Slow})
	}
	return e, ready, err
}

// Close ends the stream. It may be called again.
func (s *Stream) Close() {
	s.close.Do(func() {
		v := s.sh.v
		v.part(s.sh)
		v.leave()
		v.h.dismiss()
		v.h.observe(v, Observation{Kind: Ended})
	})
}

// publish leads the streams to what there is now. The error is the Hub's end.
func (v *view) publish() error {
	r := v.read()
	shapes := v.streamed()
	views := make([]blobindex.View, len(shapes))
	var buried uint64
	// What is found to be over for one shape may be counted by another. It comes to an end, since each item ends once; three
	// times is enough to have no stream wait for all of them.
	for range 3 {
		buried = r.snapshot.Buried()
		for i, sh := range shapes {
			var err error
			if views[i], err = v.cards(v.h.ctx, r, sh.req); err != nil {
				return err
			}
		}
		if r.snapshot.Buried() == buried {
			break
		}
	}
	changed := false
	for i, sh := range shapes {
		changed = sh.advance(views[i], r.version, buried) || changed
	}
	if changed {
		v.mu.Lock()
		v.busy(time.Now())
		v.mu.Unlock()
	}
	return nil
}

// streamed are the shapes with streams.
func (v *view) streamed() []*shape {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []*shape
	for _, sh := range v.shapes {
		if sh.streams > 0 {
			out = append(out, sh)
		}
	}
	return out
}
