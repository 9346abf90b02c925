package web

import (
	"cmp"
	"context"
	"net/http"
	"sync"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/live"
)

// streamShares are what each principal holds of the streams that there may be: no more than half, nor streams of more than half
// of the namespaces, or of the shapes of one namespace, so that one token alone leaves room for the others. The rates bound how
// often a stream is opened, and not how many stay. It is safe for concurrent use.
type streamShares struct {
	streams, namespaces, shapes int // the most that one holds

	mu   sync.Mutex
	held map[holder]*holding
}

type holder struct{ issuer, name string }

type heldPlace struct{ index, namespace string }

// A holding is what one holds; what has no stream is not in it.
type holding struct {
	streams int
	shapes  map[heldPlace]map[blobindex.CardsRequest]int // how many streams each has
}

func newStreamShares(opt *live.Options) *streamShares {
	half := func(n, otherwise int) int { return max(1, cmp.Or(max(0, n), otherwise)/2) }
	return &streamShares{
		streams: half(opt.MaxStreams, live.DefaultMaxStreams), namespaces: half(opt.MaxViews, live.DefaultMaxViews),
		shapes: half(opt.MaxShapes, live.DefaultMaxShapes), held: make(map[holder]*holding),
	}
}

// take counts a stream of the caller's until release is called, once. Its error is a problem. Without authentication all callers
// are this host, and hold what there is.
func (s *streamShares) take(ctx context.Context, n *blobindex.Namespace, req blobindex.CardsRequest) (release func(), err error) {
	p := caller(ctx)
	if p == nil {
		return func() {}, nil
	}
	who := holder{p.Issuer, p.Name}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[who]
	if h == nil {
		h = &holding{shapes: make(map[heldPlace]map[blobindex.CardsRequest]int)}
	}
	at := heldPlace{n.Index().Name(), n.Name()}
	shapes := h.shapes[at]
	if h.streams >= s.streams || shapes == nil && len(h.shapes) >= s.namespaces || shapes[req] == 0 && len(shapes) >= s.shapes {
		return nil, &problem{
			status: http.StatusTooManyRequests, code: codeRate, retry: true,
			detail: "These are more streams, or streams of more kinds, than one caller may have open.",
			action: "End some of them: streams of the same namespace and query cost least.",
		}
	}
	s.held[who] = h
	h.add(at, req)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if h.remove(at, req); h.streams == 0 {
			delete(s.held, who)
		}
	}, nil
}

func (h *holding) add(at heldPlace, req blobindex.CardsRequest) {
	h.streams++
	if h.shapes[at] == nil {
		h.shapes[at] = make(map[blobindex.CardsRequest]int)
	}
	h.shapes[at][req]++
}

func (h *holding) remove(at heldPlace, req blobindex.CardsRequest) {
	h.streams--
	shapes := h.shapes[at]
	if shapes[req]--; shapes[req] == 0 {
		delete(shapes, req)
	}
	if len(shapes) == 0 {
		delete(h.shapes, at)
	}
}
