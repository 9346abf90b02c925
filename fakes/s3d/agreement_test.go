package s3d_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/google/go-cmp/cmp"

	"github.com/blobindex/indexd/fakes/realservers"
	"github.com/blobindex/indexd/fakes/s3d"
)

// documented is what AWS documents of each step of behaviour.
var documented = map[string]string{
	"create-only, absent":    "200",
	"create-only, there":     "PreconditionFailed",
	"match":                  "200",
	"match, unquoted":        "200",
	"match, stale":           "PreconditionFailed",
	"match, absent":          "NoSuchKey",
	"creates, 32 at once":    "1 won",
	"increments, 16 at once": "none lost",
	"delete, stale":          "PreconditionFailed",
	"batch delete, stale":    "PreconditionFailed",
	"read, stale":            "412",
	"read, unchanged":        "304",
	"read, range":            "206 bcd",
	"list, order":            "sorted",
	"list, 5000 asked":       "1000",
	"list, start-after":      "b/2 c",
	"list, delimiter":        "a b- b/ c",
	"list, encoding":         "x+%2B%26",
	"key a//b":               "a//b",
	"key with 0x01":          "a%01b",
}

// lies make s3d differ from the documents in the same way as each real server does.
var lies = map[string]s3d.Lies{
	"":          {},
	"versitygw": {BatchIgnoresETag: true, IgnoresEncodingType: true, ManglesControl: true, CleansPaths: true},
	"rclone":    {RefusesOddPaths: true, EncodesSpaceAs20: true},
	"SeaweedFS": {CleansPaths: true},
	"Ceph RGW": {QuotedIfMatchFails: true, IfMatchAbsent412: true, DeleteIgnoresIfMatch: true, BatchIgnoresETag: true,
		EncodesSpaceAs20: true},
	"s3rver": {CreateOnlyOverwrites: true, IgnoresIfMatch: true, RaceWindow: window, DeleteIgnoresIfMatch: true,
		BatchIgnoresETag: true, Unsorted: true, IgnoresEncodingType: true},
	"gofakes3": {IfMatchAbsent412: true, DeleteIgnoresIfMatch: true, BatchIgnoresETag: true, IgnoresEncodingType: true,
		ManglesControl: true},
}

// beyond are the cases in which no lie of s3d is like the server: there it is held to nothing. Its order is another one, in
// which it cannot start after a key.
var beyond = map[string][]string{
	"s3rver":   {"list, start-after", "read, stale", "key a//b"},
	"Ceph RGW": {"key with 0x01"},
}

// window is long enough for 32 requests to be under way at once.
const window = 100 * time.Millisecond

// singles are the other lies that a step shows, each alone.
var singles = []struct {
	lies     s3d.Lies
	deviates map[string]string
}{
	{s3d.Lies{CreateOnlyOverwrites: true}, map[string]string{"create-only, there": "200", "creates, 32 at once": "several won"}},
	{s3d.Lies{IgnoresIfMatch: true, RaceWindow: window}, map[string]string{"match, stale": "200", "match, absent": "200",
		"creates, 32 at once": "several won", "increments, 16 at once": "some lost"}},
	{s3d.Lies{IfMatchCreates: true}, map[string]string{"match, absent": "200"}},
	{s3d.Lies{IfMatchAbsent412: true}, map[string]string{"match, absent": "PreconditionFailed"}},
	{s3d.Lies{QuotedIfMatchFails: true}, map[string]string{"match": "PreconditionFailed",
		"match, absent": "PreconditionFailed"}},
	{s3d.Lies{DeleteIgnoresIfMatch: true}, map[string]string{"delete, stale": "200"}},
	{s3d.Lies{BatchIgnoresETag: true}, map[string]string{"batch delete, stale": "200"}},
	{s3d.Lies{RaceWindow: window}, map[string]string{"creates, 32 at once": "several won", "increments, 16 at once": "some lost"}},
	{s3d.Lies{IgnoresReadConditions: true}, map[string]string{"read, stale": "200", "read, unchanged": "200"}},
	{s3d.Lies{NoPageCap: true}, map[string]string{"list, 5000 asked": "1001"}},
	{s3d.Lies{LargePagesFail: true}, map[string]string{"list, 5000 asked": "InternalError"}},
	{s3d.Lies{IgnoresStartAfter: true}, map[string]string{"list, start-after": "a b- b/1 b/2 c"}},
	{s3d.Lies{RefusesStartAfter: true}, map[string]string{"list, start-after": "NotImplemented"}},
	{s3d.Lies{IgnoresEncodingType: true}, map[string]string{"list, encoding": "raw x +&", "key with 0x01": "unreadable"}},
	{s3d.Lies{EncodesSilently: true}, map[string]string{"list, encoding": "raw x+%2B%26", "key with 0x01": "raw a%01b"}},
	{s3d.Lies{EncodesSpaceAs20: true}, map[string]string{"list, encoding": "x%20%2B%26"}},
	{s3d.Lies{ManglesControl: true}, nil}, // until the encoding is ignored as well
	{s3d.Lies{CleansPaths: true}, map[string]string{"key a//b": "a/b"}},
	{s3d.Lies{RefusesOddPaths: true}, map[string]string{"key a//b": "InvalidArgument"}},
	{s3d.Lies{Unsorted: true}, map[string]string{"list, order": "unsorted", "list, start-after": "a b- b/1 b/2 c"}},
}

