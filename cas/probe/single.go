package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// absentObject asks for what nobody has written.
func absentObject(ctx context.Context, r *run) error {
	if errors.Is(r.can.reading, bucket.ErrDenied) {
		return r.can.reading
	}
	s := r.site()
	for name, ask := range map[string]func(bucket.Key) error{
		"reading":  func(k bucket.Key) error { _, err := s.Store.Load(ctx, k); return err },
		"metadata": func(k bucket.Key) error { _, err := s.Objects.Head(ctx, k); return err },
	} {
		key := r.key("absent/" + name)
		switch err := r.tries(ctx, func() error { return ask(key) }); {
		case err == nil:
			r.no(AbsentObject, "%s: there is something", name)
		case isOfRun(err) || ctx.Err() != nil || !isFinal(err):
			return err // that a store is busy, or fails, is no answer to this
		case !errors.Is(err, bucket.ErrNotExist):
			r.no(AbsentObject, "%s: %s", name, r.plain(err))
		}
	}
	r.yes(AbsentObject, "it is")
	return nil
}

// versions looks whether the versions of one object can be told apart, and whether all that tell them say the same.
func versions(ctx context.Context, r *run) error {
	key := r.key("versions/object")
	v, err := r.create(ctx, key, "aaaa")
	if err != nil {
		return r.noVersion(err)
	}
	all := []cas.Version{v}
	for i, body := range []string{"aaaa", "bbbb", "cccc"} {
		if i > 0 { // as long as the one before, and right after it
			if v, err = r.replace(ctx, key, body, v); err != nil {
				return r.noVersion(err)
			}
			if slices.Contains(all, v) {
				r.no(Versions, "the version %s is that of %q and of another body", v, body)
				return errAlike
			}
			all = append(all, v)
		}
		if err := r.agree(ctx, key, body, v); err != nil {
			return r.noVersion(err)
		}
	}
	if r.is(Versions, No) {
		return errAlike
	}
	r.yes(Versions, "such as %s", v)
	return r.kind(ctx)
}

// errAlike: what versions are of is no question then.
var errAlike = errors.New("versions do not tell one state from another")

// noVersion makes a no of an answer without a version.
func (r *run) noVersion(err error) error {
	if errors.Is(err, cas.ErrNoVersion) {
		r.no(Versions, "%s", r.plain(err))
	}
	return err
}

// agree asks all that tell the version of an object.
func (r *run) agree(ctx context.Context, key bucket.Key, body string, v cas.Version) error {
	o, ok, err := r.holds(ctx, key, body)
	if err != nil {
		return err
	}
	if !ok || o.Version != v {
		r.no(Versions, "a write told the version %s, reading tells %s", v, o.Version)
	}
	m, is := r.sites[0].extra().(MetaReader)
	if !is {
		return nil
	}
	switch meta, err := m.MetadataVersion(ctx, key); {
	case err != nil:
		return err
	case meta != v:
		r.no(Versions, "a write told the version %s, the metadata tells %s", v, meta)
	}
	return nil
}

// kind looks what versions are of: a store must not do it now so and now so.
func (r *run) kind(ctx context.Context) error {
	key := r.key("versions/kind")
	first, err := r.create(ctx, key, "a")
	if err != nil {
		return err
	}
	between, err := r.replace(ctx, key, "b", first)
	if err != nil {
		return err
	}
	again, err := r.replace(ctx, key, "a", between)
	if err != nil {
		return err
	}
	other, err := r.create(ctx, r.key("versions/other"), "a")
	if err != nil {
		return err
	}
	switch {
	case again == first && other == first:
		r.yes(VersionKind, "of the content: the same body has the same version again")
	case again != first && other != first:
		r.yes(VersionKind, "of the write: the same body has another version")
	default:
		r.no(VersionKind, "the same body had the versions %s, %s, and under another key %s", first, again, other)
	}
	return nil
}

// refuses sends a save that must be refused, and holds what is there to what must still be there; "" is nothing.
func (r *run) refuses(ctx context.Context, id ID, key bucket.Key, body string, p cas.Precondition, still string) error {
	v, o, err := r.save(ctx, r.site(), key, body, p)
	if err != nil {
		return err
	}
	if o == won {
		r.no(id, "a save %v was answered as carried out, with the version %s", p, v)
	}
	if still == "" {
		gone, err := r.gone(ctx, key)
		if err == nil && !gone {
			r.no(id, "a save %v made an object", p)
		}
		return err
	}
	now, ok, err := r.holds(ctx, key, still)
	if err == nil && !ok {
		r.no(id, "after a save %v there is %.40q instead of %q", p, now.Body, still)
	}
	return err
}

func createOnly(ctx context.Context, r *run) error {
	key := r.key("create/existing")
	if _, err := r.create(ctx, key, "one"); err != nil {
		return err
	}
	for _, body := range []string{"two", "six"} {
		if err := r.refuses(ctx, CreateOnly, key, body, cas.IfAbsent(), "one"); err != nil {
			return err
		}
	}
	r.yes(CreateOnly, "it is, and the first object is unchanged")
	return nil
}

// createAgain creates what was deleted before, which leaves a delete marker in a bucket with versions.
func createAgain(ctx context.Context, r *run) error {
	key := r.key("create/again")
	if _, err := r.create(ctx, key, "one"); err != nil {
		return err
	}
	if err := r.remove(ctx, r.site(), key); err != nil {
		return err
	}
	if gone, err := r.gone(ctx, key); err != nil || !gone {
		return errors.Join(err, errors.New("the object is still there after its delete"))
	}
	_, o, err := r.save(ctx, r.site(), key, "two", cas.IfAbsent())
	if err != nil {
		return err
	}
	_, ok, err := r.holds(ctx, key, "two")
	if err != nil {
		return err
	}
	id := CreateAfter
	switch {
	case r.is(Versioning, No):
		id = CreateOverMarker
		r.unsure(CreateAfter, "each delete here leaves a delete marker")
	case r.is(Versioning, Unsure):
		r.unsure(CreateOverMarker, "whether the bucket keeps versions is not to be seen")
	}
	if o == won && ok {
		r.yes(id, "it can")
	} else {
		r.no(id, "the create was refused, though nothing is there")
	}
	return nil
}

