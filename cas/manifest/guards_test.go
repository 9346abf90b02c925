package manifest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/manifest"
)

// A shelf is a bucket with a clock of its own, in which requests can be disturbed; nil disturbs none.
type shelf struct {
	*membucket.Bucket
	now     time.Time
	put     func(key bucket.Key, body io.Reader)
	putDone func(key bucket.Key)
	head    func(key bucket.Key) error
	list    func(p bucket.Page) (bucket.Page, error)
	saving  func() error
	delete  func(key bucket.Key) error
	deleted []bucket.Key // that the store was asked to
}

func newShelf() *shelf {
	s := &shelf{now: start}
	s.Bucket = membucket.New(&membucket.Options{Now: func() time.Time { return s.now }})
	return s
}

func (s *shelf) Put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	if s.put != nil {
		s.put(key, body)
	}
	t, err := s.Bucket.Put(ctx, key, body)
	if s.putDone != nil {
		s.putDone(key)
	}
	return t, err
}

func (s *shelf) Head(ctx context.Context, key bucket.Key) (bucket.Object, error) {
	if s.head != nil {
		if err := s.head(key); err != nil {
			return bucket.Object{}, err
		}
	}
	return s.Bucket.Head(ctx, key)
}

func (s *shelf) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	return s.Bucket.List(ctx, req, func(p bucket.Page) error {
		if s.list != nil {
			var err error
			if p, err = s.list(p); err != nil {
				return err
			}
		}
		return fn(p)
	})
}

func (s *shelf) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	if s.saving != nil {
		if err := s.saving(); err != nil {
			return "", err
		}
	}
	return s.Bucket.Save(ctx, key, body, p)
}

func (s *shelf) Delete(ctx context.Context, keys []bucket.Key) []error {
	errs := make([]error, len(keys))
	for i, k := range keys {
		s.deleted = append(s.deleted, k)
		if s.delete != nil {
			errs[i] = s.delete(k)
		}
		if errs[i] == nil {
			errs[i] = errors.Join(s.Bucket.Delete(ctx, []bucket.Key{k})...)
		}
	}
	return errs
}