func want(deviates map[string]string) map[string]string {
	w := maps.Clone(documented)
	maps.Copy(w, deviates)
	return w
}

// TestAgreement holds the server, faithful, lying as each real one does and telling each lie alone, to what was seen.
func TestAgreement(t *testing.T) {
	check := func(lies s3d.Lies, deviates map[string]string, beyond []string) {
		t.Helper()
		s := s3d.New(t, &s3d.Options{Lies: lies})
		want := want(deviates)
		got := behaviour(t, &stepper{t.Context(), client(s), name, func(key string) { s.Store(name, key, "") }})
		for _, step := range beyond {
			delete(want, step)
			delete(got, step)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v: behaviour (-want +got):\n%s", lies, diff)
		}
	}
	for name, lies := range lies {
		server, ok := realservers.Find(name)
		if !ok && name != "" {
			t.Fatalf("nothing is known of server %q", name)
		}
		check(lies, server.Answers(), beyond[name])
	}
	for _, lie := range singles {
		check(lie.lies, lie.deviates, nil)
	}
}

// TestReal asks a real server the same: the environment names it, as for the driver's own test. Where it does not answer as
// documented the case fails here: tools/testreal, which starts servers and runs this, holds the failures to what is listed.
func TestReal(t *testing.T) {
	endpoint := os.Getenv("INDEXD_S3_ENDPOINT")
	if endpoint == "" {
		t.Skip("INDEXD_S3_ENDPOINT is not set: make test-real does")
	}
	access, secret, _ := strings.Cut(os.Getenv("INDEXD_S3_KEY"), ":")
	c := s3.New(s3.Options{
		BaseEndpoint: &endpoint, UsePathStyle: true, Region: "us-east-1", Retryer: aws.NopRetryer{},
		Credentials:                credentials.NewStaticCredentialsProvider(access, secret, ""),
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
	})
	bucket := "s3d-" + strings.ToLower(rand.Text())
	if _, err := c.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &bucket}); err != nil {
		t.Fatal(err)
	}
	b := &stepper{ctx: t.Context(), c: c, bucket: bucket}
	b.fill = func(key string) { b.put(key, "", nil, nil) }
	got := behaviour(t, b)
	for _, step := range slices.Sorted(maps.Keys(documented)) {
		t.Run(step, func(t *testing.T) {
			if got[step] != documented[step] {
				t.Errorf("answers %q; documented is %q", got[step], documented[step])
			}
		})
	}
}

// behaviour takes the steps, in an empty bucket.
func behaviour(t *testing.T, b *stepper) map[string]string {
	t.Helper()
	got := map[string]string{}
	b.conditions(got)
	b.races(got)
	b.reads(got)
	b.lists(t, got)
	b.oddKeys(t, got)
	return got
}

