package metrics

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// The operations on a store.
const (
	opList   = "list"
	opGet    = "get"
	opPut    = "put"
	opHead   = "head"
	opDelete = "delete"
	opLoad   = "load"
	opSave   = "save"
)

type storeMetrics struct {
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	keys      *prometheus.CounterVec
}

func (s *storeMetrics) register(reg prometheus.Registerer) {
	s.requests = counter("indexd_store_requests_total", "Requests of the store, by operation and result: each page of a listing, "+
		"and up to 1000 keys of a delete, is one.", "op", "result")
	s.durations = histogram("indexd_store_request_duration_seconds",
		"Time until the store had answered a request, with the driver's own retries, by operation.", "op")
	s.keys = counter("indexd_store_delete_keys_total", "Keys of deletes, by result.", "result")
	reg.MustRegister(s.requests, s.durations, s.keys)
	// What has not happened yet stands at zero, so that its first time is seen as an increase.
	for _, op := range []string{opList, opGet, opPut, opHead, opDelete, opLoad, opSave} {
		s.requests.WithLabelValues(op, "ok")
	}
}

func (s *storeMetrics) done(op string, took time.Duration, err error) {
	s.requests.WithLabelValues(op, result(err)).Inc()
	s.durations.WithLabelValues(op).Observe(took.Seconds())
}

// result names what became of a request. An open outcome comes first, as everywhere: such an error often says as well what the
// store ran into.
func result(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, bucket.ErrUnknown):
		return "unknown"
	case errors.Is(err, bucket.ErrNotExist):
		return "not_found"
	case errors.Is(err, bucket.ErrDenied):
		return "denied"
	case errors.Is(err, bucket.ErrThrottled):
		return "throttled"
	case errors.Is(err, cas.ErrConflict):
		return "conflict"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return "unavailable"
}

// Objects returns the store with its requests counted. It is a cas.Store too if the store is one. What else a driver offers is
// to be looked for in the driver itself: what is asked of it that way is not counted.
func (m *Metrics) Objects(store bucket.Objects) bucket.Objects {
	o := &objects{m, store}
	if c, ok := store.(cas.Store); ok {
		return &documents{o, c}
	}
	return o
}

// An objects counts what is asked of its store.
type objects struct {
	m    *Metrics
	next bucket.Objects
}

var _ bucket.Objects = (*objects)(nil)

func (o *objects) since(began time.Time) time.Duration { return o.m.now().Sub(began) }

func (o *objects) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	began := o.m.now()
	var own error
	err := o.next.List(ctx, req, func(p bucket.Page) error {
		o.m.store.done(opList, o.since(began), nil)
		own = fn(p)
		began = o.m.now() // what the caller does with a page is not the store's time
		return own
	})
	if err != nil && own == nil {
		o.m.store.done(opList, o.since(began), err)
	}
	return err
}

func (o *objects) Put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	began := o.m.now()
	t, err := o.next.Put(ctx, key, body)
	o.m.store.done(opPut, o.since(began), err)
	return t, err
}

func (o *objects) Open(ctx context.Context, key bucket.Key) (io.ReadCloser, error) {
	began := o.m.now()
	body, err := o.next.Open(ctx, key)
	o.m.store.done(opGet, o.since(began), err)
	return body, err
}

func (o *objects) Head(ctx context.Context, key bucket.Key) (bucket.Object, error) {
	began := o.m.now()
	object, err := o.next.Head(ctx, key)
	o.m.store.done(opHead, o.since(began), err)
	return object, err
}

func (o *objects) Delete(ctx context.Context, keys []bucket.Key) []error {
	began := o.m.now()
	errs := o.next.Delete(ctx, keys)
	took := o.since(began)
	for lo := 0; lo < len(keys); lo += bucket.PageSize {
		hi := min(lo+bucket.PageSize, len(keys))
		var first error
		for i := lo; i < hi; i++ {
			var err error
			if errs != nil {
				err = errs[i]
			}
			if first == nil {
				first = err
			}
			o.m.store.keys.WithLabelValues(result(err)).Inc()
		}
		o.m.store.done(opDelete, took, first)
	}
	return errs
}

// A documents is an objects whose store has conditional writes.
type documents struct {
	*objects
	next cas.Store
}

var _ cas.Store = (*documents)(nil)

func (d *documents) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	began := d.m.now()
	o, err := d.next.Load(ctx, key)
	d.m.store.done(opLoad, d.since(began), err)
	return o, err
}

func (d *documents) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	began := d.m.now()
	v, err := d.next.Save(ctx, key, body, p)
	d.m.store.done(opSave, d.since(began), err)
	return v, err
}
