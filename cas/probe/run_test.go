package probe_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/probe"
	"github.com/blobindex/indexd/fakes/gcsd"
	"github.com/blobindex/indexd/fakes/s3d"
)

// TestRun_Memory: what is in memory is all that one can ask for, of both characters.
func TestRun_Memory(t *testing.T) {
	for _, generations := range []bool{false, true} {
		b := membucket.New(&membucket.Options{Generations: generations})
		r := run(t, &probe.Options{Creates: 4, Increments: 2}, siteOf("memory", b))
		allYes(t, r, nil)
		if keys := keysOf(t, b); !slices.Equal(keys, []string{string(probe.VerdictKey)}) {
			t.Errorf("it left %q", keys)
		}
	}
}

// TestRun_Directory: two openings of one directory are as sound as one.
func TestRun_Directory(t *testing.T) {
	dir := t.TempDir()
	var sites []probe.Site
	for range 2 {
		b, err := dirbucket.Create(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		sites = append(sites, siteOf(dir, b))
	}
	r := run(t, &probe.Options{Creates: 4, Increments: 1, Objects: 50}, sites...)
	allYes(t, r, nil)
	if keys := keysOf(t, sites[0].Objects); !slices.Equal(keys, []string{string(probe.VerdictKey)}) {
		t.Errorf("it left %q", keys)
	}
}

func keysOf(t testing.TB, b bucket.Objects) (keys []string) {
	t.Helper()
	err := b.List(t.Context(), bucket.ListRequest{}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			keys = append(keys, string(o.Key))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// TestRun_TwoGateways: two servers before one bucket, each sound by itself, that do not know of each other. The second one
// is the first one behind a delay between its condition and its effect.
func TestRun_TwoGateways(t *testing.T) {
	c := &clock{}
	sound := openS3(t, "bucket", s3Options(startS3(t, s3d.Options{Secret: secret, Now: c.now}, nil).url, secret))
	r := run(t, quick(c), siteOf("one", sound))
	allYes(t, r, nil)
	// Honest one after the other, and at once only by chance.
	s := startS3(t, s3d.Options{Secret: secret, Now: c.now, Lies: s3d.Lies{RaceWindow: 50 * time.Millisecond}}, nil)
	r = run(t, quick(c), siteOf("one", openS3(t, "bucket", s3Options(s.url, secret))),
		siteOf("two", openS3(t, "bucket", s3Options(s.url, secret))))
	if got := r.Find(probe.RacingCreates).Verdict; got != probe.No {
		t.Errorf("racing creates through two gateways: %s", got)
	}
	if !slices.Equal(r.Sites, []string{"one", "two"}) {
		t.Errorf("sites %q", r.Sites)
	}
}

// TestRun_Errors: what ends a run, with what was found until then.
func TestRun_Errors(t *testing.T) {
	c := &clock{}
	s := startS3(t, s3d.Options{Secret: secret, Now: c.now}, nil)
	other := startS3(t, s3d.Options{Secret: secret, Now: c.now}, nil)
	gcs := gcsd.New(&gcsd.Options{Now: c.now})
	t.Cleanup(gcs.Close)
	other400 := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, "<Error><Code>InvalidBucketName</Code></Error>")
	}))
	t.Cleanup(other400.Close)
	good := siteOf("good", openS3(t, "bucket", s3Options(s.url, secret)))
	for name, x := range map[string]struct {
		sites []probe.Site
		want  error
		text  string
	}{
		"an absent bucket":       {[]probe.Site{siteOf("x", openS3(t, "absent", s3Options(s.url, secret)))}, bucket.ErrNotExist, "absent"},
		"an absent bucket (GCS)": {[]probe.Site{siteOf("x", openGCS(t, "absent", gcs.URL()))}, bucket.ErrNotExist, "no such bucket"},
		"a wrong secret":         {[]probe.Site{siteOf("x", openS3(t, "bucket", s3Options(s.url, "wrong")))}, bucket.ErrDenied, "neither"},
		"nobody there":           {[]probe.Site{siteOf("x", openS3(t, "bucket", s3Options("http://127.0.0.1:1", secret)))}, nil, "refused"},
		"two buckets":            {[]probe.Site{good, siteOf("x", openS3(t, "bucket", s3Options(other.url, secret)))}, probe.ErrSites, "x"},
		"nothing works":          {[]probe.Site{siteOf("x", openS3(t, "bucket", s3Options(other400.URL, secret)))}, nil, "InvalidBucketName"},
		"the second is absent":   {[]probe.Site{good, siteOf("x", openS3(t, "absent", s3Options(s.url, secret)))}, bucket.ErrNotExist, "x"},
	} {
		r, err := probe.Run(t.Context(), x.sites, quick(c))
		if err == nil || x.want != nil && !errors.Is(err, x.want) || !strings.Contains(err.Error(), x.text) {
			t.Errorf("%s: %v, want %v about %q", name, err, x.want, x.text)
		}
		if r == nil || r.Complete || r.Find(probe.CreateOnly) != nil {
			t.Errorf("%s: the report is %+v", name, r)
		}
		if len(s.Keys("bucket"))+len(other.Keys("bucket")) > 0 || len(r.Left) > 0 {
			t.Errorf("%s: it left %q and %q, and tells %q", name, s.Keys("bucket"), other.Keys("bucket"), r.Left)
		}
	}
}

