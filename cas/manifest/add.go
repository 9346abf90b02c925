package manifest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// A Source is a body to be uploaded.
type Source struct {
	Name string // for people, such as the name of a file
	// Open returns the body from its beginning. It is called once for each attempt to upload it.
	Open func() (io.ReadCloser, error)
}

// An AddRequest is an entry to be added.
type AddRequest struct {
	ID        string            // 1 to 200 bytes without control characters and slashes; empty: 130 random bits
	DedupeKey string            // at most 1,000 bytes; the entry that has it already is displaced; empty: none is
	Meta      map[string]string // UTF-8
	Sources   []Source          // one or more, those of More included
	// More, if not nil, returns the sources that follow Sources one by one, and io.EOF after the last: of a body that is
	// streamed the next one can be told only when the one before has been read. It is called once for each.
	More func() (Source, error)
	// Create allows an absent manifest to be created.
	Create bool
	// Absent demands that there is no manifest yet; ErrState if there is.
	Absent bool
	// Tag, if not empty, is that of the state that the entry is to be added to; ErrState if it is another one.
	Tag string
}

// Check returns what Add would refuse of the request before it asks anything of the store, for who has to know earlier.
func (r AddRequest) Check() error {
	if r.ID != "" {
		if err := CheckID(r.ID); err != nil {
			return err
		}
	}
	if len(r.DedupeKey) > 1000 || !utf8.ValidString(r.DedupeKey) {
		return fmt.Errorf("%w: the dedupe key is more than 1,000 bytes, or no UTF-8", ErrID)
	}
	for k, v := range r.Meta {
		// JSON would keep other bytes than were given.
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return fmt.Errorf("%w: the meta %.80q is no UTF-8", ErrID, k+"="+v)
		}
	}
	if len(r.Sources) == 0 && r.More == nil {
		return errNoSource
	}
	return nil
}

var errNoSource = errors.New("an entry has one blob at the least; name a file")

// each calls fn with one source after the other.
func (r AddRequest) each(fn func(Source) error) error {
	for _, s := range r.Sources {
		if err := fn(s); err != nil {
			return err
		}
	}
	for r.More != nil {
		s, err := r.More()
		if err == io.EOF { // itself: wrapped, it may be that of a stream that was cut
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUpload, err)
		}
		if err := fn(s); err != nil {
			return err
		}
	}
	return nil
}

// A Change is what became of a request that was won.
type Change struct {
	Entry     Entry   // added or removed
	Displaced []Entry // by the one that was added
	State     State   // after it
	// Left is why blobs that are not referenced any more are still there; nil if none are. The next change, or GC, deletes
	// them.
	Left error
}

// Add uploads the sources, and adds an entry at the end of the list. Its request count without contention is that of the
// uploads, 1 GET, 1 HEAD a blob, 1 PUT, and the deletes of what it displaces. After an error other than ErrUnknown nothing
// was added; what was uploaded is left to GC. Errors: ErrID, ErrState, ErrUpload; those of cas.Doc.Update, of which
// cas.ErrTooLarge says how many such entries a list holds.
func (m *Manifest) Add(ctx context.Context, req AddRequest) (Change, error) {
	c, err := m.add(ctx, req)
	if err != nil {
		return Change{}, m.wrap("adding to", err)
	}
	return c, nil
}

func (m *Manifest) add(ctx context.Context, req AddRequest) (Change, error) {
	if err := req.Check(); err != nil {
		return Change{}, err
	}
	e := Entry{ID: req.ID, DedupeKey: req.DedupeKey, Meta: maps.Clone(req.Meta), AddedAt: m.now()}
	if e.ID == "" {
		e.ID = strings.ToLower(newKey())
	}
	if e.Meta == nil {
		e.Meta = map[string]string{}
	}
	if err := m.usable(ctx); err != nil {
		return Change{}, err
	}
	var sources []Source
	err := req.each(func(s Source) error {
		b, err := m.upload(ctx, s)
		sources, e.Blobs = append(sources, s), append(e.Blobs, b)
		return err
	})
	if err == nil && len(sources) == 0 {
		err = errNoSource
	}
	if err != nil {
		return Change{}, err
	}
	return m.change(ctx, req.Create, req.Tag, func(l *list, base State) (Change, error) {
		if req.Absent && base.Tag != "" {
			return Change{}, fmt.Errorf("%w: it is there already", ErrState)
		}
		// On the very state that is saved on: a blob that was taken for an orphan is journaled there, or gone.
		for i, s := range sources {
			ok, err := m.lives(ctx, e.Blobs[i], base.Reaping)
			if err == nil && !ok {
				e.Blobs[i], err = m.upload(ctx, s)
			}
			if err != nil {
				return Change{}, err
			}
		}
		e.sum()
		displaced := l.displace(e.DedupeKey)
		if l.index(e.ID) >= 0 {
			return Change{}, fmt.Errorf("%w: %q is there already", ErrID, e.ID)
		}
		added := e
		added.Blobs = slices.Clone(e.Blobs)
		l.Entries = append(l.Entries, added)
		return Change{Entry: added, Displaced: displaced}, nil
	})
}

// displace takes the entry of a dedupe key out of the list.
func (l *list) displace(dedupeKey string) []Entry {
	var out []Entry
	if dedupeKey == "" {
		return out
	}
	l.Entries = slices.DeleteFunc(l.Entries, func(e Entry) bool {
		if e.DedupeKey != dedupeKey {
			return false
		}
		out = append(out, e)
		return true
	})
	return out
}

