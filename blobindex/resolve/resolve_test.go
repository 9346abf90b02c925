package resolve_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/blobindex/resolve"
	"github.com/blobindex/indexd/fakes"
	"github.com/google/go-cmp/cmp"
)

func target(t *testing.T, body int64) blobindex.Target {
	t.Helper()
	id, err := itemid.Epoch.Parse("a&b_1700000000")
	if err != nil {
		t.Fatal(err)
	}
	return blobindex.Target{
		Index: "running", Namespace: "team", ID: id, Body: body, Marker: bucket.Key("_active_runs/team/" + id.String()),
	}
}

func put(t *testing.T, b bucket.Objects, key bucket.Key, body string) {
	t.Helper()
	if _, err := b.Put(t.Context(), key, strings.NewReader(body)); err != nil {
		t.Fatal(err)
	}
}

func TestMarker(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		want       blobindex.Status
		err        error
	}{
		{"no body", "", blobindex.Status{State: blobindex.Running}, nil},
		{"labels", `{"title":"Train <b>","owner":"ann","url":"https://ci.example/1","other":"x"}`, blobindex.Status{
			State: blobindex.Running, Title: "Train <b>", Owner: "ann", URL: "https://ci.example/1", Requests: 1}, nil},
		{"a link that is none", `{"url":"javascript:alert(1)"}`, blobindex.Status{State: blobindex.Running, Requests: 1}, nil},
		{"a link with a password", `{"url":"https://u:p@h/"}`, blobindex.Status{State: blobindex.Running, Requests: 1}, nil},
		{"invalid UTF-8 and too long", `{"title":"` + strings.Repeat("ä", 300) + `","owner":"` + "\xff" + `"}`, blobindex.Status{
			State: blobindex.Running, Title: strings.Repeat("ä", 128), Owner: "\uFFFD", Requests: 1}, nil},
		{"no JSON", `{"title":`, blobindex.Status{State: blobindex.Running, Requests: 1}, blobindex.ErrLabels},
		{"not text", `{"title":1}`, blobindex.Status{State: blobindex.Running, Requests: 1}, blobindex.ErrLabels},
	} {
		t.Run(tc.name, func(t *testing.T) {
			count := fakes.NewCounter(membucket.New(nil))
			it := target(t, int64(len(tc.body)))
			put(t, count, it.Marker, tc.body)
			count.Reset()
			m := resolve.NewMarker(count)
			got, err := m.Resolve(t.Context(), it)
			if !errors.Is(err, tc.err) || (err == nil) != (tc.err == nil) {
				t.Errorf("error %v, want %v", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if n := count.Snapshot().Requests(); n != got.Requests || n != m.MaxRequests(it) {
				t.Errorf("%d requests were made, %d told, at most %d announced", n, got.Requests, m.MaxRequests(it))
			}
		})
	}
}

func TestMarker_GoneOrDenied(t *testing.T) {
	mem := membucket.New(nil)
	if s, err := resolve.NewMarker(mem).Resolve(t.Context(), target(t, 5)); err != nil || s.State != blobindex.Running {
		t.Errorf("a marker that has gone: %+v %v", s, err)
	}
	denied := fakes.NewFaulty(t, mem, fakes.Fault{Op: fakes.Open, Kind: fakes.NotApplied(bucket.ErrDenied)})
	if s, err := resolve.NewMarker(denied).Resolve(t.Context(), target(t, 5)); !errors.Is(err, bucket.ErrDenied) || s.State.Over() {
		t.Errorf("a marker that may not be read: %+v %v", s, err)
	}
}

func TestState(t *testing.T) {
	half := 0.5
	const done = `{"state":"succeeded","progress":0.5,"title":"T","owner":"o","url":"http://h/x","updated_at":"2026-01-02T03:04:05Z"}`
	full := blobindex.Status{State: blobindex.Succeeded, Title: "T", Owner: "o", URL: "http://h/x", Progress: &half, Requests: 3}
	incomplete := full
	incomplete.State, incomplete.Requests = blobindex.Running, 3
	for _, tc := range []struct {
		name, doc string
		results   []bucket.Key
		want      blobindex.Status
		err       error
	}{
		{"absent", "", nil, blobindex.Status{Requests: 1}, nil},
		{"running", `{"state":"running"}`, nil, blobindex.Status{State: blobindex.Running, Requests: 1}, nil},
		{"done, complete", done, []bucket.Key{"results/team/a&b_1700000000/a", "results/a&b/b"}, full, nil},
		{"done, half there", done, []bucket.Key{"results/team/a&b_1700000000/a"}, incomplete, nil},
		{"failed, nothing there", `{"state":"failed"}`, nil, blobindex.Status{State: blobindex.Running, Requests: 2}, nil},
		{"unknown state", `{"state":"paused"}`, nil, blobindex.Status{Requests: 1}, resolve.ErrDocument},
		{"no state", `{}`, nil, blobindex.Status{Requests: 1}, resolve.ErrDocument},
		{"cut", `{"state":"succ`, nil, blobindex.Status{Requests: 1}, resolve.ErrDocument},
		{"progress too large", `{"state":"running","progress":7}`, nil, blobindex.Status{Requests: 1}, resolve.ErrDocument},
		{"a list", `[]`, nil, blobindex.Status{Requests: 1}, resolve.ErrDocument},
	} {
		t.Run(tc.name, func(t *testing.T) {
			count := fakes.NewCounter(membucket.New(nil))
			if tc.doc != "" {
				put(t, count, "results/team/a&b_1700000000/status.json", tc.doc)
			}
			for _, key := range tc.results {
				put(t, count, key, "x")
			}
			count.Reset()
			s, err := resolve.NewState(count, resolve.StateOptions{
				Template: "results/{namespace}/{id}/status.json",
				Requires: []string{"results/{namespace}/{id}/a", "results/{subkey}/b"},
			})
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Resolve(t.Context(), target(t, 0))
			if !errors.Is(err, tc.err) || (err == nil) != (tc.err == nil) {
				t.Errorf("error %v, want %v", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if n := count.Snapshot().Requests(); n != got.Requests || n > s.MaxRequests(target(t, 0)) {
				t.Errorf("%d requests were made, %d told", n, got.Requests)
			}
		})
	}
}

// TestState_DeniedIsNotAbsent: what may not be read is an error, never a final state.
func TestState_DeniedIsNotAbsent(t *testing.T) {
	mem := membucket.New(nil)
	put(t, mem, "s/a&b_1700000000", `{"state":"succeeded"}`)
	for _, op := range []fakes.Op{fakes.Open, fakes.Head} {
		denied := fakes.NewFaulty(t, mem, fakes.Fault{Op: op, Kind: fakes.NotApplied(bucket.ErrDenied)})
		s, err := resolve.NewState(denied, resolve.StateOptions{Template: "s/{id}", Requires: []string{"r/{id}"}})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Resolve(t.Context(), target(t, 0)); !errors.Is(err, bucket.ErrDenied) || got.State.Over() {
			t.Errorf("%v: %+v %v", op, got, err)
		}
	}
}

func TestState_Templates(t *testing.T) {
	for _, bad := range []string{"", "/", "a", "{id}/", "/{id}", "a//{id}", "a/{id}.json", "a/{ID}", "a/{id", "../{id}", "./{id}",
		"{namespace}/x", "a/x{id}"} {
		if _, err := resolve.NewState(nil, resolve.StateOptions{Template: bad}); !errors.Is(err, resolve.ErrTemplate) {
			t.Errorf("%q: %v", bad, err)
		}
		if bad == "a" || bad == "{namespace}/x" {
			continue // fine for a required object
		}
		if _, err := resolve.NewState(nil, resolve.StateOptions{Template: "{id}", Requires: []string{bad}}); !errors.Is(err, resolve.ErrTemplate) {
			t.Errorf("requires %q: %v", bad, err)
		}
	}
}
