package s3bucket_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/s3bucket"
	"github.com/blobindex/indexd/fakes/s3d"
)

// fill stores n empty objects with names in order, past the wire.
func fill(s *s3d.Server, n int) {
	for i := range n {
		s.Store("bucket", fmt.Sprintf("m/%06d", i), "")
	}
}

// TestCase_C04_FailedOrPartialListing: whatever breaks on page 2 of 3, the listing is an error and never a short list.
func TestCase_C04_FailedOrPartialListing(t *testing.T) {
	for _, tt := range []struct {
		name string
		kind s3d.Kind
		want error // nil: none of the sentinels
	}{
		{"500", s3d.Status(500, "InternalError"), nil},
		{"503", s3d.Status(503, "SlowDown"), bucket.ErrThrottled},
		{"403", s3d.Status(403, "AccessDenied"), bucket.ErrDenied},
		{"404", s3d.Status(404, "NoSuchBucket"), bucket.ErrNotExist},
		{"Reset", s3d.ResetBefore(), nil},
		{"HalfBody", s3d.HalfBody(), bucket.ErrIncomplete},
		{"CutXML", s3d.Rewrite("cut in the middle", func(x []byte) []byte { return x[:len(x)/2] }), bucket.ErrIncomplete},
		{"NoXML", s3d.Rewrite("a login", func([]byte) []byte { return []byte("<html>Please sign in</html>") }), bucket.ErrIncomplete},
		{"Nothing", s3d.Rewrite("nothing", func([]byte) []byte { return nil }), bucket.ErrIncomplete},
		{"ResetAfter", s3d.ResetAfter(), nil},
		{"DropBefore", s3d.DropBefore(), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, b := start(t, nil)
			fill(s, 2001)
			s.Plan(s3d.Fault{Op: s3d.ListObjectsV2, Nth: 2, Every: true, Kind: tt.kind})
			keys, err := list(t, b, "m/")
			if err == nil || len(keys) != 1000 {
				t.Errorf("List: %d keys, %v, want the first page and an error", len(keys), err)
			}
			if tt.want != nil {
				wantErr(t, "List", err, tt.want)
			}
		})
	}
}

// A page that fails once costs a request, and nothing else.
func TestList_RetriesAPage(t *testing.T) {
	for _, kind := range []s3d.Kind{
		s3d.Status(500, ""), s3d.Status(503, "SlowDown"), s3d.Status(429, ""), s3d.ResetBefore(), s3d.DropAfter(), s3d.HalfBody(),
	} {
		s, b := start(t, nil)
		fill(s, 2001)
		s.Plan(s3d.Fault{Op: s3d.ListObjectsV2, Nth: 2, Kind: kind})
		if keys, err := list(t, b, "m/"); err != nil || len(keys) != 2001 {
			t.Errorf("List: %d keys, %v, want 2001", len(keys), err)
		}
	}
}

// TestCase_TruncatedWithoutProof holds for each way in which an answer does not prove that the listing is complete.
func TestCase_TruncatedWithoutProof(t *testing.T) {
	for name, lies := range map[string]s3d.Lies{
		"no token":             {TruncatedNoToken: true},
		"no token, small":      {TruncatedNoToken: true, PageSize: 10},
		"token repeated":       {RepeatsToken: true, PageSize: 10},
		"not said":             {NoTruncated: true},
		"no body":              {EmptyList: true},
		"encoded, not said":    {EncodesSilently: true},
		"outside the prefix":   {IgnoresPrefix: true},
		"empty pages for ever": {EmptyPages: true},
		"unsorted, not known":  {Unsorted: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, b := start(t, &s3d.Options{Lies: lies})
			b.SetMaxEmptyPages(20)
			for i := range 30 {
				s.Store("bucket", fmt.Sprintf("a b/%02d", i), "")
				s.Store("bucket", fmt.Sprintf("other/%02d", i), "")
			}
			_, err := list(t, b, "a b/")
			wantErr(t, "List", err, bucket.ErrIncomplete)
		})
	}
}

