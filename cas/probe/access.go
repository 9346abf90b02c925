package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// access is what these credentials may do, as far as it was tried: nil where it worked.
type access struct {
	tried                           bool
	listing, writing, reading, dels error
}

// why says what keeps a step from writing, or nothing.
func (r *run) why() string {
	for _, x := range []struct {
		err error
		act string
	}{{r.can.writing, "write"}, {r.can.reading, "read"}, {r.can.dels, "delete, so that nothing could be cleaned up"}} {
		if errors.Is(x.err, bucket.ErrDenied) {
			return "these credentials may not " + x.act + ": " + r.plain(x.err)
		}
	}
	return ""
}

// accessName is the object that every site must show.
const accessName = "access"

// accessStep tries each kind of request at each site, sees that all sites lead to one bucket, and removes what killed runs
// have left.
func accessStep(ctx context.Context, r *run) error {
	shared := r.key(accessName)
	for i := range r.sites {
		s := &r.sites[i]
		key := shared
		if i > 0 {
			key = r.key(fmt.Sprintf("%s-%d", accessName, i+1))
		}
		a, err := r.enter(ctx, s, key)
		if err != nil {
			return fatal{fmt.Errorf("%s: %w", s.Name, err)}
		}
		r.can = r.can.with(a)
	}
	r.permission(PermissionReader, r.can.listing, r.can.reading)
	r.permission(PermissionProducer, r.can.writing, r.can.listing, r.can.dels)
	r.permission(PermissionJanitor, r.can.listing, r.can.reading, r.can.writing, r.can.dels)
	if r.can.listing == nil && r.can.dels == nil {
		r.sweep(ctx)
	}
	return nil
}

// with is what works at both of two sites.
func (a access) with(b access) access {
	return access{
		tried: true, listing: first(a.listing, b.listing), writing: first(a.writing, b.writing),
		reading: first(a.reading, b.reading), dels: first(a.dels, b.dels),
	}
}

// shows is ErrSites where a site does not show what the first one has stored.
func (r *run) shows(ctx context.Context, s *Site) error {
	if !r.can.tried || r.can.writing != nil || r.can.reading != nil {
		return nil
	}
	if _, err := s.Objects.Head(ctx, bucket.Key(r.root+accessName)); errors.Is(err, bucket.ErrNotExist) {
		return ErrSites
	}
	return nil
}

// enter does at a site what every run begins with. Its error ends the run.
func (r *run) enter(ctx context.Context, s *Site, key bucket.Key) (a access, err error) {
	a.tried = true
	a.listing = s.Objects.List(ctx, bucket.ListRequest{Prefix: r.root}, func(bucket.Page) error { return nil })
	if isOfRun(a.listing) || errors.Is(a.listing, bucket.ErrNotExist) {
		return a, a.listing
	}
	if err := r.shows(ctx, s); err != nil {
		return a, err
	}
	a.writing = r.put(ctx, s, key, "access")
	if isOfRun(a.writing) || ctx.Err() != nil {
		return a, first(a.writing, ctx.Err())
	}
	if errors.Is(a.listing, bucket.ErrDenied) && errors.Is(a.writing, bucket.ErrDenied) {
		return a, fmt.Errorf("these credentials may neither list nor write: %w", a.writing)
	}
	if a.listing != nil && a.writing != nil {
		return a, fmt.Errorf("neither listing nor writing works: %w; %w", a.listing, a.writing)
	}
	_, a.reading = s.Objects.Head(ctx, key)
	if a.writing != nil && errors.Is(a.reading, bucket.ErrNotExist) {
		a.reading = nil
	}
	if other := r.key(string(key[len(r.root):]) + "-delete"); a.writing == nil && r.put(ctx, s, other, "access") == nil {
		a.dels = r.remove(ctx, s, other)
	}
	for _, err := range []error{a.reading, a.dels} {
		if isOfRun(err) {
			return a, err
		}
	}
	return a, ctx.Err()
}

func (r *run) permission(id ID, needed ...error) {
	for _, err := range needed {
		if errors.Is(err, bucket.ErrDenied) {
			r.no(id, "%s", r.plain(err))
			return
		}
	}
	for _, err := range needed {
		if err != nil {
			r.unsure(id, "%s", r.plain(err))
			return
		}
	}
	r.yes(id, "tried each")
}

