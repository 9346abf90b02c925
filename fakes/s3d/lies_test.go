package s3d_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/blobindex/indexd/fakes/s3d"
)

// lying starts a server and returns the bare SDK's steps on its bucket.
func lying(t *testing.T, o *s3d.Options) (*s3d.Server, *stepper) {
	t.Helper()
	s := s3d.New(t, o)
	return s, &stepper{t.Context(), client(s), name, nil}
}

// TestLies_Listing shows each lie about listings that no step of TestAgreement shows.
func TestLies_Listing(t *testing.T) {
	keys := func(o *s3.ListObjectsV2Output) string {
		var all []string
		for _, o := range o.Contents {
			all = append(all, aws.ToString(o.Key))
		}
		return strings.Join(all, " ")
	}
	for _, tt := range []struct {
		lies  s3d.Lies
		shows func(first, second *s3.ListObjectsV2Output) bool // nil second: no token was given
	}{
		{s3d.Lies{}, func(a, b *s3.ListObjectsV2Output) bool {
			return keys(a) == "a b c" && b == nil && !*a.IsTruncated && *a.KeyCount == 3 && a.Contents[0].LastModified != nil &&
				aws.ToString(a.Contents[0].ETag) == `"d41d8cd98f00b204e9800998ecf8427e"`
		}},
		{s3d.Lies{PageSize: 2}, func(a, b *s3.ListObjectsV2Output) bool {
			return keys(a) == "a b" && *a.IsTruncated && keys(b) == "c" && !*b.IsTruncated
		}},
		{s3d.Lies{TruncatedNoToken: true}, func(a, b *s3.ListObjectsV2Output) bool { return *a.IsTruncated && b == nil }},
		{s3d.Lies{RepeatsToken: true, PageSize: 1}, func(a, b *s3.ListObjectsV2Output) bool {
			return keys(a) == "a" && keys(b) == "a" && *a.NextContinuationToken == *b.NextContinuationToken
		}},
		{s3d.Lies{EmptyPages: true}, func(a, b *s3.ListObjectsV2Output) bool {
			return keys(a)+keys(b) == "" && *b.IsTruncated && *a.NextContinuationToken != *b.NextContinuationToken
		}},
		{s3d.Lies{NoTruncated: true}, func(a, b *s3.ListObjectsV2Output) bool { return keys(a) == "a b c" && a.IsTruncated == nil }},
		{s3d.Lies{IgnoresPrefix: true}, func(a, b *s3.ListObjectsV2Output) bool { return keys(a) == "a b c other" }},
		{s3d.Lies{NoLastModified: true}, func(a, b *s3.ListObjectsV2Output) bool { return a.Contents[0].LastModified == nil }},
		{s3d.Lies{NoETag: true}, func(a, b *s3.ListObjectsV2Output) bool { return a.Contents[0].ETag == nil }},
		{s3d.Lies{EmptyList: true}, func(a, b *s3.ListObjectsV2Output) bool { return keys(a) == "" && a.IsTruncated == nil }},
	} {
		s, b := lying(t, &s3d.Options{Lies: tt.lies})
		for _, key := range []string{"a", "b", "c", "other"} {
			s.Store(name, key, "")
		}
		in := &s3.ListObjectsV2Input{Bucket: aws.String(name)}
		if tt.lies.IgnoresPrefix {
			in.Prefix = aws.String("x")
		} else {
			s.Forget(name, "other")
		}
		first, err := b.c.ListObjectsV2(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		var second *s3.ListObjectsV2Output
		if in.ContinuationToken = first.NextContinuationToken; in.ContinuationToken != nil {
			if second, err = b.c.ListObjectsV2(t.Context(), in); err != nil {
				t.Fatal(err)
			}
		}
		if !tt.shows(first, second) {
			t.Errorf("%v: pages %q %+v, %+v", tt.lies, keys(first), first, second)
		}
	}
}

// TestLies_Batch shows what becomes of a DeleteObjects of two keys.
func TestLies_Batch(t *testing.T) {
	for _, tt := range []struct {
		lies s3d.Lies
		want string // code, keys that are said to be deleted, keys left
	}{
		{s3d.Lies{}, "200 2 0"},
		{s3d.Lies{NoBatchDelete: true}, "NotImplemented 0 2"},
		{s3d.Lies{BatchWantsMD5: true}, "InvalidRequest 0 2"},
		{s3d.Lies{RefusesChecksums: true}, "InvalidArgument 0 2"},
		{s3d.Lies{BatchForgets: true}, "200 0 0"},
	} {
		s, b := lying(t, &s3d.Options{Lies: tt.lies})
		ids := []types.ObjectIdentifier{{Key: aws.String("a")}, {Key: aws.String("b")}}
		for _, id := range ids {
			s.Store(name, *id.Key, "")
		}
		deleted := 0
		out, err := b.c.DeleteObjects(t.Context(), &s3.DeleteObjectsInput{Bucket: aws.String(name), Delete: &types.Delete{Objects: ids}})
		if err == nil {
			deleted = len(out.Deleted)
		}
		if got := fmt.Sprintln(code(err), deleted, len(s.Keys(name))); strings.TrimSpace(got) != tt.want {
			t.Errorf("%v: %s, want %s", tt.lies, got, tt.want)
		}
	}
}

// TestLies_Versioned: preconditions of a versioned bucket, over what is there and over a delete marker.
func TestLies_Versioned(t *testing.T) {
	for _, tt := range []struct {
		lies        s3d.Lies
		versioned   bool
		there, over string
	}{
		{s3d.Lies{}, true, "PreconditionFailed", "200"},
		{s3d.Lies{MarkerBlocksCreate: true}, true, "PreconditionFailed", "PreconditionFailed"},
		{s3d.Lies{MarkerBlocksCreate: true}, false, "PreconditionFailed", "200"},
		{s3d.Lies{VersionedOverwrites: true}, true, "200", "200"},
		{s3d.Lies{VersionedOverwrites: true}, false, "PreconditionFailed", "200"},
	} {
		_, b := lying(t, &s3d.Options{Versioned: tt.versioned, Lies: tt.lies})
		b.put("a", "1", nil, nil)
		_, there := b.put("a", "2", nil, star)
		b.c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: aws.String(name), Key: aws.String("a")})
		_, over := b.put("a", "3", nil, star)
		if code(there) != tt.there || code(over) != tt.over {
			t.Errorf("%v, versioned %v: create-only over an object %s, want %s, over a marker %s, want %s",
				tt.lies, tt.versioned, code(there), tt.there, code(over), tt.over)
		}
		if out, err := b.c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String(name), Key: aws.String("a")}); tt.over == "200" {
			if err != nil || (out.VersionId != nil) != tt.versioned {
				t.Errorf("%v, versioned %v: read %v, %v", tt.lies, tt.versioned, out, err)
			}
		}
	}
}