type stepper struct {
	ctx    context.Context
	c      *s3.Client
	bucket string
	fill   func(key string) // puts one of many empty objects
}

func (b *stepper) put(key, body string, match, none *string) (string, error) {
	out, err := b.c.PutObject(b.ctx, &s3.PutObjectInput{Bucket: &b.bucket, Key: &key, Body: strings.NewReader(body),
		IfMatch: match, IfNoneMatch: none})
	if err != nil {
		return "", err
	}
	return aws.ToString(out.ETag), nil
}

const stale = `"0123456789abcdef0123456789abcdef"`

var star = aws.String("*")

func (b *stepper) conditions(got map[string]string) {
	etag, err := b.put("doc", "1", nil, star)
	got["create-only, absent"] = code(err)
	_, err = b.put("doc", "1", nil, star)
	got["create-only, there"] = code(err)
	_, err = b.put("doc", "1", &etag, nil)
	got["match"] = code(err)
	_, err = b.put("doc", "1", aws.String(strings.Trim(etag, `"`)), nil)
	got["match, unquoted"] = code(err)
	_, err = b.put("doc", "1", aws.String(stale), nil)
	got["match, stale"] = code(err)
	_, err = b.put("absent", "1", aws.String(stale), nil)
	got["match, absent"] = code(err)
	b.put("victim", "1", nil, nil)
	_, err = b.c.DeleteObject(b.ctx, &s3.DeleteObjectInput{Bucket: &b.bucket, Key: aws.String("victim"), IfMatch: aws.String(stale)})
	got["delete, stale"] = code(err)
	b.put("victim", "1", nil, nil)
	out, err := b.c.DeleteObjects(b.ctx, &s3.DeleteObjectsInput{Bucket: &b.bucket, Delete: &types.Delete{
		Objects: []types.ObjectIdentifier{{Key: aws.String("victim"), ETag: aws.String(stale)}}}})
	if got["batch delete, stale"] = code(err); err == nil && len(out.Errors) == 1 {
		got["batch delete, stale"] = aws.ToString(out.Errors[0].Code)
	}
}

// races has 32 creates of one object, and 16 who each add one to a number.
func (b *stepper) races(got map[string]string) {
	var mu sync.Mutex
	won := 0
	atOnce(32, func(i int) {
		if _, err := b.put("race", fmt.Sprint(i), nil, star); err == nil {
			mu.Lock()
			defer mu.Unlock()
			won++
		}
	})
	got["creates, 32 at once"] = map[bool]string{true: "1 won", false: "several won"}[won == 1]
	b.put("number", "0", nil, nil)
	added := 0
	atOnce(16, func(int) {
		for range 200 {
			if b.increment() == nil {
				mu.Lock()
				defer mu.Unlock()
				added++
				return
			}
		}
	})
	body, _ := b.get(&s3.GetObjectInput{Key: aws.String("number")})
	n, _ := strconv.Atoi(strings.TrimPrefix(body, "200 "))
	got["increments, 16 at once"] = map[bool]string{true: "none lost", false: "some lost"}[added == n && added > 0]
}

func atOnce(n int, do func(int)) {
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-begin
			do(i)
		})
	}
	close(begin)
	wg.Wait()
}

func (b *stepper) increment() error {
	out, err := b.c.GetObject(b.ctx, &s3.GetObjectInput{Bucket: &b.bucket, Key: aws.String("number")})
	if err != nil {
		return err
	}
	defer out.Body.Close()
	body, err := io.ReadAll(out.Body) // what breaks off is no number
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(string(body))
	if err == nil {
		_, err = b.put("number", fmt.Sprint(n+1), aws.String(strings.Trim(aws.ToString(out.ETag), `"`)), nil)
	}
	return err
}

