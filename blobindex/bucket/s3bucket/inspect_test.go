package s3bucket_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/s3bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/fakes/s3d"
)

// settingsOf is a bucket whose subresources are answered with these texts, by name; a number is the status of an error.
func settingsOf(t *testing.T, prefix string, answers map[string]string) *s3bucket.Bucket {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, text := range answers {
			if !r.URL.Query().Has(name) {
				continue
			}
			if status, code, isError := strings.Cut(text, " "); isError && len(status) == 3 {
				var n int
				fmt.Sscan(status, &n)
				w.WriteHeader(n)
				text = "<Error><Code>" + code + "</Code></Error>"
			}
			fmt.Fprint(w, text)
			return
		}
		t.Errorf("it asked for %s", r.URL)
	}))
	t.Cleanup(s.Close)
	o := options(&s3d.Server{URL: s.URL})
	o.Prefix, o.Attempts = prefix, 1
	return open(t, o)
}

func TestSetting(t *testing.T) {
	for _, x := range []struct {
		name, answer, want string
		err                error
	}{
		{"versioning", `<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"/>`, "off", nil},
		{"versioning", `<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>`, "every version", nil},
		{"versioning", `<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>`, "suspended", nil},
		{"versioning", `<ListBucketResult></ListBucketResult>`, "", bucket.ErrUnsupported}, // no answer to the question
		{"versioning", ``, "", bucket.ErrUnsupported},
		{"versioning", `501 NotImplemented`, "", bucket.ErrUnsupported},
		{"versioning", `403 AccessDenied`, "", bucket.ErrDenied},
		{"object-lock", `404 ObjectLockConfigurationNotFoundError`, "off", nil},
		{"object-lock", `404 NoSuchBucket`, "", bucket.ErrNotExist},
		{"object-lock", `<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>`, "off", nil},
		{"object-lock", `<ObjectLockConfiguration><Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>7</Days></DefaultRetention></Rule></ObjectLockConfiguration>`, "7 days", nil},
		{"soft-delete", ``, "", bucket.ErrUnsupported},
	} {
		b := settingsOf(t, "", map[string]string{x.name: x.answer})
		got, err := b.Setting(t.Context(), x.name)
		if !errors.Is(err, x.err) || !strings.Contains(got, x.want) || (got == "") != (x.err != nil) {
			t.Errorf("%s of %s: %q, %v, want %q, %v", x.name, x.answer, got, err, x.want, x.err)
		}
	}
}

func TestExpirations(t *testing.T) {
	rule := func(text string) string { return "<Rule>" + text + "</Rule>" }
	for name, x := range map[string]struct {
		rule, prefix string
		want         []string
	}{
		"all":         {`<Status>Enabled</Status><Filter/><Expiration><Days>30</Days></Expiration>`, "", []string{`"": deletes objects after 30 days`}},
		"a prefix":    {`<Status>Enabled</Status><Filter><Prefix>x/</Prefix></Filter><Expiration><Days>1</Days></Expiration>`, "", []string{`"x/": deletes objects after 1 days`}},
		"old form":    {`<Status>Enabled</Status><Prefix>x/</Prefix><Expiration><Days>1</Days></Expiration>`, "", []string{`"x/": deletes objects after 1 days`}},
		"both":        {`<Status>Enabled</Status><Filter><And><Prefix>x/</Prefix><ObjectSizeLessThan>9</ObjectSizeLessThan></And></Filter><Expiration><Days>1</Days></Expiration>`, "", []string{`"x/": deletes objects after 1 days`}},
		"our path":    {`<Status>Enabled</Status><Filter><Prefix>team/_indexd/</Prefix></Filter><Expiration><Days>1</Days></Expiration>`, "team", []string{`"_indexd/": deletes objects after 1 days`}},
		"above us":    {`<Status>Enabled</Status><Filter><Prefix>te</Prefix></Filter><Expiration><Days>1</Days></Expiration>`, "team", []string{`"": deletes objects after 1 days`}},
		"beside us":   {`<Status>Enabled</Status><Filter><Prefix>other/</Prefix></Filter><Expiration><Days>1</Days></Expiration>`, "team", nil},
		"off":         {`<Status>Disabled</Status><Filter/><Expiration><Days>1</Days></Expiration>`, "", nil},
		"tagged":      {`<Status>Enabled</Status><Filter><Tag><Key>a</Key><Value>b</Value></Tag></Filter><Expiration><Days>1</Days></Expiration>`, "", nil},
		"former":      {`<Status>Enabled</Status><Filter/><NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>`, "", nil},
		"markers":     {`<Status>Enabled</Status><Filter/><Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>`, "", nil},
		"glacier":     {`<Status>Enabled</Status><Filter/><Transition><Days>5</Days><StorageClass>GLACIER</StorageClass></Transition>`, "", []string{`"": moves objects to GLACIER, where they cannot be read, after 5 days`}},
		"other class": {`<Status>Enabled</Status><Filter/><Transition><Days>5</Days><StorageClass>STANDARD_IA</StorageClass></Transition>`, "", nil},
		"a date":      {`<Status>Enabled</Status><Filter/><Expiration><Date>2027-01-01T00:00:00Z</Date></Expiration>`, "", []string{`"": deletes objects at a date`}},
	} {
		b := settingsOf(t, x.prefix, map[string]string{"lifecycle": "<LifecycleConfiguration>" + rule(x.rule) + "</LifecycleConfiguration>"})
		var got []string
		err := b.Expirations(t.Context(), func(prefix, what string) { got = append(got, fmt.Sprintf("%q: %s", prefix, what)) })
		if err != nil || !slices.Equal(got, x.want) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, x.want)
		}
	}
	for answer, want := range map[string]error{
		"404 NoSuchLifecycleConfiguration": nil, "403 AccessDenied": bucket.ErrDenied, "501 NotImplemented": bucket.ErrUnsupported,
		"<ListBucketResult/>": bucket.ErrUnsupported,
	} {
		b := settingsOf(t, "", map[string]string{"lifecycle": answer})
		if err := b.Expirations(t.Context(), func(string, string) { t.Error("a rule") }); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", answer, err, want)
		}
	}
}