// TestLies_Puts shows how often a PUT is refused.
func TestLies_Puts(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	outcomes := func(lies s3d.Lies, none *string, step time.Duration, keys ...string) string {
		_, b := lying(t, &s3d.Options{Lies: lies, Now: clock})
		var all []string
		for _, key := range keys {
			_, err := b.put(key, "x", nil, none)
			all = append(all, code(err))
			now = now.Add(step)
		}
		return strings.Join(all, " ")
	}
	for _, tt := range []struct {
		lies s3d.Lies
		none *string
		step time.Duration
		want string
	}{
		{s3d.Lies{}, nil, 0, "200 200 200 200"},
		{s3d.Lies{Demands412: true}, nil, 0, "PreconditionFailed PreconditionFailed PreconditionFailed PreconditionFailed"},
		{s3d.Lies{ConflictEvery: 2, CreateOnlyOverwrites: true}, star, 0, "200 ConditionalRequestConflict 200 ConditionalRequestConflict"},
		{s3d.Lies{ConflictEvery: 2}, nil, 0, "200 200 200 200"},
		{s3d.Lies{Pace: time.Second}, nil, 999 * time.Millisecond, "200 SlowDown 200 SlowDown"},
		{s3d.Lies{Pace: time.Second, PaceIs429: true}, nil, 0, "200 TooManyRequests 200 TooManyRequests"},
		{s3d.Lies{Pace: time.Second}, nil, time.Second, "200 200 200 200"},
	} {
		if got := outcomes(tt.lies, tt.none, tt.step, "a", "a", "b", "b"); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.lies, got, tt.want)
		}
	}
}

// TestLies_Contention: beside another conditional PUT of its key a PUT is answered 500 and not carried out; of another
// key's it is not disturbed.
func TestLies_Contention(t *testing.T) {
	_, b := lying(t, &s3d.Options{Lies: s3d.Lies{ContentionFails: true, RaceWindow: window}})
	outcomes := make([]string, 8)
	atOnce(len(outcomes), func(i int) {
		_, err := b.put("a", fmt.Sprint(i), nil, star)
		outcomes[i] = code(err)
	})
	_, other := b.put("b", "", nil, star)
	_, again := b.put("a", "", nil, star)
	body, _ := b.get(&s3.GetObjectInput{Key: aws.String("a")})
	won := -1
	failed := 0
	for i, outcome := range outcomes {
		switch outcome {
		case "200":
			won = i
		case "InternalError":
			failed++
		}
	}
	if won < 0 || failed == 0 || body != fmt.Sprint("200 ", won) || code(other) != "200" || code(again) != "PreconditionFailed" {
		t.Errorf("outcomes %q, body %q, of another key %v, again %v", outcomes, body, other, again)
	}
}