// opened is the manifest, on a host whose clock is the shelf's.
func (s *shelf) opened(t testing.TB, opts manifest.Options) *manifest.Manifest {
	t.Helper()
	opts.Doc = &cas.Options{
		Now:  func() time.Time { return s.now },
		Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	}
	m, err := manifest.New(s, "team", "models", &opts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (s *shelf) added(t testing.TB, id, dedupeKey string) manifest.Change {
	t.Helper()
	c, err := s.opened(t, manifest.Options{}).Add(t.Context(), manifest.AddRequest{
		ID: id, DedupeKey: dedupeKey, Sources: []manifest.Source{text(id)}, Create: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (s *shelf) loaded(t testing.TB) manifest.State {
	t.Helper()
	m, err := manifest.New(s.Bucket, "team", "models", nil)
	if err != nil {
		t.Fatal(err)
	}
	state, err := m.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// place puts a blob there as if by an upload.
func (s *shelf) place(t testing.TB, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if _, err := s.Bucket.Put(t.Context(), bucket.Key(root+"blobs/"+key), strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *shelf) has(t testing.TB, key string) bool {
	t.Helper()
	_, err := s.Bucket.Head(t.Context(), bucket.Key(root+"blobs/"+key))
	if err != nil && !errors.Is(err, bucket.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// write puts a document there that this package would perhaps not have written.
func (s *shelf) write(t testing.TB, payload string) {
	t.Helper()
	body := `{"format":"manifest/1","created":{"nonce":"s1","at":"2026-01-01T00:00:00Z"},"seq":1,"nonce":"s1","recent":[],` +
		`"payload":` + payload + `}`
	if _, err := s.Bucket.Put(t.Context(), listKey, strings.NewReader(body)); err != nil {
		t.Fatal(err)
	}
}

// everything calls all that reads the list.
func everything(ctx context.Context, m *manifest.Manifest) map[string]error {
	errs := map[string]error{}
	_, errs["Load"] = m.Load(ctx)
	_, errs["Add"] = m.Add(ctx, manifest.AddRequest{Sources: []manifest.Source{text("x")}, Create: true})
	_, errs["Remove"] = m.Remove(ctx, "a", "")
	_, errs["GC"] = m.GC(ctx, nil)
	_, errs["GC, dry"] = m.GC(ctx, &manifest.GCOptions{DryRun: true})
	_, errs["Fsck"] = m.Fsck(ctx)
	return errs
}

// TestList_Refused: a list that this package would not have written changes nothing and deletes nothing.
func TestList_Refused(t *testing.T) {
	entry := func(id, blobs string) string {
		return `{"id":"` + id + `","dedupe_key":"","blobs":[` + blobs + `],"size":1,"digest":"d",` +
			`"added_at":"2026-01-01T00:00:00Z","meta":{}}`
	}
	blob := func(key string) string { return `{"key":"` + key + `","name":"f","size":1,"digest":"d"}` }
	list := func(grace int64, entries, reaping string) string {
		return fmt.Sprintf(`{"grace_ms":%d,"entries":[%s],"reaping":[%s]}`, grace, entries, reaping)
	}
	const hour = 3600_000
	for name, payload := range map[string]string{
		"a short grace":            list(hour-1, "", ""),
		"a long grace":             list(10*365*24*hour+1, "", ""),
		"no entries":               `{"grace_ms":3600000,"reaping":[]}`,
		"no journal":               `{"grace_ms":3600000,"entries":[]}`,
		"no id":                    list(hour, entry("", blob("A")), ""),
		"an unusable id":           list(hour, entry("a/b", blob("A")), ""),
		"an id twice":              list(hour, entry("a", blob("A"))+","+entry("a", blob("B")), ""),
		"no blob":                  list(hour, entry("a", ""), ""),
		"an unusable blob":         list(hour, entry("a", blob("../list")), ""),
		"no key":                   list(hour, entry("a", blob("")), ""),
		"a long key":               list(hour, entry("a", blob(strings.Repeat("A", 65))), ""),
		"a blob twice":             list(hour, entry("a", blob("A")+","+blob("A")), ""),
		"a blob of two entries":    list(hour, entry("a", blob("A"))+","+entry("b", blob("A")), ""),
		"an unusable journal":      list(hour, "", `"../list"`),
		"a referenced journal":     list(hour, entry("a", blob("A")), `"A"`),
		"twice journaled":          list(hour, "", `"A","A"`),
		"a member of another kind": `{"grace_ms":3600000,"entries":[],"reaping":[],"more":1}`,
	} {
		s := newShelf()
		s.place(t, "A", "B", "orphan")
		s.write(t, payload)
		before, err := s.Load(t.Context(), listKey)
		if err != nil {
			t.Fatal(err)
		}
		s.now = start.Add(100 * 24 * time.Hour)
		for what, err := range everything(t.Context(), s.opened(t, manifest.Options{})) {
			if !errors.Is(err, cas.ErrCorrupt) {
				t.Errorf("%s: %s: %v, want ErrCorrupt", name, what, err)
			}
		}
		if after, err := s.Load(t.Context(), listKey); err != nil || after.Version != before.Version || len(s.deleted) > 0 {
			t.Errorf("%s: %v, deleted %q, the list is %s", name, err, s.deleted, after.Body)
		}
	}
	s := newShelf() // and this is one that it would have written
	s.place(t, "A")
	s.write(t, list(hour, entry("a", blob("A")), `"B"`))
	for what, err := range everything(t.Context(), s.opened(t, manifest.Options{})) {
		if err != nil && what != "Fsck" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestAbsent: where there is no list, only Add with Create makes one, and gc takes nothing, however old and forced.
func TestAbsent(t *testing.T) {
	s := newShelf()
	s.place(t, "A")
	s.now = start.Add(100 * 24 * time.Hour)
	m := s.opened(t, manifest.Options{})
	errs := map[string]error{}
	_, errs["Load"] = m.Load(t.Context())
	_, errs["Add"] = m.Add(t.Context(), manifest.AddRequest{Sources: []manifest.Source{text("x")}})
	_, errs["Remove"] = m.Remove(t.Context(), "a", "")
	_, errs["GC"] = m.GC(t.Context(), &manifest.GCOptions{Force: true})
	_, errs["GC, dry"] = m.GC(t.Context(), &manifest.GCOptions{DryRun: true})
	_, errs["Fsck"] = m.Fsck(t.Context())
	for what, err := range errs {
		if !errors.Is(err, cas.ErrNotExist) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := s.Load(t.Context(), listKey); !errors.Is(err, cas.ErrNotExist) || len(s.deleted) > 0 {
		t.Errorf("%v; deleted %q", err, s.deleted)
	}
}

// TestNew_Refused: names and graces that are none.
func TestNew_Refused(t *testing.T) {
	for _, c := range []struct {
		namespace, name string
		grace           time.Duration
		want            error
	}{
		{"", "a", 0, itemid.ErrName}, {"a", "", 0, itemid.ErrName}, {"a/b", "c", 0, itemid.ErrName}, {"a", "../b", 0, itemid.ErrName},
		{"a", "b", time.Hour - 1, manifest.ErrGrace}, {"a", "b", -time.Hour, manifest.ErrGrace},
		{"a", "b", 10*365*24*time.Hour + 1, manifest.ErrGrace},
		{"a", "b", 0, nil}, {"a", "b", time.Hour, nil}, {"a", "b", 10 * 365 * 24 * time.Hour, nil},
	} {
		if _, err := manifest.New(newShelf(), c.namespace, c.name, &manifest.Options{Grace: c.grace}); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestGrace: it is that of who creates the list, by default a day.
func TestGrace(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{0: 24 * time.Hour, 2 * time.Hour: 2 * time.Hour} {
		s := newShelf()
		for _, grace := range []time.Duration{given, 3 * time.Hour} {
			_, err := s.opened(t, manifest.Options{Grace: grace}).Add(t.Context(),
				manifest.AddRequest{Sources: []manifest.Source{text("x")}, Create: true})
			if got := s.loaded(t).Grace; err != nil || got != want {
				t.Errorf("%v, %v, want %v", err, got, want)
			}
		}
	}
}

// TestTag: it names one state of one incarnation, and who names another one changes nothing.
func TestTag(t *testing.T) {
	s := newShelf()
	m := s.opened(t, manifest.Options{})
	add := func(tag string) (manifest.Change, error) {
		return m.Add(t.Context(), manifest.AddRequest{ID: "x", Sources: []manifest.Source{text("x")}, Create: true, Tag: tag})
	}
	if _, err := add("none"); !errors.Is(err, manifest.ErrState) {
		t.Errorf("added to an absent list of a tag: %v", err)
	}
	first := s.added(t, "a", "").State
	second := s.added(t, "b", "").State
	if loaded := s.loaded(t); first.Tag == second.Tag || second.Tag != loaded.Tag || first.Tag == "" {
		t.Errorf("%q, %q; loaded %q", first.Tag, second.Tag, loaded.Tag)
	}
	if _, err := add(first.Tag); !errors.Is(err, manifest.ErrState) {
		t.Errorf("added to another state: %v", err)
	}
	if _, err := m.Remove(t.Context(), "a", first.Tag); !errors.Is(err, manifest.ErrState) {
		t.Errorf("removed from another state: %v", err)
	}
	if got := s.loaded(t); got.Tag != second.Tag || len(got.Entries) != 2 {
		t.Errorf("%+v", got)
	}
	third, err := m.Remove(t.Context(), "a", second.Tag)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := add(third.State.Tag); err != nil {
		t.Error(err)
	}
	if errs := s.Bucket.Delete(t.Context(), []bucket.Key{listKey}); errs != nil {
		t.Fatal(errs)
	}
	if again := s.added(t, "a", "").State; again.Tag == first.Tag {
		t.Errorf("the tag %q is of two incarnations", again.Tag)
	}
}

// TestChange: what the caller is told of one, and that what it displaced is gone.
func TestChange(t *testing.T) {
	s := newShelf()
	a := s.added(t, "a", "k").Entry
	s.added(t, "b", "l")
	c := s.added(t, "c", "k")
	if len(c.Displaced) != 1 || c.Displaced[0].ID != "a" || c.Left != nil || s.has(t, a.Blobs[0].Key) {
		t.Errorf("%+v; the blob is there: %v", c, s.has(t, a.Blobs[0].Key))
	}
	if ids := idsOf(c.State.Entries); !slices.Equal(ids, []string{"b", "c"}) || !slices.Equal(ids, idsOf(s.loaded(t).Entries)) {
		t.Errorf("%q", ids)
	}
	m := s.opened(t, manifest.Options{})
	_, err := m.Add(t.Context(), manifest.AddRequest{ID: "b", Sources: []manifest.Source{text("x")}})
	if !errors.Is(err, manifest.ErrID) {
		t.Errorf("an id that is there: %v", err)
	}
	if again := s.added(t, "b", "l"); len(again.Displaced) != 1 { // it displaces the one of its id
		t.Errorf("%+v", again)
	}
	if _, err := m.Remove(t.Context(), "a", ""); !errors.Is(err, manifest.ErrNoEntry) {
		t.Errorf("an id that is not there: %v", err)
	}
	r, err := m.Remove(t.Context(), "c", "")
	if err != nil || r.Entry.ID != "c" || s.has(t, c.Entry.Blobs[0].Key) || !slices.Equal(idsOf(r.State.Entries), []string{"b"}) {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestChange_NotSaved: without a winning save nothing is deleted.
func TestChange_NotSaved(t *testing.T) {
	for _, refusal := range []error{bucket.ErrDenied, cas.ErrUnknown} {
		s := newShelf()
		old := s.added(t, "a", "k").Entry.Blobs[0].Key
		s.saving = func() error { return refusal }
		m := s.opened(t, manifest.Options{})
		_, err := m.Add(t.Context(), manifest.AddRequest{DedupeKey: "k", Sources: []manifest.Source{text("x")}})
		if !errors.Is(err, refusal) {
			t.Errorf("add: %v", err)
		}
		if _, err := m.Remove(t.Context(), "a", ""); !errors.Is(err, refusal) {
			t.Errorf("remove: %v", err)
		}
		if len(s.deleted) > 0 || !s.has(t, old) || len(s.loaded(t).Reaping) > 0 {
			t.Errorf("deleted %q", s.deleted)
		}
	}
}

// TestChange_AllBlobs: all that an entry had goes with it.
func TestChange_AllBlobs(t *testing.T) {
	s := newShelf()
	m := s.opened(t, manifest.Options{})
	c, err := m.Add(t.Context(), manifest.AddRequest{
		ID: "a", Create: true, Sources: []manifest.Source{text("x"), text("y"), text("x")},
	})
	if err != nil || c.Entry.Size != 3 || len(c.Entry.Blobs) != 3 || c.Entry.Blobs[1].Digest != digestOf("y") {
		t.Fatalf("%+v, %v", c, err)
	}
	if _, err := m.Remove(t.Context(), "a", ""); err != nil {
		t.Fatal(err)
	}
	for _, b := range c.Entry.Blobs {
		if s.has(t, b.Key) {
			t.Errorf("%s is there", b.Key)
		}
	}
}

func idsOf(entries []manifest.Entry) []string {
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	return ids
}

// TestAdd_Gone: a blob that is gone, or cut, or journaled by the time that the list is loaded is uploaded again, and the
// entry tells of what was uploaded last.
func TestAdd_Gone(t *testing.T) {
	for _, how := range []string{"deleted", "cut", "journaled"} {
		s := newShelf()
		uploads := 0
		s.putDone = func(key bucket.Key) {
			if uploads++; uploads > 1 {
				return
			}
			var err error
			switch how {
			case "deleted":
				err = errors.Join(s.Bucket.Delete(t.Context(), []bucket.Key{key})...)
			case "cut":
				_, err = s.Bucket.Put(t.Context(), key, nil)
			default:
				s.write(t, `{"grace_ms":3600000,"entries":[],"reaping":["`+strings.TrimPrefix(string(key), root+"blobs/")+`"]}`)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		opens := 0
		c, err := s.opened(t, manifest.Options{}).Add(t.Context(), manifest.AddRequest{ID: "a", Create: true,
			Sources: []manifest.Source{{Name: "f", Open: func() (io.ReadCloser, error) {
				opens++
				return io.NopCloser(strings.NewReader(strings.Repeat("x", opens))), nil
			}}}})
		if err != nil || uploads != 2 {
			t.Errorf("%s: %v, %d uploads", how, err, uploads)
			continue
		}
		if e := s.loaded(t).Entries[0]; e.Size != 2 || e.Blobs[0].Digest != digestOf("xx") || !s.has(t, e.Blobs[0].Key) ||
			e.Digest != digestOf(e.Blobs[0].Digest+"\n") || fmt.Sprint(e) != fmt.Sprint(c.Entry) {
			t.Errorf("%s: %+v", how, e)
		}
	}
}

// TestAdd_Denied: a HEAD that fails is no sign that the blob is gone.
func TestAdd_Denied(t *testing.T) {
	s := newShelf()
	uploads := 0
	s.head = func(bucket.Key) error { return bucket.ErrDenied }
	s.putDone = func(bucket.Key) { uploads++ }
	_, err := s.opened(t, manifest.Options{}).Add(t.Context(),
		manifest.AddRequest{Sources: []manifest.Source{text("x")}, Create: true})
	if !errors.Is(err, bucket.ErrDenied) || uploads != 1 {
		t.Errorf("%v, %d uploads", err, uploads)
	}
	if _, err := s.Load(t.Context(), listKey); !errors.Is(err, cas.ErrNotExist) {
		t.Errorf("a list was saved: %v", err)
	}
}

// TestAdd_SentOnce: a driver cannot send a body again that it cannot read again.
func TestAdd_SentOnce(t *testing.T) {
	s := newShelf()
	s.put = func(_ bucket.Key, body io.Reader) {
		_, seeks := body.(io.Seeker)
		_, jumps := body.(io.ReaderAt)
		if seeks || jumps {
			t.Errorf("a %T can be read again", body)
		}
	}
	_, err := s.opened(t, manifest.Options{}).Add(t.Context(), manifest.AddRequest{Create: true, Sources: []manifest.Source{
		{Open: func() (io.ReadCloser, error) { return seekable{strings.NewReader("x")}, nil }}}})
	if err != nil {
		t.Error(err)
	}
}

type seekable struct{ *strings.Reader }

func (seekable) Close() error { return nil }

// TestJournal_Undeletable: what could not be deleted stays journaled until it is gone, and the next change, or gc, sees to it.
func TestJournal_Undeletable(t *testing.T) {
	for _, last := range []string{"add", "gc"} {
		s := newShelf()
		old := s.added(t, "a", "k").Entry.Blobs[0].Key
		s.delete = func(bucket.Key) error { return bucket.ErrDenied }
		m := s.opened(t, manifest.Options{})
		c := s.added(t, "b", "k")
		if !errors.Is(c.Left, bucket.ErrDenied) || !slices.Equal(c.State.Reaping, []string{old}) || !s.has(t, old) {
			t.Errorf("%+v", c)
		}
		if c = s.added(t, "c", ""); !slices.Equal(s.loaded(t).Reaping, []string{old}) || !errors.Is(c.Left, bucket.ErrDenied) {
			t.Errorf("%+v", c)
		}
		r, err := m.GC(t.Context(), nil)
		if err != nil || r.Resumed != 1 || r.Deleted != 0 || r.Failures != 1 || len(r.Failed) != 1 ||
			!errors.Is(r.Failed[0], bucket.ErrDenied) || !slices.Equal(s.loaded(t).Reaping, []string{old}) {
			t.Errorf("%+v, %v", r, err)
		}
		s.delete = nil
		if last == "add" {
			c := s.added(t, "d", "")
			if c.Left != nil || len(c.State.Reaping) > 0 {
				t.Errorf("%+v", c)
			}
		} else if r, err := m.GC(t.Context(), nil); err != nil || r.Resumed != 1 || r.Deleted != 1 || r.Failures != 0 {
			t.Errorf("%+v, %v", r, err)
		}
		if s.has(t, old) || len(s.loaded(t).Reaping) > 0 {
			t.Errorf("%s: it is there: %v; journaled are %q", last, s.has(t, old), s.loaded(t).Reaping)
		}
	}
}

// TestGC_Many: more than a store deletes at once, and more failures than are told.
func TestGC_Many(t *testing.T) {
	s := newShelf()
	kept := s.added(t, "a", "").Entry.Blobs[0].Key
	const n = 2500
	for i := range n {
		s.place(t, fmt.Sprintf("B%d", i))
	}
	s.now = start.Add(25 * time.Hour)
	fails := 150
	s.delete = func(bucket.Key) error {
		if fails--; fails >= 0 {
			return bucket.ErrDenied
		}
		return nil
	}
	m := s.opened(t, manifest.Options{})
	r, err := m.GC(t.Context(), nil)
	if err != nil || r.Listed != n+1 || len(r.Orphans) != n || r.Deleted != n-150 || r.Failures != 150 || len(r.Failed) != 100 {
		t.Errorf("%d orphans of %d, %d deleted, %d failures, %d told, %v",
			len(r.Orphans), r.Listed, r.Deleted, r.Failures, len(r.Failed), err)
	}
	if got := s.loaded(t); len(got.Reaping) != 150 {
		t.Errorf("%d are journaled", len(got.Reaping))
	}
	r, err = m.GC(t.Context(), nil)
	if err != nil || r.Resumed != 150 || r.Deleted != 150 || len(s.loaded(t).Reaping) != 0 || !s.has(t, kept) || s.has(t, "B0") {
		t.Errorf("resumed %d, deleted %d, %v", r.Resumed, r.Deleted, err)
	}
	tag := s.loaded(t).Tag
	if r, err := m.GC(t.Context(), nil); err != nil || r.Listed != 1 || s.loaded(t).Tag != tag {
		t.Errorf("with nothing to do: %+v, %v, a save: %v", r, err, s.loaded(t).Tag != tag)
	}
}

// TestGC_Judges: by the store's time, the grace and the incarnation, each to the instant; and a dry run says the same and
// deletes nothing.
func TestGC_Judges(t *testing.T) {
	for _, c := range []struct {
		name    string
		stored  time.Time
		passed  time.Duration // since start
		force   bool
		untimed bool
		goes    bool
		why     string
	}{
		{"at the grace", start, 24 * time.Hour, false, false, true, "older than the grace of 24h0m0s"},
		{"within the grace", start.Add(1), 24 * time.Hour, false, false, false, "not older than the grace of 24h0m0s"},
		{"within the grace, forced", start.Add(1), 24 * time.Hour, true, false, false, "not older than the grace"},
		{"from the future", start.Add(48 * time.Hour), 24 * time.Hour, true, false, false, "not older than the grace"},
		{"of this incarnation", start.Add(-time.Minute), 48 * time.Hour, false, false, true, "older than the grace"},
		{"of one before", start.Add(-time.Minute - 1), 48 * time.Hour, false, false, false, "older than the manifest"},
		{"of one before, forced", start.Add(-time.Minute - 1), 48 * time.Hour, true, false, true, "older than the grace"},
		{"without times", start, 48 * time.Hour, true, true, false, "does not tell"},
	} {
		s := newShelf()
		s.now = c.stored
		s.place(t, "B")
		s.now = start
		s.added(t, "a", "")
		s.now = start.Add(c.passed)
		if c.untimed {
			s.list = func(p bucket.Page) (bucket.Page, error) {
				for i := range p.Objects {
					p.Objects[i].StoreTime = time.Time{}
				}
				return p, nil
			}
		}
		m := s.opened(t, manifest.Options{})
		if f, err := m.Fsck(t.Context()); err != nil || len(f.Orphans) != 1 || !c.force && f.Orphans[0].Goes != c.goes {
			t.Errorf("%s: fsck: %+v, %v", c.name, f, err)
		}
		for _, dry := range []bool{true, false} {
			r, err := m.GC(t.Context(), &manifest.GCOptions{DryRun: dry, Force: c.force})
			if err != nil || len(r.Orphans) != 1 || r.Orphans[0].Goes != c.goes || !strings.Contains(r.Orphans[0].Why, c.why) {
				t.Errorf("%s: dry %v: %+v, %v", c.name, dry, r, err)
			}
			if there := s.has(t, "B"); there != (dry || !c.goes) {
				t.Errorf("%s: dry %v: it is there: %v", c.name, dry, there)
			}
		}
	}
	s := newShelf()
	s.added(t, "a", "")
	s.place(t, "B")
	s.now = start.Add(48 * time.Hour)
	s.list = func(p bucket.Page) (bucket.Page, error) { p.Now = time.Time{}; return p, nil }
	r, err := s.opened(t, manifest.Options{}).GC(t.Context(), nil)
	if err != nil || len(r.Orphans) != 1 || r.Orphans[0].Goes || !strings.Contains(r.Orphans[0].Why, "does not tell") {
		t.Errorf("by a store without a clock: %+v, %v", r, err)
	}
}

// TestGC_LongListing: how old a blob is goes by when the listing began.
func TestGC_LongListing(t *testing.T) {
	s := newShelf()
	s.Bucket = membucket.New(&membucket.Options{PageSize: 1, Now: func() time.Time { return s.now }})
	s.added(t, "a", "")
	s.place(t, "0", "z")
	s.now = start.Add(23 * time.Hour)
	s.list = func(p bucket.Page) (bucket.Page, error) {
		s.now = s.now.Add(2 * time.Hour)
		return p, nil
	}
	r, err := s.opened(t, manifest.Options{}).GC(t.Context(), nil)
	if err != nil || len(r.Orphans) != 2 || r.Deleted != 0 || !s.has(t, "0") || !s.has(t, "z") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestGC_Listing: one that broke off deletes nothing, and what is no blob's key is counted and left alone.
func TestGC_Listing(t *testing.T) {
	s := newShelf()
	s.added(t, "a", "")
	s.place(t, "B", "a.b", "c/d", ".x", "e~f")
	s.now = start.Add(48 * time.Hour)
	s.list = func(bucket.Page) (bucket.Page, error) { return bucket.Page{}, bucket.ErrThrottled }
	m := s.opened(t, manifest.Options{})
	if r, err := m.GC(t.Context(), nil); !errors.Is(err, bucket.ErrThrottled) || len(s.deleted) > 0 {
		t.Errorf("%+v, %v, deleted %q", r, err, s.deleted)
	}
	if _, err := m.Fsck(t.Context()); !errors.Is(err, bucket.ErrThrottled) {
		t.Errorf("fsck: %v", err)
	}
	s.list = nil
	if c, err := m.Fsck(t.Context()); err != nil || c.Foreign != 4 || len(c.Orphans) != 1 {
		t.Errorf("fsck: %+v, %v", c, err)
	}
	r, err := m.GC(t.Context(), nil)
	if err != nil || r.Listed != 6 || r.Deleted != 1 || !slices.Equal(s.deleted, []bucket.Key{root + "blobs/B"}) {
		t.Errorf("%+v, %v, deleted %q", r, err, s.deleted)
	}
}

// TestGC_NotSaved: without a winning save nothing is deleted.
func TestGC_NotSaved(t *testing.T) {
	for _, refusal := range []error{bucket.ErrDenied, cas.ErrUnknown} {
		s := newShelf()
		s.added(t, "a", "")
		s.place(t, "B")
		s.now = start.Add(48 * time.Hour)
		s.saving = func() error { return refusal }
		r, err := s.opened(t, manifest.Options{}).GC(t.Context(), nil)
		if !errors.Is(err, refusal) || len(s.deleted) > 0 || r.Deleted != 0 {
			t.Errorf("%+v, %v, deleted %q", r, err, s.deleted)
		}
	}
}

// TestGC_Retried: when another save came first, all is judged again, on the list that is there then.
func TestGC_Retried(t *testing.T) {
	s := newShelf()
	s.added(t, "a", "")
	s.place(t, "B", "C")
	s.now = start.Add(48 * time.Hour)
	s.saving = func() error {
		s.saving = nil
		s.write(t, `{"grace_ms":3600000,"entries":[{"id":"c","dedupe_key":"","blobs":[{"key":"C","name":"f","size":1,"digest":"d"}],`+
			`"size":1,"digest":"d","added_at":"2026-01-01T00:00:00Z","meta":{}}],"reaping":["B"]}`)
		return nil
	}
	r, err := s.opened(t, manifest.Options{}).GC(t.Context(), nil)
	if err != nil || r.Resumed != 1 || len(r.Orphans) != 1 || r.Deleted != 2 || s.has(t, "B") || !s.has(t, "C") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestUsable: nothing is saved on a store that does not keep its conditions, which is asked once it is known that it does.
func TestUsable(t *testing.T) {
	s := newShelf()
	s.added(t, "a", "")
	s.place(t, "B")
	s.now = start.Add(48 * time.Hour)
	tag := s.loaded(t).Tag
	broken, asked := errors.New("it lies"), 0
	answer := broken
	m := s.opened(t, manifest.Options{Usable: func(context.Context) error { asked++; return answer }})
	all := everything(t.Context(), m)
	for what, want := range map[string]error{
		"Add": broken, "Remove": broken, "GC": broken, "Load": nil, "GC, dry": nil, "Fsck": nil,
	} {
		if !errors.Is(all[what], want) {
			t.Errorf("%s: %v", what, all[what])
		}
	}
	if s.loaded(t).Tag != tag || len(s.deleted) > 0 || asked != 3 {
		t.Errorf("asked %d times; deleted %q", asked, s.deleted)
	}
	answer, asked = nil, 0
	for range 2 {
		for what, err := range everything(t.Context(), m) {
			if err != nil && what != "Remove" {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

// TestUsable_NobodyWaitsForOthers: who asks beside somebody whose answer stays away goes by the own context.
func TestUsable_NobodyWaitsForOthers(t *testing.T) {
	asked := make(chan struct{}, 2)
	m := newShelf().opened(t, manifest.Options{Usable: func(ctx context.Context) error {
		asked <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}})
	remove := func(ctx context.Context) <-chan error {
		ended := make(chan error, 1)
		go func() {
			_, err := m.Remove(ctx, "x", "")
			ended <- err
		}()
		return ended
	}
	patient, leave := context.WithCancel(t.Context())
	first := remove(patient)
	<-asked
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	select {
	case err := <-remove(gone):
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it waits for the other one")
	}
	leave()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestOpen: the body, an error that says that it is missing, and no way out of the manifest.
func TestOpen(t *testing.T) {
	s := newShelf()
	b := s.added(t, "a", "").Entry.Blobs[0]
	m := s.opened(t, manifest.Options{})
	r, err := m.Open(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(r); err != nil || string(body) != "a" || digestOf("a") != b.Digest {
		t.Errorf("%q, %v", body, err)
	}
	_, err = m.Open(t.Context(), manifest.Blob{Key: "A"})
	if !errors.Is(err, manifest.ErrMissing) || !errors.Is(err, bucket.ErrNotExist) {
		t.Errorf("a missing blob: %v", err)
	}
	for _, key := range []string{"", "../list", "a/b", ".", "a b"} {
		s.place(t, key+"x")
		if r, err := m.Open(t.Context(), manifest.Blob{Key: key}); err == nil || errors.Is(err, manifest.ErrMissing) {
			t.Errorf("%q: %v, %v", key, r, err)
		}
	}
}

// TestFsck: what is missing, cut, an orphan, journaled, or added and removed meanwhile.
func TestFsck(t *testing.T) {
	s := newShelf()
	s.added(t, "whole", "")
	gone := s.added(t, "gone", "").Entry.Blobs[0]
	cut := s.added(t, "cut", "").Entry.Blobs[0]
	s.added(t, "leaving", "")
	s.delete = func(bucket.Key) error { return bucket.ErrDenied }
	s.added(t, "journaled", "k")
	s.added(t, "journals", "k")
	s.delete = nil
	s.place(t, "collected")
	s.now = start.Add(25 * time.Hour)
	s.place(t, "orphan", cut.Key) // "x" instead of "cut"
	if errs := s.Bucket.Delete(t.Context(), []bucket.Key{bucket.Key(root + "blobs/" + gone.Key)}); errs != nil {
		t.Fatal(errs)
	}
	once := true
	s.list = func(p bucket.Page) (bucket.Page, error) {
		if !once {
			return p, nil
		}
		once = false
		m := s.opened(t, manifest.Options{})
		_, err1 := m.Remove(t.Context(), "leaving", "")
		added := s.added(t, "meanwhile", "").Entry.Blobs[0] // and drops from the journal what is gone
		s.added(t, "later", "")                             // and is not listed
		s.delete = func(bucket.Key) error { return bucket.ErrDenied }
		r, err2 := m.GC(t.Context(), nil) // "collected" stays journaled
		o, err3 := s.Bucket.Head(t.Context(), bucket.Key(root+"blobs/"+added.Key))
		if err := errors.Join(err1, err2, err3); err != nil || r.Failures != 1 {
			t.Errorf("%+v, %v", r, err)
		}
		p.Objects = append(p.Objects, o) // it was listed, too
		return p, nil
	}
	c, err := s.opened(t, manifest.Options{}).Fsck(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var faults []string
	for _, f := range c.Faults {
		faults = append(faults, f.ID+" "+f.Blob.Key+" "+f.Why)
	}
	want := []string{"gone " + gone.Key + " it is missing", "cut " + cut.Key + " it has 1 bytes, and should have 3"}
	if !slices.Equal(faults, want) || c.Blobs != 6 || c.Foreign != 0 {
		t.Errorf("faults %q, %d blobs, %d foreign", faults, c.Blobs, c.Foreign)
	}
	var orphans []bucket.Key
	for _, o := range c.Orphans {
		orphans = append(orphans, o.Key)
	}
	if !slices.Equal(orphans, []bucket.Key{root + "blobs/orphan"}) { // and not what left the list since, and is gone
		t.Errorf("orphans %q", orphans)
	}
}