// TestRun_ServerDies: an error of the network ends the run wherever it comes, and what was found is told.
func TestRun_ServerDies(t *testing.T) {
	c := &clock{}
	s := startS3(t, s3d.Options{Secret: secret, Now: c.now}, nil)
	b := openS3(t, "bucket", s3Options(s.url, secret))
	opts := quick(c)
	opts.Progress = func(_, _ int, step string) {
		if step == "racing creates" {
			s.front.CloseClientConnections()
			s.front.Listener.Close()
		}
	}
	r, err := probe.Run(t.Context(), []probe.Site{siteOf("x", b)}, opts)
	if err == nil || !strings.HasPrefix(err.Error(), "racing creates: ") {
		t.Errorf("Run: %v", err)
	}
	if r.Complete || r.Find(probe.CreateOnly) == nil || r.Find(probe.ByteOrder) != nil || len(r.Left) == 0 {
		t.Errorf("the report is %+v", r)
	}
}

// TestRun_Interrupted: a run that is ended at any step deletes what it has made.
func TestRun_Interrupted(t *testing.T) {
	var names []string
	opts := quick(&clock{})
	opts.Progress = func(_, _ int, step string) { names = append(names, step) }
	run(t, opts, siteOf("x", honestLiar()))
	for _, name := range names[:len(names)-1] {
		ctx, cancel := context.WithCancel(t.Context())
		opts.Progress = func(_, _ int, step string) {
			if step == name {
				cancel()
			}
		}
		l := honestLiar()
		r, err := probe.Run(ctx, []probe.Site{siteOf("x", l)}, opts)
		if !errors.Is(err, context.Canceled) || r.Complete {
			t.Errorf("at %s: %v, complete: %t", name, err, r.Complete)
		}
		if keys := keysOf(t, l); len(keys) > 0 {
			t.Errorf("at %s it left %q", name, keys)
		}
	}
}