// TestUnquotedIfMatch: by the option, by the method, and back.
func TestUnquotedIfMatch(t *testing.T) {
	s := s3d.New(t, nil)
	o := options(s)
	o.UnquotedIfMatch = true
	b := open(t, o)
	v, err := b.Save(t.Context(), "k", []byte("1"), cas.IfAbsent())
	for i, quoted := range []bool{false, true, false} {
		if err == nil && i > 0 {
			b.UnquotedIfMatch(!quoted)
		}
		if err == nil {
			v, err = b.Save(t.Context(), "k", []byte{byte(i)}, cas.IfMatch(v))
		}
		if h := s.Header(s3d.PutObject).Get("If-Match"); err != nil || strings.HasPrefix(h, `"`) != quoted || h == "" {
			t.Errorf("If-Match: %s, %v, quoted: %t", h, err, quoted)
		}
	}
}

// TestSaveSlowly: midway half of the body has arrived, and nothing is there.
func TestSaveSlowly(t *testing.T) {
	s, b := start(t, nil)
	body := []byte(strings.Repeat("x", 1<<18))
	called := 0
	v, err := b.SaveSlowly(t.Context(), "k", body, cas.IfAbsent(), func() {
		called++
		if _, ok := s.Body("bucket", "k"); ok {
			t.Error("it is there before its end")
		}
	})
	o, loading := b.Load(t.Context(), "k")
	if err != nil || loading != nil || called != 1 || string(o.Body) != string(body) || o.Version != v {
		t.Errorf("%v, %v, called %d times, %d bytes of %s, want %s", err, loading, called, len(o.Body), o.Version, v)
	}
	if _, err := b.SaveSlowly(t.Context(), "k", body, cas.IfAbsent(), func() {}); !errors.Is(err, cas.ErrConflict) {
		t.Errorf("over another one: %v", err)
	}
	if _, err := b.SaveSlowly(t.Context(), "k", body, cas.Precondition{}, func() {}); !errors.Is(err, cas.ErrPrecondition) {
		t.Errorf("without a condition: %v", err)
	}
}

func TestConditional(t *testing.T) {
	for _, request := range []string{"read", "delete", "batch-delete"} {
		s, b := start(t, nil)
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
		if _, ok := s.Body("bucket", "k"); !ok {
			t.Errorf("%s: it is gone", request)
		}
		if err := b.Conditional(t.Context(), request, "k", now); err != nil {
			t.Errorf("%s on the current version: %v", request, err)
		}
		if _, ok := s.Body("bucket", "k"); ok != (request == "read") {
			t.Errorf("%s: it is there: %t", request, ok)
		}
	}
	_, b := start(t, nil)
	if err := b.Conditional(t.Context(), "metadata", "k", `"x"`); !errors.Is(err, bucket.ErrUnsupported) {
		t.Errorf("metadata: %v", err)
	}
}

// TestTwins: an absent bucket, and a secret that is wrong though the right one was used before.
func TestTwins(t *testing.T) {
	s, b := start(t, &s3d.Options{Secret: "the-secret"})
	lists := func(o bucket.Objects) error {
		return o.List(t.Context(), bucket.ListRequest{}, func(bucket.Page) error { return nil })
	}
	if err := lists(b); err != nil {
		t.Fatal(err)
	}
	if err := lists(b.WithWrongSecret()); !errors.Is(err, bucket.ErrDenied) {
		t.Errorf("with a wrong secret: %v", err)
	}
	if err := lists(b.Sibling("absent")); !errors.Is(err, bucket.ErrNotExist) {
		t.Errorf("an absent bucket: %v", err)
	}
	if err := lists(b); err != nil {
		t.Errorf("with the right secret again: %v", err)
	}
	_ = s
}

// TestListPage: what was answered, page by page, and nothing made right.
func TestListPage(t *testing.T) {
	s := s3d.New(t, nil)
	o := poor(s)
	o.Prefix = "p"
	b := open(t, o)
	for _, k := range []string{"p/d/a", "p/d/b +", "p/d/c", "p/e"} {
		s.Store("bucket", k, "")
	}
	keys, next, form, err := b.ListPage(t.Context(), "d/", "", "", 2)
	if err != nil || !slices.Equal(keys, []string{"d/a", "d/b +"}) || next == "" || form != "url" {
		t.Errorf("the first page: %q, %q, %q, %v", keys, next, form, err)
	}
	keys, next, _, err = b.ListPage(t.Context(), "d/", "", next, 2)
	if err != nil || !slices.Equal(keys, []string{"d/c"}) || next != "" {
		t.Errorf("the second page: %q, %q, %v", keys, next, err)
	}
	if keys, _, _, err = b.ListPage(t.Context(), "d/", "d/a", "", 2); err != nil || !slices.Equal(keys, []string{"d/b +", "d/c"}) {
		t.Errorf("after a key: %q, %v", keys, err)
	}
}
