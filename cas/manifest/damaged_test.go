package manifest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/manifest"
)

// damaged are lists that nobody may go by, and the error that says so.
func damaged() map[string]struct {
	body string
	want error
} {
	const blob = `{"key":"s0","name":"f","size":1,"digest":"sha256:x"}`
	entry := func(id, blobs string) string {
		return `{"id":"` + id + `","dedupe_key":"","blobs":[` + blobs + `],"size":1,"digest":"sha256:y",` +
			`"added_at":"2026-01-01T00:00:00Z","meta":{}}`
	}
	payload := func(entries, reaping string) string {
		return listWith(`{"grace_ms":3600000,"entries":[` + entries + `],"reaping":[` + reaping + `]}`)
	}
	good := payload(entry("a", blob), "")
	type list = struct {
		body string
		want error
	}
	return map[string]list{
		"empty":           {"", cas.ErrCorrupt},
		"cut":             {good[:len(good)/2], cas.ErrCorrupt},
		"cut at the end":  {good[:len(good)-1], cas.ErrCorrupt},
		"NUL":             {strings.Repeat("\x00", len(good)), cas.ErrCorrupt},
		"two":             {good + good, cas.ErrCorrupt},
		"text":            {"not a list", cas.ErrCorrupt},
		"a page":          {"<html>503</html>", cas.ErrCorrupt},
		"an array":        {"[]", cas.ErrCorrupt},
		"null":            {"null", cas.ErrCorrupt},
		"newer":           {strings.Replace(good, "manifest/1", "manifest/2", 1), cas.ErrFormat},
		"of another kind": {strings.Replace(good, "manifest/1", "lease/1", 1), cas.ErrFormat},
		"newer, with more": {strings.Replace(strings.Replace(good, "manifest/1", "manifest/2", 1), `"seq"`, `"more":1,"seq"`, 1),
			cas.ErrFormat},
		"an unknown member":    {strings.Replace(good, `"entries"`, `"more":1,"entries"`, 1), cas.ErrCorrupt},
		"of an entry":          {strings.Replace(good, `"meta"`, `"more":1,"meta"`, 1), cas.ErrCorrupt},
		"without entries":      {listWith(`{"grace_ms":3600000,"reaping":[]}`), cas.ErrCorrupt},
		"without a journal":    {listWith(`{"grace_ms":3600000,"entries":[]}`), cas.ErrCorrupt},
		"without a grace":      {listWith(`{"entries":[],"reaping":[]}`), cas.ErrCorrupt},
		"an id twice":          {payload(entry("a", blob)+","+entry("a", strings.Replace(blob, "s0", "s1", 1)), ""), cas.ErrCorrupt},
		"no id":                {payload(entry("", blob), ""), cas.ErrCorrupt},
		"an id with a slash":   {payload(entry("a/b", blob), ""), cas.ErrCorrupt},
		"no blob":              {payload(entry("a", ""), ""), cas.ErrCorrupt},
		"a blob twice":         {payload(entry("a", blob+","+blob), ""), cas.ErrCorrupt},
		"a blob of two":        {payload(entry("a", blob)+","+entry("b", blob), ""), cas.ErrCorrupt},
		"a blob elsewhere":     {payload(entry("a", strings.Replace(blob, "s0", "../list", 1)), ""), cas.ErrCorrupt},
		"a journal elsewhere":  {payload(entry("a", blob), `"../../other/blobs/x"`), cas.ErrCorrupt},
		"referenced, noted":    {payload(entry("a", blob), `"s0"`), cas.ErrCorrupt},
		"noted twice":          {payload("", `"s0","s0"`), cas.ErrCorrupt},
		"an empty journal key": {payload("", `""`), cas.ErrCorrupt},
		"no seq":               {strings.Replace(good, `"seq":1`, `"seq":0`, 1), cas.ErrCorrupt},
		"too large":            {good + strings.Repeat(" ", cas.MaxSize), cas.ErrTooLarge},
	}
}

