package gcsbucket_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/gcsbucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/fakes/gcsd"
)

// inspected opens a bucket of a server whose clock never comes too early.
func inspected(t *testing.T, o gcsd.Options, prefix string) (*gcsd.Server, *gcsbucket.Bucket) {
	t.Helper()
	o.Now = gcsd.Ticking(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), time.Second)
	s := gcsd.New(&o)
	t.Cleanup(s.Close)
	return s, inspect(t, s.URL(), prefix)
}

func inspect(t *testing.T, url, prefix string) *gcsbucket.Bucket {
	t.Helper()
	b, err := gcsbucket.New(t.Context(), gcsbucket.Options{Bucket: "bucket", Endpoint: url, Prefix: prefix, Attempts: 2, FirstPause: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// resource is a bucket that answers this as its own metadata.
func resource(t *testing.T, prefix, text string) *gcsbucket.Bucket {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/storage/v1/b/bucket" {
			t.Errorf("it asked for %s", r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		if text == "" {
			w.WriteHeader(http.StatusForbidden)
			text = `{"error":{"code":403,"message":"no"}}`
		}
		fmt.Fprint(w, text)
	}))
	t.Cleanup(s.Close)
	return inspect(t, s.URL, prefix)
}

func TestSetting(t *testing.T) {
	for _, x := range []struct {
		name, resource, want string
		err                  error
	}{
		{"versioning", `{}`, "off", nil},
		{"versioning", `{"versioning":{"enabled":true}}`, "every version", nil},
		{"soft-delete", `{}`, "off", nil},
		{"soft-delete", `{"softDeletePolicy":{"retentionDurationSeconds":"0"}}`, "off", nil},
		{"soft-delete", `{"softDeletePolicy":{"retentionDurationSeconds":"604800"}}`, "168h", nil},
		{"retention", `{}`, "off", nil},
		{"retention", `{"retentionPolicy":{"retentionPeriod":"3600","effectiveTime":"2026-11-30T12:00:00Z"}}`, "1h", nil},
		{"retention", `{"defaultEventBasedHold":true}`, "hold", nil},
		{"retention", ``, "", bucket.ErrDenied},
	} {
		got, err := resource(t, "", x.resource).Setting(t.Context(), x.name)
		if !errors.Is(err, x.err) || !strings.Contains(got, x.want) || (got == "") != (x.err != nil) {
			t.Errorf("%s of %s: %q, %v, want %q, %v", x.name, x.resource, got, err, x.want, x.err)
		}
	}
	if _, err := resource(t, "", `{}`).Setting(t.Context(), "object-lock"); !errors.Is(err, bucket.ErrUnsupported) {
		t.Errorf("object-lock: %v", err)
	}
}

func TestExpirations(t *testing.T) {
	for name, x := range map[string]struct {
		condition, prefix string
		want              []string
	}{
		"all":        {`{"age":30}`, "", []string{`"": deletes objects after 30 days`}},
		"live":       {`{"age":30,"isLive":true}`, "", []string{`"": deletes objects after 30 days`}},
		"prefixes":   {`{"age":1,"matchesPrefix":["x/","_indexd/"]}`, "", []string{`"x/": deletes objects after 1 days`, `"_indexd/": deletes objects after 1 days`}},
		"our path":   {`{"age":1,"matchesPrefix":["team/_indexd/","other/"]}`, "team", []string{`"_indexd/": deletes objects after 1 days`}},
		"above us":   {`{"age":1,"matchesPrefix":["te"]}`, "team", []string{`"": deletes objects after 1 days`}},
		"former":     {`{"age":1,"isLive":false}`, "", nil},
		"versions":   {`{"numNewerVersions":2}`, "", nil},
		"noncurrent": {`{"daysSinceNoncurrentTime":2}`, "", nil},
		"custom":     {`{"daysSinceCustomTime":2}`, "", nil},
	} {
		text := `{"lifecycle":{"rule":[{"action":{"type":"Delete"},"condition":` + x.condition + `},` +
			`{"action":{"type":"SetStorageClass","storageClass":"NEARLINE"},"condition":{"age":1}}]}}`
		var got []string
		err := resource(t, x.prefix, text).Expirations(t.Context(), func(prefix, what string) {
			got = append(got, fmt.Sprintf("%q: %s", prefix, what))
		})
		if err != nil || !slices.Equal(got, x.want) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, x.want)
		}
	}
	err := resource(t, "", ``).Expirations(t.Context(), func(string, string) { t.Error("a rule") })
	if !errors.Is(err, bucket.ErrDenied) {
		t.Errorf("who may not see it: %v", err)
	}
}