// TestLies_Bodies reads an object before and after it is overwritten, and once more.
func TestLies_Bodies(t *testing.T) {
	for _, tt := range []struct {
		lies s3d.Lies
		want []string
	}{
		{s3d.Lies{}, []string{"200 first", "200 second", "200 second"}},
		{s3d.Lies{OldBodyNewETag: true}, []string{"200 first", "200 first", "200 second"}},
		{s3d.Lies{CutAfterOverwrite: true}, []string{"200 first", "200 sec unexpected EOF", "200 second"}},
		{s3d.Lies{AbsentAfterOverwrite: true}, []string{"200 first", "404", "200 second"}},
		{s3d.Lies{CachesReads: true}, []string{"200 first", "200 first", "200 first"}},
	} {
		_, b := lying(t, &s3d.Options{Lies: tt.lies})
		first, _ := b.put("a", "first", nil, nil)
		var got []string
		var tags []string
		read := func() {
			body, out := b.get(&s3.GetObjectInput{Key: aws.String("a")})
			got = append(got, body)
			if out != nil {
				tags = append(tags, aws.ToString(out.ETag))
			}
		}
		read()
		second, _ := b.put("a", "second", nil, nil)
		read()
		read()
		if fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%v: read %q, want %q", tt.lies, got, tt.want)
		}
		if last := tags[len(tags)-1]; tags[0] != first || (last == second) == tt.lies.CachesReads || tt.lies.OldBodyNewETag && tags[1] != second {
			t.Errorf("%v: ETags %q of %q and %q", tt.lies, tags, first, second)
		}
	}
	_, b := lying(t, &s3d.Options{Lies: s3d.Lies{CachesReads: true}})
	for _, body := range []string{"1", "2"} {
		if _, err := b.c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String(name), Key: aws.String("a"),
			Body: strings.NewReader(body), CacheControl: aws.String("no-store")}); err != nil {
			t.Fatal(err)
		}
		if got, out := b.get(&s3.GetObjectInput{Key: aws.String("a")}); got != "200 "+body || aws.ToString(out.CacheControl) != "no-store" {
			t.Errorf("read of what may not be stored: %q, %+v", got, out)
		}
	}
}

// TestLies_Headers: what an answer tells of time and version.
func TestLies_Headers(t *testing.T) {
	for _, tt := range []struct {
		lies               s3d.Lies
		date, modified, at bool
		etag               string
	}{
		{s3d.Lies{}, true, true, true, `"9dd4e461268c8034f5c8564e155c67a6"`},
		{s3d.Lies{NoDate: true}, false, true, true, `"9dd4e461268c8034f5c8564e155c67a6"`},
		{s3d.Lies{NoLastModified: true}, true, false, true, `"9dd4e461268c8034f5c8564e155c67a6"`},
		{s3d.Lies{NoETag: true}, true, true, false, ""},
		{s3d.Lies{WeakETags: true}, true, true, false, `W/"9dd4e461268c8034f5c8564e155c67a6"`},
	} {
		s, b := lying(t, &s3d.Options{Lies: tt.lies})
		put, err := b.put("a", "x", nil, nil)
		if err != nil || put != tt.etag {
			t.Errorf("%v: put %q, %v, want %q", tt.lies, put, err, tt.etag)
		}
		r, err := s.Client.Get(s.URL + "/bucket/a")
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		h := r.Header
		if (h.Get("Date") != "") != tt.date || (h.Get("Last-Modified") != "") != tt.modified || h.Get("ETag") != tt.etag {
			t.Errorf("%v: headers %v", tt.lies, h)
		}
	}
}

// TestLies_Mangled: what XML cannot say comes back as something else.
func TestLies_Mangled(t *testing.T) {
	s, b := lying(t, &s3d.Options{Lies: s3d.Lies{ManglesControl: true, IgnoresEncodingType: true}})
	s.Store(name, "a\x01", "")
	keys, _, err := b.list(&s3.ListObjectsV2Input{})
	if err != nil || len(keys) != 1 || keys[0] != "a\ufffd" {
		t.Errorf("listed %q, %v", keys, err)
	}
}

// TestLies_String names what is told and nothing else.
func TestLies_String(t *testing.T) {
	if got := (s3d.Lies{Unsorted: true, PageSize: 3, Pace: time.Second}).String(); got != "Unsorted PageSize=3 Pace=1s" {
		t.Errorf("%q", got)
	}
}
