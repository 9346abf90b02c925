package manifest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/manifest"
	"github.com/blobindex/indexd/fakes/explore"
)

// Each of the types below plants a bug below the code of the package, where it acts as if the code had it.

// journalOf is the journal in a body that is to be saved.
func journalOf(body []byte) []bucket.Key {
	var d document
	if err := json.Unmarshal(body, &d); err != nil {
		panic(err)
	}
	var keys []bucket.Key
	for _, k := range d.Payload.Reaping {
		keys = append(keys, bucket.Key(root+"blobs/"+k))
	}
	return keys
}

// reapsEarly deletes before the save is won.
type reapsEarly struct{ manifest.Store }

func (r reapsEarly) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	_ = r.Delete(ctx, journalOf(body))
	return r.Store.Save(ctx, key, body, p)
}

// reapsAnyway deletes, at the end, what the first try would have displaced.
type reapsAnyway struct {
	manifest.Store
	first []bucket.Key
}

func (r *reapsAnyway) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	if r.first == nil {
		r.first = journalOf(body)
	}
	return r.Store.Save(ctx, key, body, p)
}

func (r *reapsAnyway) reap(ctx context.Context) { _ = r.Delete(ctx, r.first) }

// journalsFirst journals, with each try, what the first one displaced.
type journalsFirst struct {
	manifest.Store
	journal json.RawMessage
}

func (j *journalsFirst) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	var d, payload map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(body, &d), json.Unmarshal(d["payload"], &payload)); err != nil {
		panic(err)
	}
	if j.journal == nil {
		j.journal = payload["reaping"]
	}
	payload["reaping"] = j.journal
	var err1, err2 error
	d["payload"], err1 = json.Marshal(payload)
	body, err2 = json.Marshal(d)
	if err := errors.Join(err1, err2); err != nil {
		panic(err)
	}
	return j.Store.Save(ctx, key, body, p)
}

// keepsNoJournal saves nothing, and says that it did.
type keepsNoJournal struct{ manifest.Store }

func (keepsNoJournal) Save(context.Context, bucket.Key, []byte, cas.Precondition) (cas.Version, error) {
	return "saved", nil
}

// believes takes what it has stored for being there.
type believes struct {
	manifest.Store
	sizes map[bucket.Key]int64
}

func (b *believes) Put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	var content bytes.Buffer
	t, err := b.Store.Put(ctx, key, io.TeeReader(body, &content))
	b.sizes[key] = int64(content.Len())
	return t, err
}

func (b *believes) Head(_ context.Context, key bucket.Key) (bucket.Object, error) {
	return bucket.Object{Key: key, Size: b.sizes[key]}, nil
}

// repeats sends an upload twice under the same key, as an SDK does that missed the first answer.
type repeats struct{ manifest.Store }

func (r repeats) Put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	content, err := io.ReadAll(body)
	if err != nil {
		return time.Time{}, err
	}
	_, _ = r.Store.Put(ctx, key, bytes.NewReader(content))
	return r.Store.Put(ctx, key, bytes.NewReader(content))
}

// inventsList takes an absent manifest for an empty one.
type inventsList struct{ keepsNoJournal }

func (i inventsList) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	o, err := i.Store.Load(ctx, key)
	if errors.Is(err, cas.ErrNotExist) {
		return cas.Object{Version: "none", Body: []byte(`{"format":"manifest/1","created":{"nonce":"x","at":"2026-01-01T00:00:00Z"},` +
			`"seq":1,"nonce":"x","recent":[],"payload":{"grace_ms":3600000,"entries":[],"reaping":[]}}`)}, nil
	}
	return o, err
}

// TestP8_Planted: the explorer finds each of these bugs, and nothing where there is none.
func TestP8_Planted(t *testing.T) {
	for _, c := range []struct {
		name  string
		s     explore.Scenario
		parts func(bug host) []part
		bug   func(s manifest.Store) manifest.Store
		tag   string
		large bool   // without the bug it is searched by `make explore` only
		want  string // of the promise that is broken
	}{
		{
			name: "reap inside the retry loop", want: "entry old references s0, which is missing",
			s: explore.Scenario{Setup: seeded},
			parts: func(bug host) []part {
				return []part{bug.writer("a", "k"), writer("b", "k")}
			},
			bug: func(s manifest.Store) manifest.Store { return reapsEarly{s} },
		}, {
			name: "reap the set of before the retry", want: "entry old references s0, which is missing",
			s: explore.Scenario{Setup: seeded}, tag: "s1-1",
			parts: func(bug host) []part {
				return []part{bug.writer("a", "k"), writer("b", "")}
			},
			bug: func(s manifest.Store) manifest.Store { return &reapsAnyway{Store: s} },
		}, {
			name: "journal the set of before the retry", want: "b1, displaced, is there and not journaled",
			s: explore.Scenario{Setup: seeded},
			parts: func(bug host) []part {
				return []part{bug.writer("a", "k"), writer("b", "k")}
			},
			bug: func(s manifest.Store) manifest.Store { return &journalsFirst{Store: s} },
		}, {
			name: "gc without journal", want: "entry solo references solo1, which is missing",
			s: explore.Scenario{Setup: seeded},
			parts: func(bug host) []part {
				return []part{writer("solo", "k"), bug.collector("gc"), clock(2 * time.Hour)}
			},
			bug: func(s manifest.Store) manifest.Store { return keepsNoJournal{s} },
		}, {
			name: "no HEAD", want: "entry solo references solo1, which is missing",
			s: explore.Scenario{Setup: seeded},
			parts: func(bug host) []part {
				return []part{bug.writer("solo", "k"), collector("gc"), clock(2 * time.Hour)}
			},
			bug: func(s manifest.Store) manifest.Store { return &believes{s, map[bucket.Key]int64{}} },
		}, {
			name: "an upload that is sent again", want: "entry solo references solo1, which is missing",
			s: explore.Scenario{Setup: emptied, PageSize: 10}, large: true,
			parts: func(bug host) []part {
				return []part{bug.writer("solo", "k"), collector("gc"), collector("gd"), clock(2 * time.Hour)}
			},
			bug: func(s manifest.Store) manifest.Store { return repeats{s} },
		}, {
			name: "gc beside an absent manifest", want: "entry a references a1, which is missing",
			s: explore.Scenario{},
			parts: func(bug host) []part {
				return []part{writer("a", "k"), bug.collector("gc"), clock(2 * time.Hour)}
			},
			bug: func(s manifest.Store) manifest.Store { return inventsList{keepsNoJournal{s}} },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !c.large || os.Getenv("INDEXD_EXPLORE") != "" {
				explore.Run(t, newJudge(t, c.parts(host{tag: c.tag})).of(c.s))
			}
			broken := newJudge(t, c.parts(host{tag: c.tag, bug: c.bug})).of(c.s)
			_, err := explore.Search(t, broken)
			var found *explore.Failure
			if !errors.As(err, &found) || !strings.Contains(fmt.Sprint(found.Err), c.want) {
				t.Fatalf("%v, want one that says that %s", err, c.want)
			}
			t.Logf("%s\n%s\nfound: %s", found.Err, strings.Join(found.Steps, "\n"), found.Schedule)
			if again := explore.Replay(t, broken, found.Schedule); again == nil || again.Error() != found.Error() {
				t.Errorf("replayed, it is another failure: %v", again)
			}
		})
	}
}