// TestManifest_Damaged: a list that is unreadable, cut, empty, foreign, newer or not as this package writes it is a named error
// for everybody. It is never written over, and no blob is deleted or taken for an orphan.
func TestManifest_Damaged(t *testing.T) {
	onStores(t, func(t *testing.T, open func() manifest.Store) {
		s := open()
		put(t, s, bucket.Key(root+"blobs/s0"), "x")
		put(t, s, bucket.Key(root+"blobs/orphan"), "x")
		for name, x := range damaged() {
			put(t, s, listKey, x.body)
			m := on(t, laterStore{s})
			had := blobs(t, s)
			for what, do := range map[string]func(context.Context) error{
				"Load":   func(ctx context.Context) error { _, err := m.Load(ctx); return err },
				"Add":    func(ctx context.Context) error { _, err := m.Add(ctx, one("new", "", "new")); return err },
				"Remove": func(ctx context.Context) error { _, err := m.Remove(ctx, "a", ""); return err },
				"GC":     func(ctx context.Context) error { _, err := m.GC(ctx, nil); return err },
				"GC, dry": func(ctx context.Context) error {
					r, err := m.GC(ctx, &manifest.GCOptions{DryRun: true})
					if len(r.Orphans) > 0 {
						t.Errorf("%s: orphans %v", name, r.Orphans)
					}
					return err
				},
				"GC, forced": func(ctx context.Context) error { _, err := m.GC(ctx, &manifest.GCOptions{Force: true}); return err },
				"Fsck":       func(ctx context.Context) error { _, err := m.Fsck(ctx); return err },
			} {
				err := do(t.Context())
				if !errors.Is(err, x.want) || errors.Is(err, cas.ErrUnknown) || !strings.Contains(err.Error(), "team/models") {
					t.Errorf("%s: %s: %v, want %v", name, what, err, x.want)
				}
			}
			if body := read(t, s, listKey); body != x.body {
				t.Errorf("%s: it was written over with %.200q", name, body)
			}
			for _, key := range had {
				if !slices.Contains(blobs(t, s), key) {
					t.Errorf("%s: %s was deleted", name, key)
				}
			}
		}
	})
}