func TestConditional(t *testing.T) {
	for _, request := range []string{"read", "metadata", "delete"} {
		_, b := inspected(t, gcsd.Options{}, "p")
		old, err := b.Save(t.Context(), "k", []byte("1"), cas.IfAbsent())
		if err != nil {
			t.Fatal(err)
		}
		now, err := b.Save(t.Context(), "k", []byte("2"), cas.IfMatch(old))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Conditional(t.Context(), request, "k", old); !errors.Is(err, cas.ErrConflict) {
			t.Errorf("%s on a stale version: %v", request, err)
		}
		if v, err := b.MetadataVersion(t.Context(), "k"); err != nil || v != now {
			t.Errorf("%s: the metadata tells %s, %v, want %s", request, v, err, now)
		}
		if request == "metadata" {
			continue
		}
		if err := b.Conditional(t.Context(), request, "k", now); err != nil {
			t.Errorf("%s on the current version: %v", request, err)
		}
		if _, err := b.Head(t.Context(), "k"); (err == nil) != (request == "read") {
			t.Errorf("%s: it is there: %v", request, err)
		}
	}
	_, b := inspected(t, gcsd.Options{}, "")
	if err := b.Conditional(t.Context(), "batch-delete", "k", "1"); !errors.Is(err, bucket.ErrUnsupported) {
		t.Errorf("batch-delete: %v", err)
	}
}

// TestSaveSlowly: midway nothing is there yet.
func TestSaveSlowly(t *testing.T) {
	_, b := inspected(t, gcsd.Options{}, "")
	body := []byte(strings.Repeat("x", 1<<18))
	called := 0
	v, err := b.SaveSlowly(t.Context(), "k", body, cas.IfAbsent(), func() {
		called++
		if _, err := b.Head(t.Context(), "k"); !errors.Is(err, bucket.ErrNotExist) {
			t.Errorf("before its end: %v", err)
		}
	})
	o, loading := b.Load(t.Context(), "k")
	if err != nil || loading != nil || called != 1 || string(o.Body) != string(body) || o.Version != v {
		t.Errorf("%v, %v, called %d times, %d bytes of %s, want %s", err, loading, called, len(o.Body), o.Version, v)
	}
	if _, err := b.SaveSlowly(t.Context(), "k", body, cas.IfAbsent(), func() {}); !errors.Is(err, cas.ErrConflict) {
		t.Errorf("over another one: %v", err)
	}
}

func TestListPage(t *testing.T) {
	_, b := inspected(t, gcsd.Options{}, "p")
	for _, k := range []bucket.Key{"d/a", "d/b", "d/c", "e"} {
		if _, err := b.Put(t.Context(), k, nil); err != nil {
			t.Fatal(err)
		}
	}
	keys, next, form, err := b.ListPage(t.Context(), "d/", "", "", 2)
	if err != nil || !slices.Equal(keys, []string{"d/a", "d/b"}) || next == "" || form != "" {
		t.Errorf("the first page: %q, %q, %q, %v", keys, next, form, err)
	}
	keys, next, _, err = b.ListPage(t.Context(), "d/", "", next, 2)
	if err != nil || !slices.Equal(keys, []string{"d/c"}) || next != "" {
		t.Errorf("the second page: %q, %q, %v", keys, next, err)
	}
	if keys, _, _, err = b.ListPage(t.Context(), "d/", "d/a", "", 5); err != nil || !slices.Equal(keys, []string{"d/b", "d/c"}) {
		t.Errorf("after a key: %q, %v", keys, err)
	}
	err = b.Sibling("absent").List(t.Context(), bucket.ListRequest{}, func(bucket.Page) error { return nil })
	if !errors.Is(err, bucket.ErrNotExist) {
		t.Errorf("an absent bucket: %v", err)
	}
}