// lives reports whether a blob is there and stays there if the save on this state is won.
func (m *Manifest) lives(ctx context.Context, b Blob, reaping []string) (bool, error) {
	if slices.Contains(reaping, b.Key) {
		return false, nil
	}
	o, err := m.store.Head(ctx, m.blob(b.Key))
	switch {
	case errors.Is(err, bucket.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	return o.Size == b.Size, nil
}

// Remove takes an entry out of the list. tag is as in AddRequest. Errors: ErrNoEntry, ErrState; those of cas.Doc.Update.
func (m *Manifest) Remove(ctx context.Context, id, tag string) (Change, error) {
	if err := m.usable(ctx); err != nil {
		return Change{}, m.wrap("removing from", err)
	}
	c, err := m.change(ctx, false, tag, func(l *list, _ State) (Change, error) {
		i := l.index(id)
		if i < 0 {
			return Change{}, fmt.Errorf("%w: %.200q", ErrNoEntry, id)
		}
		e := l.Entries[i]
		l.Entries = slices.Delete(l.Entries, i, i+1)
		return Change{Entry: e}, nil
	})
	if err != nil {
		return Change{}, m.wrap("removing from", err)
	}
	return c, nil
}

// change saves what do makes of the list. What that leaves without a reference is journaled by the same save, and deleted
// when it is won.
func (m *Manifest) change(
	ctx context.Context, create bool, tagged string, do func(l *list, base State) (Change, error),
) (Change, error) {
	var c Change
	entries := 0
	reaped := reaper{m: m}
	s, err := m.doc.Update(ctx, func(next *list, was cas.State[list]) error {
		if was.Seq == 0 {
			*next = list{GraceMS: m.opts.Grace.Milliseconds(), Entries: []Entry{}, Reaping: []string{}}
		} else if err := next.check(); err != nil {
			return err
		}
		if tagged != "" && tagged != tag(was) {
			return fmt.Errorf("%w: the caller knows it as %q", ErrState, tagged)
		}
		before := referenced(next.Entries)
		entries = len(next.Entries)
		var err error
		if c, err = do(next, stateOf(was)); err != nil {
			return err
		}
		reaped.finish(ctx, next)
		after := referenced(next.Entries)
		for _, k := range slices.Sorted(maps.Keys(before)) {
			if !after[k] {
				next.Reaping = append(next.Reaping, k)
			}
		}
		return nil
	}, &cas.UpdateOptions{Create: create})
	if errors.Is(err, cas.ErrTooLarge) {
		err = noRoom(c.Entry, entries, err)
	}
	if err != nil {
		return Change{}, err
	}
	c.State = stateOf(s)
	c.Left = reaped.delete(ctx, c.State.Reaping)
	return c, nil
}

// noRoom says of an error that a list has become too large how many entries there are, and what to do.
func noRoom(added Entry, entries int, err error) error {
	text, encoding := json.Marshal(added)
	if encoding != nil || entries == 0 && len(text) < cas.MaxSize {
		return err // of the list as it was read
	}
	return fmt.Errorf("%w: a list takes less than %d MiB, about %d entries like this one, and has %d entries: "+
		"remove some, or add to another manifest", err, cas.MaxSize>>20, cas.MaxSize/len(text), entries)
}

func referenced(entries []Entry) map[string]bool {
	keys := map[string]bool{}
	for _, e := range entries {
		for _, b := range e.Blobs {
			keys[b.Key] = true
		}
	}
	return keys
}

// upload stores a body under a key that no other attempt has had.
func (m *Manifest) upload(ctx context.Context, s Source) (Blob, error) {
	b := Blob{Key: m.opts.NewKey(), Name: s.Name}
	body, err := s.Open()
	if err != nil {
		return Blob{}, notUploaded(ctx, s, err)
	}
	defer body.Close()
	sum := sha256.New()
	counted := &counter{r: io.TeeReader(body, sum)} // hides that it may be seekable: a driver would send it again
	if _, err := m.store.Put(ctx, m.blob(b.Key), counted); err != nil {
		return Blob{}, notUploaded(ctx, s, err)
	}
	b.Size, b.Digest = counted.n, digest(sum.Sum(nil))
	return b, nil
}

// notUploaded is ErrUpload, and never ErrUnknown: whether such a blob is there matters to GC alone, since no list has its key.
func notUploaded(ctx context.Context, s Source, err error) error {
	if errors.Is(err, bucket.ErrUnknown) {
		plain := errors.New(err.Error())
		if err = plain; ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", ctx.Err(), plain)
		}
	}
	return fmt.Errorf("%w: %.200q: %w", ErrUpload, s.Name, err)
}

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func newKey() string { return rand.Text() }

var keyForm = regexp.MustCompile(`^[A-Za-z0-9]{1,64}$`)

// CheckKey returns an error unless s can be the key of a blob.
func CheckKey(s string) error {
	if !keyForm.MatchString(s) {
		return fmt.Errorf("the key %.80q is unusable", s)
	}
	return nil
}

// CheckID returns ErrID unless id can be that of an entry.
func CheckID(id string) error {
	if id == "" || len(id) > 200 || !utf8.ValidString(id) || strings.HasPrefix(id, ".") ||
		strings.ContainsFunc(id, func(r rune) bool { return r == '/' || unicode.IsControl(r) }) {
		return fmt.Errorf("%w: %.80q; it is 1 to 200 bytes of UTF-8 without control characters and slashes, and no dot first", ErrID, id)
	}
	return nil
}
