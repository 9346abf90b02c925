package snapshot_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/snapshot"
)

// damages are what may become of the current generation, which has two parts.
var damages = map[string]struct {
	do    func(testing.TB, *membucket.Bucket, snapshot.ID)
	want  error // of who reads
	says  string
	quiet bool // in a listing
}{
	"a part deleted": {func(t testing.TB, b *membucket.Bucket, id snapshot.ID) { remove(t, b, file(id, "000001")) },
		snapshot.ErrMissing, "000001", false},
	"the index deleted": {func(t testing.TB, b *membucket.Bucket, id snapshot.ID) { remove(t, b, file(id, "index")) },
		snapshot.ErrMissing, "index", false},
	"the index truncated": {func(t testing.TB, b *membucket.Bucket, id snapshot.ID) {
		put(t, b, file(id, "index"), body(t, b, file(id, "index"))[:50])
	}, snapshot.ErrDamaged, "index", false},
	"a part truncated": {func(t testing.TB, b *membucket.Bucket, id snapshot.ID) {
		put(t, b, file(id, "000001"), body(t, b, file(id, "000001"))[:50])
	}, snapshot.ErrDamaged, "000001", false},
	"a part grown": {func(t testing.TB, b *membucket.Bucket, id snapshot.ID) {
		put(t, b, file(id, "000000"), body(t, b, file(id, "000000"))+"x")
	}, snapshot.ErrDamaged, "000000", false},
	"a part emptied": {func(t testing.TB, b *membucket.Bucket, id snapshot.ID) { put(t, b, file(id, "000001"), "") },
		snapshot.ErrDamaged, "000001", false},
	"parts that have changed places": {func(t testing.TB, b *membucket.Bucket, id snapshot.ID) {
		first, second := body(t, b, file(id, "000000")), body(t, b, file(id, "000001"))
		put(t, b, file(id, "000000"), second)
		put(t, b, file(id, "000001"), first)
	}, snapshot.ErrDamaged, "000000", true},
	"another index": {func(t testing.TB, b *membucket.Bucket, id snapshot.ID) {
		put(t, b, file(id, "index"), strings.Replace(body(t, b, file(id, "index")), `"rows":2`, `"rows":3`, 1))
	}, snapshot.ErrDamaged, "index", true},
	"one part more": {func(t testing.TB, b *membucket.Bucket, id snapshot.ID) { put(t, b, file(id, "000002"), "") },
		nil, "", false},
}

// TestCase_C38_LivePartExpires: a part that the store has removed, or changed, is an error that names it and the generation,
// and never half a snapshot; and what is damaged is published again, though it is unchanged.
func TestCase_C38_LivePartExpires(t *testing.T) {
	for name, x := range damages {
		t.Run(name, func(t *testing.T) {
			b := membucket.New(nil)
			s := tiny(t, b)
			none := &snapshot.PublishOptions{Grace: snapshot.NoGrace}
			id := publishWith(t, s, tree(1, "a", "b"), none, snapshot.Published).ID
			x.do(t, b, id)
			_, got, err := s.Read(t.Context())
			if !errors.Is(err, x.want) || x.want != nil && (got != nil || !strings.Contains(err.Error(), x.says) ||
				!strings.Contains(err.Error(), "generation 1: ")) {
				t.Errorf("Read: %d rows, %v", len(got), err)
			}
			if x.quiet {
				publish(t, s, tree(1, "a", "b"), snapshot.Unchanged)
				return
			}
			if r := publishWith(t, s, tree(1, "a", "b"), none, snapshot.Published); r.ID.Number != 2 {
				t.Errorf("published again as %v", r.ID)
			}
			only(t, b, holds(t, s, 1, "a", "b"))
		})
	}
}

