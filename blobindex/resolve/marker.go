package resolve

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
)

// Marker reads the labels in the marker's body: title, owner and url. It says of every item that it is running, and
// costs one request for a marker that has a body, none for one that has not.
type Marker struct {
	objects bucket.Objects
}

// NewMarker returns a Marker on the bucket that holds the index.
func NewMarker(objects bucket.Objects) *Marker { return &Marker{objects} }

var _ blobindex.Resolver = (*Marker)(nil)

// MaxRequests is 1 for a marker with a body, else 0.
func (m *Marker) MaxRequests(t blobindex.Target) int {
	if t.Body > 0 {
		return 1
	}
	return 0
}

// Resolve reads the labels. A marker that has gone meanwhile has none; a body that holds no labels is an error that
// wraps blobindex.ErrLabels.
func (m *Marker) Resolve(ctx context.Context, t blobindex.Target) (blobindex.Status, error) {
	s := blobindex.Status{State: blobindex.Running, Requests: m.MaxRequests(t)}
	if s.Requests == 0 {
		return s, nil
	}
	body, err := read(ctx, m.objects, t.Marker, blobindex.MaxLabels)
	if errors.Is(err, bucket.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	labels, err := blobindex.ParseLabels(body)
	if err != nil {
		return s, fmt.Errorf("reading the labels of %q: %w", t.Marker, err)
	}
	s.Title, s.Owner, s.URL = text(labels["title"]), text(labels["owner"]), link(labels["url"])
	return s, nil
}

// errTooLarge is the error for an object that is longer than its kind may be.
var errTooLarge = errors.New("resolve: object too large")

// read returns the body of an object of at most limit bytes.
func read(ctx context.Context, objects bucket.Objects, key bucket.Key, limit int64) (body []byte, err error) {
	r, err := objects.Open(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("opening %q: %w", key, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	body, err = io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", key, err)
	}
	if int64(len(body)) > limit {
		return nil, fmt.Errorf("reading %q: %w: it is longer than %d bytes", key, errTooLarge, limit)
	}
	return body, nil
}