func read(t testing.TB, s manifest.Store, key bucket.Key) string {
	t.Helper()
	r, err := s.Open(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	body, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestManifest_DuplicateID: an id is there once. Who adds it again is told so, and nothing changes but for what was uploaded;
// displacing the entry that has it, and removing it, make it free.
func TestManifest_DuplicateID(t *testing.T) {
	onStores(t, func(t *testing.T, open func() manifest.Store) {
		s := open()
		tag := has(t, on(t, s), "a", "k", "first").State.Tag
		for _, key := range []string{"", "other"} {
			if _, err := on(t, s).Add(t.Context(), one("a", key, "second")); !errors.Is(err, manifest.ErrID) {
				t.Errorf("an id that is there, with key %q: %v, want ErrID", key, err)
			}
		}
		if state := holds(t, s, "a=first"); state.Tag != tag {
			t.Errorf("it was saved: %s, before %s", state.Tag, tag)
		}
		has(t, on(t, s), "a", "k", "third")
		holds(t, s, "a=third")
		if _, err := on(t, s).Remove(t.Context(), "a", ""); err != nil {
			t.Error(err)
		}
		has(t, on(t, s), "a", "", "fourth")
		holds(t, s, "a=fourth")
		collect(t, s)
		if n := len(blobs(t, s)); n != 1 {
			t.Errorf("%d blobs are left", n)
		}
	})
}

// TestManifest_EmptyBlobs: a blob may be empty, and is there all the same.
func TestManifest_EmptyBlobs(t *testing.T) {
	onStores(t, func(t *testing.T, open func() manifest.Store) {
		s := open()
		c, err := on(t, s).Add(t.Context(), manifest.AddRequest{ID: "a", Create: true,
			Sources: []manifest.Source{text(""), text("x"), text("")}})
		if err != nil {
			t.Fatal(err)
		}
		const nothing = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
		if b := c.Entry.Blobs; b[0].Digest != nothing || b[2].Digest != nothing || b[0].Key == b[2].Key || c.Entry.Size != 1 {
			t.Errorf("the entry is %+v", c.Entry)
		}
		collect(t, s)
		holds(t, s, "a=x")
		if n := len(blobs(t, s)); n != 3 {
			t.Errorf("%d blobs are there", n)
		}
		if _, err := on(t, s).Remove(t.Context(), "a", ""); err != nil || len(blobs(t, s)) > 0 {
			t.Errorf("removed: %v, left %q", err, blobs(t, s))
		}
	})
}

// TestManifest_ForeignObjects: what has no key of a blob is counted, told and left alone, by gc as well.
func TestManifest_ForeignObjects(t *testing.T) {
	onStores(t, func(t *testing.T, open func() manifest.Store) {
		s := open()
		has(t, on(t, s), "a", "", "a")
		foreign := []bucket.Key{root + "blobs/read.me", root + "blobs/" + bucket.Key(strings.Repeat("a", 65)), root + "blobs/a_b",
			root + "blobs/of/somebody", root + "blobsX", root + "list.old"}
		for _, key := range foreign {
			put(t, s, key, string(key))
		}
		put(t, s, root+"blobs/orphan", "x")
		c, err := on(t, s).Fsck(t.Context())
		if err != nil || c.Foreign != 4 || len(c.Orphans) != 1 || len(c.Faults) > 0 {
			t.Errorf("fsck: %+v, %v", c, err)
		}
		if r := collect(t, s); r.Deleted != 1 || r.Listed != 6 {
			t.Errorf("gc: %+v", r)
		}
		for _, key := range foreign {
			if body := read(t, s, key); body != string(key) {
				t.Errorf("%s is %q", key, body)
			}
		}
		holds(t, s, "a=a")
	})
}

// seededWith puts a list of n entries with a blob each, whose names are so long, and returns its body.
func seededWith(t testing.TB, s manifest.Store, n, length int) string {
	t.Helper()
	type blob = map[string]any
	name := strings.Repeat("n", length)
	entries := make([]map[string]any, n)
	for i := range entries {
		entries[i] = map[string]any{
			"id": fmt.Sprint("seed-", i), "dedupe_key": "", "blobs": []blob{{"key": fmt.Sprintf("S%025d", i), "name": name, "size": 1,
				"digest": "sha256:" + strings.Repeat("0", 64)}},
			"size": 1, "digest": "sha256:" + strings.Repeat("0", 64), "added_at": "2026-01-01T00:00:00Z", "meta": map[string]string{},
		}
	}
	payload, err := json.Marshal(map[string]any{"grace_ms": 3600000, "entries": entries, "reaping": []string{}})
	if err != nil {
		t.Fatal(err)
	}
	body := listWith(string(payload))
	put(t, s, listKey, body)
	return body
}

// TestManifest_Full: an entry for which the list has no more room is refused, with how many it has and what to do. The list
// stays as it is; removing makes room.
func TestManifest_Full(t *testing.T) {
	s := membucket.New(nil)
	body := seededWith(t, s, 40_000, 98)
	if room := cas.MaxSize - len(body); room < 0 || room > 100_000 {
		t.Fatalf("the seed leaves %d bytes", room)
	}
	big := one("big", "", "x")
	big.Meta = map[string]string{"big": strings.Repeat("x", 100_000)}
	_, err := on(t, s).Add(t.Context(), big)
	if !errors.Is(err, cas.ErrTooLarge) || errors.Is(err, cas.ErrUnknown) {
		t.Fatalf("Add: %v, want ErrTooLarge", err)
	}
	for _, says := range []string{"40000 entries", "16 MiB", "another manifest"} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%q does not say %q", err, says)
		}
	}
	if read(t, s, listKey) != body {
		t.Error("the list was changed")
	}
	m := on(t, s)
	if _, err := m.Remove(t.Context(), "seed-7", ""); err != nil {
		t.Errorf("removing from a full list: %v", err)
	}
	has(t, m, "small", "", "x")
	state, err := m.Load(t.Context())
	if err != nil || len(state.Entries) != 40_000 || state.Entries[39_999].ID != "small" {
		t.Errorf("%d entries, %v", len(state.Entries), err)
	}
}