// TestRun_Sweeps: what killed runs have left is deleted after an hour, and nothing else.
func TestRun_Sweeps(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	l := honestLiar()
	l.Bucket = membucket.New(&membucket.Options{Now: func() time.Time { return now }})
	opts := quick(&clock{})
	opts.Now = func() time.Time { return now }
	put := func(key bucket.Key) {
		if _, err := l.Bucket.Put(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
	}
	put(probe.Root + "old/create/a")
	put("_indexd/other")
	put("_active_runs/x")
	put(probe.VerdictKey)
	now = now.Add(59 * time.Minute)
	put(probe.Root + "young/a")
	now = now.Add(2 * time.Minute)
	run(t, opts, siteOf("x", l))
	want := []string{"_active_runs/x", "_indexd/other", string(probe.VerdictKey), probe.Root + "young/a"}
	if got := keysOf(t, l); !slices.Equal(got, want) {
		t.Errorf("there is %q, want %q", got, want)
	}
	// A verdict stays, however old, where the run comes to none.
	now = now.Add(2 * time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	opts.Progress = func(_, _ int, step string) {
		if step == "settings" {
			cancel()
		}
	}
	if _, err := probe.Run(ctx, []probe.Site{siteOf("x", l)}, opts); !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
	if got := keysOf(t, l); !slices.Equal(got, want[:3]) {
		t.Errorf("there is %q, want %q", got, want[:3])
	}
}

// TestRun_Permissions: what these credentials may not do is no of a role, and what needs it is unsure.
func TestRun_Permissions(t *testing.T) {
	for op, want := range map[s3d.Op][]probe.ID{
		s3d.PutObject:     {probe.PermissionProducer, probe.PermissionJanitor},
		s3d.DeleteObject:  {probe.PermissionProducer, probe.PermissionJanitor},
		s3d.ListObjectsV2: {probe.PermissionReader, probe.PermissionProducer, probe.PermissionJanitor},
		s3d.HeadObject:    {probe.PermissionReader, probe.PermissionJanitor},
	} {
		c := &clock{}
		s := startS3(t, s3d.Options{Secret: secret, Now: c.now, Refuse: func(o s3d.Op, _ string) string {
			if o == op || o == s3d.DeleteObjects && op == s3d.DeleteObject { // one permission is for both
				return "AccessDenied"
			}
			return ""
		}}, nil)
		r := run(t, quick(c), siteOf("x", openS3(t, "bucket", s3Options(s.url, secret))))
		var no []probe.ID
		for _, f := range r.Findings {
			if f.Verdict == probe.No {
				no = append(no, f.ID)
			}
		}
		if op == s3d.ListObjectsV2 {
			no = slices.DeleteFunc(no, func(id probe.ID) bool { return id == probe.ListAfterWrite })
		}
		if !slices.Equal(no, want) {
			t.Errorf("without %s: %q is no, want %q", op, no, want)
			dump(t, r)
		}
		if op == s3d.PutObject && r.Find(probe.CreateOnly).Verdict != probe.Unsure {
			t.Errorf("create-only of who may not write is %+v", r.Find(probe.CreateOnly))
		}
		if op == s3d.DeleteObject && (len(r.Left) == 0 || len(s.Keys("bucket")) > 4) {
			t.Errorf("who may not delete leaves %q, and is told of %q", s.Keys("bucket"), r.Left)
		}
	}
}

// TestRun_Progress counts up to the total.
func TestRun_Progress(t *testing.T) {
	opts := quick(&clock{})
	var seen []int
	last := 0
	opts.Progress = func(done, total int, _ string) { seen, last = append(seen, done), total }
	run(t, opts, siteOf("x", honestLiar()))
	for i, n := range seen {
		if n != i {
			t.Fatalf("progress was told as %v", seen)
		}
	}
	if len(seen) != last+1 {
		t.Errorf("progress was told as %v of %d", seen, last)
	}
}

// TestDoc_Examples: the forms that the package comment shows are those that are written.
func TestDoc_Examples(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile(`(?m)(^//\t.*\n)+`).FindAllString(string(text), -1)
	if len(examples) != 2 {
		t.Fatalf("%d examples", len(examples))
	}
	for i, into := range []any{new(probe.Report), new(probe.Verdict)} {
		source := strings.ReplaceAll(examples[i], "//\t", "")
		d := json.NewDecoder(strings.NewReader(source))
		d.DisallowUnknownFields()
		if err := d.Decode(into); err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		again, err := json.Marshal(into)
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		if err := errors.Join(json.Unmarshal(again, &got), json.Unmarshal([]byte(source), &want)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the example is not what is written (-example +written):\n%s", diff)
		}
	}
	if r := examples[0]; !strings.Contains(r, probe.ReportFormat) {
		t.Errorf("the example of a report is not of the format %s", probe.ReportFormat)
	}
}

// TestReport_JSON: what is empty is there, and no field is null.
func TestReport_JSON(t *testing.T) {
	r := run(t, quick(&clock{}), siteOf("x", honestLiar()))
	text, err := json.Marshal(r)
	if err != nil || strings.Contains(string(text), "null") {
		t.Errorf("%s, %v", text, err)
	}
	for _, f := range r.Findings {
		if f.Question == "" || f.Seen == "" || f.Verdict != probe.No && (f.Mend != "" || len(f.Disables) > 0) {
			t.Errorf("%+v", f)
		}
	}
}

// TestRun_DeletesAgain: deletes that failed when they were tried first are tried all the same in the end, and what is told
// as left is there.
func TestRun_DeletesAgain(t *testing.T) {
	for name, x := range map[string]struct {
		err   error
		times int
	}{"failing for a while": {errors.New("500"), 5}, "failing": {errors.New("500"), 1 << 30}, "denied": {bucket.ErrDenied, 1 << 30}} {
		l := honestLiar()
		left := x.times
		l.onDelete = func(keys []bucket.Key) ([]bucket.Key, error) {
			if left == 0 {
				return keys, nil
			}
			left--
			return nil, x.err
		}
		r := run(t, quick(&clock{}), probe.Site{Name: "x", Objects: l, Store: l, Extra: struct{}{}})
		keys := keysOf(t, l)
		if x.times == 5 {
			keys = slices.DeleteFunc(keys, func(k string) bool { return k == string(probe.VerdictKey) })
			if len(keys) > 0 || len(r.Left) > 0 {
				t.Errorf("%s: it left %q, and tells %q", name, keys, r.Left)
			}
			continue
		}
		if len(r.Left) == 0 {
			t.Errorf("%s: it left %q, and tells nothing", name, keys)
		}
		for _, k := range r.Left {
			if !slices.Contains(keys, k) {
				t.Errorf("%s: it tells of %q, which is not there", name, k)
			}
		}
	}
}

// TestRun_LandsLate: a save whose answer got lost, and that is refused when it is sent again since it has landed meanwhile,
// was carried out.
func TestRun_LandsLate(t *testing.T) {
	l := honestLiar()
	lost := map[bucket.Key]bool{}
	late := map[bucket.Key]func(){}
	l.onSave = func(key bucket.Key, body []byte, p cas.Precondition, honest saver) (cas.Version, error) {
		if (about("match/right", key) || about("create/again", key)) && !lost[key] {
			lost[key] = true
			late[key] = func() { honest(key, body, p) }
			return "", cas.ErrUnknown
		}
		if land := late[key]; land != nil {
			delete(late, key)
			land()
		}
		return honest(key, body, p)
	}
	allYes(t, run(t, one(), siteOf("x", l)), nil)
	if len(lost) != 2 {
		t.Errorf("lost were %v", lost)
	}
}