func (b *stepper) reads(got map[string]string) {
	etag, _ := b.put("read", "abcdef", nil, nil)
	status := func(in *s3.GetObjectInput) string {
		s, _ := b.get(in)
		s, _, _ = strings.Cut(s, " ")
		return s
	}
	got["read, stale"] = status(&s3.GetObjectInput{Key: aws.String("read"), IfMatch: aws.String(stale)})
	got["read, unchanged"] = status(&s3.GetObjectInput{Key: aws.String("read"), IfNoneMatch: &etag})
	got["read, range"], _ = b.get(&s3.GetObjectInput{Key: aws.String("read"), Range: aws.String("bytes=1-3")})
}

// lists is about the keys below "l/" and "n/".
func (b *stepper) lists(t *testing.T, got map[string]string) {
	for _, key := range []string{"c", "b/2", "a", "b/1", "b-"} {
		b.put("l/"+key, "", nil, nil)
	}
	all, _, err := b.list(&s3.ListObjectsV2Input{Prefix: aws.String("l/")})
	if got["list, order"] = "unsorted"; slices.IsSorted(all) {
		got["list, order"] = "sorted"
	}
	if err != nil || len(all) != 5 {
		t.Errorf("listed %q, %v", all, err)
	}
	some, _, err := b.list(&s3.ListObjectsV2Input{Prefix: aws.String("l/"), StartAfter: aws.String("l/b/1")})
	slices.Sort(some)
	got["list, start-after"] = orCode(strings.ReplaceAll(strings.Join(some, " "), "l/", ""), err)
	some, _, err = b.list(&s3.ListObjectsV2Input{Prefix: aws.String("l/"), Delimiter: aws.String("/")})
	slices.Sort(some)
	got["list, delimiter"] = orCode(strings.ReplaceAll(strings.Join(some, " "), "l/", ""), err)
	atOnce(16, func(w int) {
		for i := w; i < 1001; i += 16 {
			b.fill(fmt.Sprintf("n/%04d", i))
		}
	})
	some, _, err = b.list(&s3.ListObjectsV2Input{Prefix: aws.String("n/"), MaxKeys: aws.Int32(5000)})
	got["list, 5000 asked"] = orCode(fmt.Sprint(len(some)), err)
	b.put("x +&", "", nil, nil)
	some, encoded, err := b.list(&s3.ListObjectsV2Input{Prefix: aws.String("x"), EncodingType: types.EncodingTypeUrl})
	got["list, encoding"] = orCode(raw(encoded)+strings.Join(some, " "), err)
}

func (b *stepper) oddKeys(t *testing.T, got map[string]string) {
	_, err := b.put("odd/a//b", "", nil, nil)
	some, _, _ := b.list(&s3.ListObjectsV2Input{Prefix: aws.String("odd/")})
	got["key a//b"] = orCode(strings.TrimPrefix(strings.Join(some, " "), "odd/"), err)
	if _, err := b.put("ctl/a\x01b", "", nil, nil); err != nil {
		got["key with 0x01"] = code(err)
		return
	}
	some, encoded, err := b.list(&s3.ListObjectsV2Input{Prefix: aws.String("ctl/"), EncodingType: types.EncodingTypeUrl})
	if got["key with 0x01"] = raw(encoded) + strings.TrimPrefix(strings.Join(some, " "), "ctl/"); err != nil {
		got["key with 0x01"] = "unreadable"
	}
}

func raw(encoded bool) string {
	if encoded {
		return ""
	}
	return "raw "
}

func orCode(s string, err error) string {
	if err != nil {
		return code(err)
	}
	return s
}

// list returns one page, of keys and common prefixes.
func (b *stepper) list(in *s3.ListObjectsV2Input) (keys []string, encoded bool, err error) {
	in.Bucket = &b.bucket
	out, err := b.c.ListObjectsV2(b.ctx, in)
	if err != nil {
		return nil, false, err
	}
	for _, o := range out.Contents {
		keys = append(keys, aws.ToString(o.Key))
	}
	for _, p := range out.CommonPrefixes {
		keys = append(keys, aws.ToString(p.Prefix))
	}
	return keys, out.EncodingType == types.EncodingTypeUrl, nil
}