// orphaned puts n orphans.
func orphaned(t testing.TB, s manifest.Store, n int) {
	t.Helper()
	for i := range n {
		put(t, s, bucket.Key(fmt.Sprintf("%sblobs/%026d", root, i)), "x")
	}
}

// TestManifest_CollectInRounds: orphans that are too many to be noted at once, since the list is nearly full or since they are
// very many, are all collected.
func TestManifest_CollectInRounds(t *testing.T) {
	for name, x := range map[string]struct{ entries, orphans, saves int }{
		"a full list": {40_000, 1200, 4}, "very many": {1, 100_001, 4},
	} {
		t.Run(name, func(t *testing.T) {
			now := start
			s := membucket.New(&membucket.Options{Now: func() time.Time { return now }})
			seededWith(t, s, x.entries, 98)
			orphaned(t, s, x.orphans)
			now = start.Add(2 * time.Hour)
			saves := 0
			r, err := on(t, savesOf{s, &saves}).GC(t.Context(), nil)
			if err != nil || r.Deleted != x.orphans || r.Failures > 0 || len(r.Orphans) != x.orphans || r.Resumed > 0 {
				t.Errorf("deleted %d, failed %d, of %d, resumed %d, %v", r.Deleted, r.Failures, len(r.Orphans), r.Resumed, err)
			}
			if saves < 4 || saves > x.saves {
				t.Errorf("%d saves", saves)
			}
			state, err := on(t, s).Load(t.Context())
			if err != nil || len(state.Entries) != x.entries || len(state.Reaping) > 0 || len(blobs(t, s)) > 0 {
				t.Errorf("%d entries, %d noted, %d blobs, %v", len(state.Entries), len(state.Reaping), len(blobs(t, s)), err)
			}
		})
	}
}

// TestManifest_CollectWithoutRoom: where the list has no room for a single key more, what is noted already is deleted, and makes
// room for the orphans. Where nothing is noted it is an error.
func TestManifest_CollectWithoutRoom(t *testing.T) {
	for _, noted := range []int{100, 0} {
		now := start
		s := membucket.New(&membucket.Options{Now: func() time.Time { return now }})
		orphaned(t, s, noted+1)
		keys := []string{}
		for i := range noted {
			keys = append(keys, fmt.Sprintf(`"%026d"`, i))
		}
		body := strings.Replace(seededWith(t, s, 160, 100_000), `"reaping":[]`, `"reaping":[`+strings.Join(keys, ",")+`]`, 1)
		room := cas.MaxSize - len(body) - 10
		put(t, s, listKey, strings.Replace(body, `"name":"`, `"name":"`+strings.Repeat("n", room), 1))
		now = start.Add(2 * time.Hour)
		r, err := on(t, s).GC(t.Context(), nil)
		if noted == 0 {
			if !errors.Is(err, cas.ErrTooLarge) || r.Deleted > 0 {
				t.Errorf("nothing noted: deleted %d, %v", r.Deleted, err)
			}
			continue
		}
		if err != nil || r.Deleted != noted+1 || r.Resumed != noted || len(r.Orphans) != 1 || r.Failures > 0 || len(blobs(t, s)) > 0 {
			t.Errorf("deleted %d, resumed %d, %d orphans, %d failed, %v", r.Deleted, r.Resumed, len(r.Orphans), r.Failures, err)
		}
	}
}

// savesOf counts saves that were won.
type savesOf struct {
	manifest.Store
	n *int
}

func (s savesOf) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	v, err := s.Store.Save(ctx, key, body, p)
	if err == nil {
		*s.n++
	}
	return v, err
}