func wrongSecret(ctx context.Context, r *run) error {
	if r.opts.WrongSecret == nil {
		return nil
	}
	switch err := r.opts.WrongSecret(ctx); {
	case err == nil:
		r.no(WrongSecret, "a listing with a wrong secret was answered")
	case errors.Is(err, bucket.ErrDenied):
		r.yes(WrongSecret, "%s", r.plain(err))
	default:
		return err
	}
	return nil
}

func absentBucket(ctx context.Context, r *run) error {
	if r.opts.AbsentBucket == nil {
		return nil
	}
	switch err := r.opts.AbsentBucket(ctx); {
	case err == nil:
		r.no(AbsentBucket, "a listing of a bucket that does not exist was answered as one of an empty bucket")
	case errors.Is(err, bucket.ErrNotExist):
		r.yes(AbsentBucket, "%s", r.plain(err))
	default:
		return err
	}
	return nil
}

// settings asks how the bucket is set up.
func settings(ctx context.Context, r *run) error {
	s, ok := r.sites[0].extra().(Settings)
	if !ok {
		return nil
	}
	for name, id := range map[string]ID{"versioning": Versioning, "soft-delete": SoftDelete, "retention": Retention,
		"object-lock": Retention} {
		switch text, err := s.Setting(ctx, name); {
		case isOfRun(err):
			return err
		case errors.Is(err, bucket.ErrUnsupported):
			if id == Versioning {
				r.unsure(id, "this store does not say")
			}
		case err != nil:
			r.unsure(id, "it may not be seen: %s", r.plain(err))
		case text == "off":
			r.yes(id, "it is off")
		case id == Versioning && strings.HasPrefix(text, "suspended"):
			r.yes(id, "it is suspended: former versions stay, and no new ones are kept")
		case name == "object-lock":
			r.noAs(nil, id, "%s; what is replaced or deleted stays as a former version", text)
		default:
			r.no(id, "%s", text)
		}
	}
	return lifecycle(ctx, r)
}

// lifecycle looks for rules that delete what stands for a long time.
func lifecycle(ctx context.Context, r *run) error {
	e, ok := r.sites[0].extra().(Expirer)
	if !ok {
		return nil
	}
	const ours = "_indexd/"
	err := e.Expirations(ctx, func(prefix, what string) {
		if strings.HasPrefix(prefix, ours) || strings.HasPrefix(ours, prefix) {
			r.no(Lifecycle, "a rule for %q %s", prefix, what)
		} else {
			r.remark(Lifecycle, "a rule for %q %s", prefix, what)
		}
	})
	switch {
	case isOfRun(err):
		return err
	case errors.Is(err, bucket.ErrUnsupported):
		r.unsure(Lifecycle, "this store does not say")
	case err != nil:
		r.unsure(Lifecycle, "it may not be seen: %s", r.plain(err))
	default:
		r.yes(Lifecycle, "no rule does")
	}
	return nil
}

// applies reports whether a question makes sense of this kind of store, and can be tried at all.
func (r *run) applies(id ID) bool {
	var ok bool
	x := r.sites[0].extra()
	_, batches := x.(Batcher)
	switch id {
	case WrongSecret:
		return r.opts.WrongSecret != nil
	case AbsentBucket:
		return r.opts.AbsentBucket != nil
	case IfMatchQuoted, IfMatchUnquoted, URLEncoding: // what S3 has
		_, ok = x.(Quoter)
	case ListPrefix, PageCap:
		_, ok = x.(Pager)
	case ReadCondition, DeleteCondition:
		_, ok = x.(Conditioner)
	case MetadataCondition: // what Cloud Storage has
		_, ok = x.(Conditioner)
		ok = ok && !batches
	case BatchDelete, BatchDeleteCondition:
		ok = batches
	case ControlKeys, PathAliases:
		_, ok = x.(Unguarder)
	case CreateOverMarker:
		_, ok = x.(Settings)
		ok = ok && !r.is(Versioning, Yes)
	default:
		return true
	}
	return ok
}