// TestStream_NoEnd: rows of which the end does not bear out the digest are no snapshot, although each part is as its index
// says.
func TestStream_NoEnd(t *testing.T) {
	for name, change := range map[string]func(string) string{
		"a part is left out": func(index string) string { return index[:strings.LastIndex(index, `,{"rows"`)] + "]}" },
		"other rows":         func(index string) string { return strings.Replace(index, `"rows":2`, `"rows":1`, 1) },
		"another digest":     func(index string) string { return strings.Replace(index, `"digest":"sha256:`, `"digest":"sha256:0`, 1) },
		"more rows in a part": func(index string) string {
			return strings.Replace(index, `{"rows":1,`, `{"rows":2,`, 1)
		},
		"another format": func(index string) string { return strings.Replace(index, "snapshot-index/1", "snapshot-index/2", 1) },
		"no JSON":        func(string) string { return "{" },
		"another id":     func(index string) string { return strings.Replace(index, `"id":"0`, `"id":"9`, 1) },
		"a field more":   func(index string) string { return strings.Replace(index, `{"format"`, `{"more":1,"format"`, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			b := membucket.New(nil)
			s := tiny(t, b)
			id := publish(t, s, tree(1, "a", "b"), snapshot.Published).ID
			publish(t, s, tree(2, "a", "b"), snapshot.Published)
			was := body(t, b, file(id, "index"))
			put(t, b, file(id, "index"), change(was)) // of a retired one, whose digest nobody keeps
			if body(t, b, file(id, "index")) == was {
				t.Fatal("nothing was changed")
			}
			g, err := s.OpenID(t.Context(), id)
			if err == nil {
				err = g.Stream(t.Context(), func(snapshot.Row) error { return nil })
			}
			if !errors.Is(err, snapshot.ErrDamaged) {
				t.Errorf("%v", err)
			}
		})
	}
	// What was packed is no row at all, though the part is as the index says.
	b := membucket.New(nil)
	s := tiny(t, b)
	id := publish(t, s, tree(1, "a"), snapshot.Published).ID
	publish(t, s, tree(2, "a"), snapshot.Published)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	fmt.Fprint(z, `{"path":"../a"}`)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{packed.String(), "no gzip", ""} {
		put(t, b, file(id, "000000"), part)
		put(t, b, file(id, "index"), fmt.Sprintf(`{"format":"snapshot-index/1","id":"%v","rows":1,"digest":"","parts":[{"rows":1,"bytes":%d,`+
			`"digest":"sha256:%x","first":"","last":""}]}`, id, len(part), sha256.Sum256([]byte(part))))
		g, err := s.OpenID(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Stream(t.Context(), func(snapshot.Row) error { return nil }); !errors.Is(err, snapshot.ErrDamaged) {
			t.Errorf("%q: %v", part, err)
		}
	}
}

// TestPointer_Unusable: a pointer that is empty, cut, foreign, newer or that cannot be is an error that names it, for
// everybody, and nobody writes over it or takes anything for swept.
func TestPointer_Unusable(t *testing.T) {
	good := func(t *testing.T, b *membucket.Bucket) string { return body(t, b, pointerKey) }
	replace := func(from, to string) func(t *testing.T, b *membucket.Bucket) string {
		return func(t *testing.T, b *membucket.Bucket) string {
			was := good(t, b)
			if !strings.Contains(was, from) {
				t.Fatalf("%s has no %s", was, from)
			}
			return strings.Replace(was, from, to, 1)
		}
	}
	for name, x := range map[string]struct {
		body func(t *testing.T, b *membucket.Bucket) string
		want error
	}{
		"empty":          {func(*testing.T, *membucket.Bucket) string { return "" }, cas.ErrCorrupt},
		"zeros":          {func(*testing.T, *membucket.Bucket) string { return strings.Repeat("\x00", 100) }, cas.ErrCorrupt},
		"cut":            {func(t *testing.T, b *membucket.Bucket) string { return good(t, b)[:200] }, cas.ErrCorrupt},
		"foreign":        {replace("snapshot/1", "manifest/1"), cas.ErrFormat},
		"newer":          {replace("snapshot/1", "snapshot/2"), cas.ErrFormat},
		"a field more":   {replace(`"grace_ms"`, `"new":1,"grace_ms"`), cas.ErrCorrupt},
		"grace":          {replace(`"grace_ms":60000`, `"grace_ms":86400001`), cas.ErrCorrupt},
		"an endless one": {replace(`"grace_ms":60000`, `"grace_ms":18446744073710`), cas.ErrCorrupt},
		"negative grace": {replace(`"grace_ms":60000`, `"grace_ms":-1`), cas.ErrCorrupt},
		"no id":          {replace(`"id":"00000000000000000002-`, `"id":"00000000000000000000-`), cas.ErrCorrupt},
		"rows":           {replace(`"rows":1`, `"rows":-1`), cas.ErrCorrupt},
		"parts":          {replace(`"parts":1`, `"parts":1000000`), cas.ErrCorrupt},
		"class":          {replace(`"class":"operator"`, `"class":"x"`), cas.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			b := membucket.New(nil)
			publish(t, tiny(t, b), tree(1, "a"), snapshot.Published)
			id := publish(t, tiny(t, b), tree(2, "a"), snapshot.Published).ID
			put(t, b, pointerKey, x.body(t, b))
			was := content(t, b)
			s := tiny(t, b)
			everybody(t, s, id, func(what string, err error) {
				if !errors.Is(err, x.want) || !strings.Contains(err.Error(), string(pointerKey)) || errors.Is(err, snapshot.ErrLost) {
					t.Errorf("%s: %v, want %v", what, err, x.want)
				}
			})
			as(t, b, was)
		})
	}
}