// rightVersion saves on the version that is there: as it came, and then without its quotes where that can be done. What
// works is what the driver does from here on.
func rightVersion(ctx context.Context, r *run) error {
	key := r.key("match/right")
	v, err := r.create(ctx, key, "body 0")
	if err != nil {
		return err
	}
	asCame, err := r.matches(ctx, key, "body 1", &v)
	if err != nil {
		return err
	}
	plainly := false
	if r.quoter(&r.sites[0]) != nil && (!r.brief || !asCame) {
		r.form(IfMatchQuoted, asCame)
		r.unquote(true)
		if plainly, err = r.matches(ctx, key, "body 2", &v); err != nil {
			r.unquote(false)
			return err
		}
		r.form(IfMatchUnquoted, plainly)
		r.unquote(!asCame && plainly)
	}
	works, err := r.matches(ctx, key, "body 3", &v)
	switch {
	case err != nil:
		return err
	case works && r.unquoted:
		r.yes(IfMatch, "it is, with the version without its quotes")
	case works:
		r.yes(IfMatch, "it is")
	default:
		r.no(IfMatch, "a save %v was refused, though that is the current one", cas.IfMatch(v))
	}
	return nil
}

func (r *run) form(id ID, works bool) {
	if works {
		r.yes(id, "it is")
	} else {
		r.no(id, "it is refused")
	}
}

// matches saves on the current version v, and reports whether that was carried out; v is the next one then.
func (r *run) matches(ctx context.Context, key bucket.Key, body string, v *cas.Version) (bool, error) {
	next, o, err := r.save(ctx, r.site(), key, body, cas.IfMatch(*v))
	if err != nil || o == refused {
		return false, err
	}
	now, ok, err := r.holds(ctx, key, body)
	if err == nil && !ok {
		r.no(IfMatch, "a save of %q was acknowledged, and %.40q is there", body, now.Body)
	}
	*v = next
	return ok, err
}

func (r *run) quoter(s *Site) Quoter {
	q, _ := s.extra().(Quoter)
	return q
}

func (r *run) unquote(on bool) {
	r.unquoted = on
	for i := range r.sites {
		if q := r.quoter(&r.sites[i]); q != nil {
			q.UnquotedIfMatch(on)
		}
	}
}

func stale(ctx context.Context, r *run) error {
	key := r.key("match/stale")
	first, err := r.create(ctx, key, "one")
	if err != nil {
		return err
	}
	if _, err := r.replace(ctx, key, "two", first); err != nil {
		return err
	}
	other, err := r.create(ctx, r.key("match/other"), "another")
	if err != nil {
		return err
	}
	for i, v := range []cas.Version{first, other} {
		if err := r.refuses(ctx, IfMatchStale, key, fmt.Sprintf("no%d", i), cas.IfMatch(v), "two"); err != nil {
			return err
		}
	}
	r.yes(IfMatchStale, "it is, and the object is unchanged")
	return nil
}

func matchAbsent(ctx context.Context, r *run) error {
	v, err := r.create(ctx, r.key("match/elsewhere"), "one")
	if err != nil {
		return err
	}
	if err := r.refuses(ctx, IfMatchAbsent, r.key("match/absent"), "two", cas.IfMatch(v), ""); err != nil {
		return err
	}
	r.yes(IfMatchAbsent, "it is, and nothing was made")
	return nil
}

func impossible(ctx context.Context, r *run) error {
	key := r.key("match/impossible")
	v, err := r.create(ctx, key, "one")
	if err != nil {
		return err
	}
	if err := r.refuses(ctx, Impossible, key, "two", cas.IfMatch(unlike(v)), "one"); err != nil {
		return err
	}
	r.yes(Impossible, "it is, and the object is unchanged")
	return nil
}

// unlike is a version of the same form that the object has never had.
func unlike(v cas.Version) cas.Version {
	text := []byte(v)
	for i, c := range text {
		switch {
		case c == '1':
			text[i] = '2'
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f', 'A' <= c && c <= 'F':
			text[i] = '1'
		}
	}
	return cas.Version(text)
}

// otherConditions tries those that indexd does not use.
func otherConditions(ctx context.Context, r *run) error {
	c, ok := r.sites[0].extra().(Conditioner)
	if !ok {
		return nil
	}
	for request, id := range map[string]ID{"read": ReadCondition, "metadata": MetadataCondition, "delete": DeleteCondition,
		"batch-delete": BatchDeleteCondition} {
		key := r.key("other/" + request)
		first, err := r.create(ctx, key, "one")
		if err != nil {
			return err
		}
		if _, err := r.replace(ctx, key, "two", first); err != nil {
			return err
		}
		err = r.tries(ctx, func() error { return c.Conditional(ctx, request, key, first) })
		switch {
		case isOfRun(err) || ctx.Err() != nil:
			return err
		case errors.Is(err, bucket.ErrUnsupported):
			continue
		case err != nil && !errors.Is(err, cas.ErrConflict):
			r.unsure(id, "%s", r.plain(err))
			continue
		case err == nil:
			r.no(id, "it was carried out")
		}
		if _, ok, err := r.holds(ctx, key, "two"); err != nil {
			return err
		} else if !ok {
			r.no(id, "the object is not what it was any more")
		}
		r.yes(id, "it is")
	}
	return nil
}
