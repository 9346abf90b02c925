package live

import (
	"context"
	"errors"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/itemid"
)

// Register is Namespace.Register; once it is acknowledged, the open view of the namespace shows the item.
func (h *Hub) Register(ctx context.Context, n *blobindex.Namespace, id itemid.ID, labels blobindex.Labels) (
	blobindex.Registered, error) {
	r, err := n.Register(ctx, id, labels)
	h.wrote(n, err, func() blobindex.Written { return r.Written(n) })
	return r, err
}

// Heartbeat is Namespace.Heartbeat, as Register is.
func (h *Hub) Heartbeat(ctx context.Context, n *blobindex.Namespace, id itemid.ID) (blobindex.Beat, error) {
	b, err := n.Heartbeat(ctx, id)
	h.wrote(n, err, func() blobindex.Written { return b.Written(n, id) })
	return b, err
}

// Finish is Namespace.Finish; once it is acknowledged, the open view of the namespace does not show the item any more.
func (h *Hub) Finish(ctx context.Context, n *blobindex.Namespace, id itemid.ID, outcome blobindex.Outcome) (
	blobindex.Finished, error) {
	f, err := n.Finish(ctx, id, outcome)
	h.wrote(n, err, func() blobindex.Written { return f.Written(n, id) })
	return f, err
}

// maxOverlay bounds the keys of an overlay: about as many as one process writes while a listing takes its time. What does not
// fit is shown by the next listing.
const maxOverlay = 20_000

// wrote adds an acknowledged key to the overlay of an open view. What may have been written without an acknowledgement is for
// the next listing to tell, which comes soon then.
func (h *Hub) wrote(n *blobindex.Namespace, err error, key func() blobindex.Written) {
	if err != nil && !errors.Is(err, bucket.ErrUnknown) {
		return
	}
	v := h.find(n)
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.open {
		return
	}
	if err == nil {
		v.add(key())
	}
	v.busy(time.Now())
}

// add adds a key. Without a listing there is nothing yet to lay it over, but there may be one under way. The lock is held.
func (v *view) add(key blobindex.Written) {
	if len(v.overlay) >= maxOverlay {
		return
	}
	if v.overlay == nil {
		v.overlay = make(map[string]overlaid)
	}
	v.acks++
	v.overlay[key.Name] = overlaid{key, v.acks}
}