// everybody asks all that there is to ask.
func everybody(t *testing.T, s *snapshot.Snapshot, id snapshot.ID, want func(what string, err error)) {
	t.Helper()
	_, err := s.Publish(t.Context(), tree(3, "a"), nil)
	want("Publish", err)
	_, err = s.Status(t.Context())
	want("Status", err)
	_, _, err = s.Read(t.Context())
	want("Read", err)
	_, err = s.Open(t.Context())
	want("Open", err)
	_, err = s.OpenID(t.Context(), id)
	want("OpenID", err)
	_, err = s.Sweep(t.Context())
	want("Sweep", err)
}

// TestPointer_Lost: no pointer, beside generations that followed one, is not a first publication; beside those that were to
// be the first it is, as nothing was ever published then as far as anybody can see.
func TestPointer_Lost(t *testing.T) {
	b := membucket.New(nil)
	s := tiny(t, b)
	publish(t, s, tree(1, "a"), snapshot.Published)
	id := publish(t, s, tree(2, "a"), snapshot.Published).ID
	pointer := body(t, b, pointerKey)
	remove(t, b, pointerKey)
	was := content(t, b)
	for _, s := range []*snapshot.Snapshot{s, tiny(t, b)} {
		everybody(t, s, id, func(what string, err error) {
			if !errors.Is(err, snapshot.ErrLost) || errors.Is(err, cas.ErrNotExist) {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	as(t, b, was)
	if _, err := s.Publish(t.Context(), tree(3, "a"), nil); !strings.Contains(fmt.Sprint(err), string(pointerKey)) {
		t.Errorf("%v does not say what is to be restored", err)
	}
	put(t, b, pointerKey, pointer)
	holds(t, s, 2, "a")

	c := membucket.New(nil)
	put(t, c, root+"generations/00000000000000000003-RT5-0.0_claim", `{"class":"operator"}`)
	put(t, c, root+"generations/foreign_claim", "")
	r := publish(t, tiny(t, c), tree(1, "a"), snapshot.Published)
	if r.ID.Number != 4 || r.Swept.Generations != 1 || r.Swept.Keys != 1 {
		t.Errorf("%+v", r)
	}
	if n := len(generations(t, c)); n != 2 {
		t.Errorf("%d generations are there, want the new one and what is foreign", n)
	}
}

// TestPublish_LostRightAfter: a part that is gone when it is looked for after the publication is told.
func TestPublish_LostRightAfter(t *testing.T) {
	for name, want := range map[string]error{"000000": snapshot.ErrMissing, "index": snapshot.ErrMissing} {
		b := membucket.New(nil)
		s := tiny(t, &losing{b, name})
		r, err := s.Publish(t.Context(), tree(1, "a"), nil)
		if !errors.Is(err, want) || r.Outcome != snapshot.Published || !strings.Contains(err.Error(), "generation 1 was published") {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// A losing store forgets an object of that name as soon as the pointer is saved.
type losing struct {
	*membucket.Bucket
	name string
}

func (l *losing) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	v, err := l.Bucket.Save(ctx, key, body, p)
	if key != pointerKey || err != nil {
		return v, err
	}
	return v, l.List(ctx, bucket.ListRequest{Prefix: root}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			if strings.HasSuffix(string(o.Key), "_"+l.name) {
				return errors.Join(l.Delete(ctx, []bucket.Key{o.Key})...)
			}
		}
		return nil
	})
}

// TestSweep_Foreign: foreign keys are nobody's to take.
func TestSweep_Foreign(t *testing.T) {
	b := membucket.New(nil)
	s := tiny(t, b)
	publish(t, s, tree(1, "a"), snapshot.Published)
	others := []bucket.Key{root + "generations/x", root + "generations/7-a-b.1_claim", root + "generations/" + someID, root + "else",
		snapshot.Root + "team/files2/generations/" + someID + "_claim", root + "generations/" + someID + "x_", root + "generations/" + someID + "_",
		root + "generations/" + someID + "_000000/x", root + "generations/" + someID + "/claim"}
	for _, key := range others {
		put(t, b, key, "x")
	}
	publishWith(t, s, tree(2, "a"), &snapshot.PublishOptions{Grace: snapshot.NoGrace}, snapshot.Published)
	if swept, err := s.Sweep(t.Context()); err != nil || swept != (snapshot.Swept{}) {
		t.Errorf("%+v, %v", swept, err)
	}
	for _, key := range others {
		body(t, b, key)
	}
	put(t, b, root+"generations/"+someID+"_claim", "")
	put(t, b, root+"generations/"+someID+"_000000", "")
	if swept, err := s.Sweep(t.Context()); err != nil || swept != (snapshot.Swept{Generations: 1, Keys: 2}) {
		t.Errorf("%+v, %v", swept, err)
	}
}