// TestCase_RepeatedTokenOfEqualPages: a token that came before is an error, also where the keys give nothing away.
func TestCase_RepeatedTokenOfEqualPages(t *testing.T) {
	s := s3d.New(t, &s3d.Options{Lies: s3d.Lies{RepeatsToken: true, PageSize: 1}})
	fill(s, 3)
	b := open(t, poor(s))
	_, err := list(t, b, "m/")
	wantErr(t, "List", err, bucket.ErrIncomplete)
	if n := s.Counts()[s3d.ListObjectsV2]; n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

func TestCase_MissingLastModified(t *testing.T) {
	s, b := start(t, &s3d.Options{Lies: s3d.Lies{NoLastModified: true}})
	fill(s, 3)
	err := b.List(t.Context(), bucket.ListRequest{}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			if !o.StoreTime.IsZero() {
				t.Errorf("store time of %q: %v, want none", o.Key, o.StoreTime)
			}
		}
		if p.Now.IsZero() {
			t.Error("no clock, want the Date header's")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestCase_ServerClockAnHourOff: all times are the server's, and no request suffers.
func TestCase_ServerClockAnHourOff(t *testing.T) {
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		start0 := time.Now().Add(off).Truncate(time.Second)
		now := func() time.Time { return time.Now().Add(off) }
		_, b := start(t, &s3d.Options{Now: now})
		near := func(what string, got time.Time) {
			if got.Before(start0) || got.After(now()) {
				t.Errorf("%s: %v, want the server's %v", what, got, now())
			}
		}
		put, err := b.Put(t.Context(), "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		near("Put", put)
		head, err := b.Head(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		near("Head", head.StoreTime)
		b.List(t.Context(), bucket.ListRequest{}, func(p bucket.Page) error {
			near("Now", p.Now)
			near("StoreTime", p.Objects[0].StoreTime)
			return nil
		})
	}
}

// TestCase_C22_PageBoundaries counts requests at the socket: one a page of a thousand, one for nothing.
func TestCase_C22_PageBoundaries(t *testing.T) {
	for _, tt := range []struct{ objects, requests int }{{0, 1}, {1, 1}, {999, 1}, {1000, 1}, {1001, 2}, {2000, 2}, {2001, 3}} {
		for _, prefix := range []string{"", "path"} {
			s := s3d.New(t, nil)
			o := options(s)
			o.Prefix = prefix
			b := open(t, o)
			for i := range tt.objects {
				s.Store("bucket", strings.TrimPrefix(fmt.Sprintf("%s/m/%06d", prefix, i), "/"), "")
			}
			keys, err := list(t, b, "m/")
			if err != nil || len(keys) != tt.objects || s.Counts()[s3d.ListObjectsV2] != tt.requests {
				t.Errorf("List of %d objects: %d keys, %v, %v requests, want %d", tt.objects, len(keys), err, s.Counts(), tt.requests)
			}
		}
	}
}

// TestCase_C24_Unsorted: the same keys in whatever order; nothing is said to be sorted; listing after a key is refused
// without a request.
func TestCase_C24_Unsorted(t *testing.T) {
	s := s3d.New(t, &s3d.Options{Lies: s3d.Lies{Unsorted: true}})
	fill(s, 2500)
	b := open(t, poor(s))
	keys, err := list(t, b, "m/")
	if slices.IsSorted(keys) {
		t.Error("the keys are sorted: nothing is tested")
	}
	slices.Sort(keys)
	if err != nil || len(slices.Compact(keys)) != 2500 {
		t.Errorf("List: %d keys, %v, want 2500", len(keys), err)
	}
	s.Reset()
	err = b.List(t.Context(), bucket.ListRequest{After: "m/000100"}, func(bucket.Page) error { return nil })
	wantErr(t, "List after a key", err, bucket.ErrUnsupported)
	if n := s.Counts(); len(n) != 0 {
		t.Errorf("requests: %v, want none", n)
	}
}

// TestCase_C26_HostileKey: one key that XML cannot say lies among ten good ones, placed by somebody else.
func TestCase_C26_HostileKey(t *testing.T) {
	for _, hostile := range []string{"\x01", "a\nb", "a//b", "\xff\xfe", "\x00", "a\rb", "\ufffe", "a\x1fb", "&<>", "..", "a/../b"} {
		s, b := start(t, nil)
		want := []string{"m/" + hostile}
		s.Store("bucket", "m/"+hostile, "")
		for i := range 10 {
			key := fmt.Sprintf("m/good%d_1800000000", i)
			s.Store("bucket", key, "")
			want = append(want, key)
		}
		slices.Sort(want)
		if got, err := list(t, b, "m/"); err != nil || !slices.Equal(got, want) {
			t.Errorf("List beside %q: %q, %v, want %q", hostile, got, err, want)
		}
	}
}

// TestCase_C26_UnreadablePage: where encoding-type is ignored such a key makes the page unreadable, and that is no list.
func TestCase_C26_UnreadablePage(t *testing.T) {
	s, b := start(t, &s3d.Options{Lies: s3d.Lies{IgnoresEncodingType: true}})
	s.Store("bucket", "m/\x01", "")
	fill(s, 10)
	_, err := list(t, b, "m/")
	wantErr(t, "List", err, bucket.ErrIncomplete)
}

// TestCase_C27_Encoding: names that break what escapes once too often come back byte for byte, everywhere.
func TestCase_C27_Encoding(t *testing.T) {
	names := []string{"a+b_1", "a b_1", "a%2Bb_1", "a%252F_1", "a&b_1", "a?x_1", "a#y_1"}
	for _, lies := range []s3d.Lies{{}, {IgnoresEncodingType: true}} {
		s, b := start(t, &s3d.Options{Lies: lies})
		for _, name := range names {
			key := bucket.Key(name + "/" + name)
			if _, err := b.Put(t.Context(), key, strings.NewReader(name)); err != nil {
				t.Errorf("Put(%q): %v", key, err)
			}
			if body, ok := s.Body("bucket", string(key)); !ok || body != name {
				t.Errorf("Put(%q) stored %q, %v there", key, body, ok)
			}
			if got, err := list(t, b, name+"/"); err != nil || len(got) != 1 || got[0] != string(key) {
				t.Errorf("List(%q): %q, %v", name, got, err)
			}
			if o, err := b.Head(t.Context(), key); err != nil || o.Size != int64(len(name)) {
				t.Errorf("Head(%q): %v, %v", key, o, err)
			}
		}
		if got, err := list(t, b, ""); err != nil || len(got) != len(names) {
			t.Errorf("List: %q, %v", got, err)
		}
		var keys []bucket.Key
		for _, name := range names {
			keys = append(keys, bucket.Key(name+"/"+name))
		}
		if errs := b.Delete(t.Context(), keys); errs != nil || len(s.Keys("bucket")) != 0 {
			t.Errorf("Delete: %v, left %q", errs, s.Keys("bucket"))
		}
	}
}

// A page larger than the contract's is cut, and the keys outside of a path are never seen.
func TestList_CutsPagesStaysInPath(t *testing.T) {
	s := s3d.New(t, &s3d.Options{Lies: s3d.Lies{PageSize: 2500}})
	o := options(s)
	o.Prefix = "/team//a/"
	b := open(t, o)
	for i := range 3000 {
		s.Store("bucket", fmt.Sprintf("team/a/%04d", i), "")
	}
	for _, other := range []string{"team/a", "team/a/", "team/ab/x", "team/a-b", "0000"} {
		s.Store("bucket", other, "")
	}
	keys, err := list(t, b, "")
	if err != nil || len(keys) != 3000 || keys[0] != "0000" || s.Counts()[s3d.ListObjectsV2] != 2 {
		t.Errorf("List: %d keys, %v, %v", len(keys), err, s.Counts())
	}
}

// What a server may resolve to another prefix is asked for as far as it goes, and sorted out here.
func TestList_AsksOnlyForPlainPrefixes(t *testing.T) {
	s := s3d.New(t, &s3d.Options{Lies: s3d.Lies{CleansPaths: true}})
	fill(s, 3)
	b := open(t, poor(s))
	for _, prefix := range []string{"m//", "//", "m/./", "m/../m/", "m/..", ".", "m/\x01", "m/\xff", "\xff"} {
		if keys, err := list(t, b, prefix); err != nil || len(keys) != 0 {
			t.Errorf("List(%q): %q, %v, want none", prefix, keys, err)
		}
	}
	if keys, err := list(t, b, "m/0000"); err != nil || len(keys) != 3 {
		t.Errorf("List: %q, %v", keys, err)
	}
}

// Directory buckets list whole segments in no order; AWS's other buckets are sorted.
func TestNew_Sorted(t *testing.T) {
	aws := func(name string) *s3bucket.Bucket {
		b, err := s3bucket.New(name, &s3bucket.Options{
			Region: "eu-west-1", Credentials: options(&s3d.Server{}).Credentials, Attempts: 1, HTTPClient: offline{},
		})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	after := bucket.ListRequest{After: "a"}
	none := func(bucket.Page) error { return nil }
	if err := aws("b--use1-az4--x-s3").List(t.Context(), after, none); !errors.Is(err, bucket.ErrUnsupported) {
		t.Errorf("a directory bucket after a key: %v, want ErrUnsupported", err)
	}
	if err := aws("b").List(t.Context(), after, none); err == nil || errors.Is(err, bucket.ErrUnsupported) {
		t.Errorf("AWS after a key: %v, want a request", err)
	}
}

type offline struct{}

func (offline) Do(*http.Request) (*http.Response, error) { return nil, errors.New("offline") }
