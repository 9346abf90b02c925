package blobindex_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
	"github.com/blobindex/indexd/blobindex/bucket/gcsbucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/blobindex/bucket/s3bucket"
	"github.com/blobindex/indexd/fakes/gcsd"
	"github.com/blobindex/indexd/fakes/s3d"
)

// A site is a store that behaviours are tried on.
type site struct {
	name string
	// open returns a bucket that is empty and the test's alone, and that tells the store's own times. Nil: it is in
	// memory, and tells the test's.
	open       func(t *testing.T) bucket.Objects
	deviations []deviation

	mu   sync.Mutex
	seen map[string]int // keys by the deviation that they showed
}

// world opens a bucket whose times are told by a clock that the test moves.
func (s *site) world(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, site: s, store: newClock(), host: newClock()}
	if s.open == nil {
		w.objects = membucket.New(&membucket.Options{Now: w.store.Now})
	} else {
		w.objects = retime(t, s.open(t), w.store.Now)
	}
	return w
}

func inMemory() *site { return &site{name: "memory"} }

// nearSites are the stores that a test has in its own process.
func nearSites() []*site { return append([]*site{inMemory()}, wireSites()...) }

// wireSites are those of nearSites that have times of their own.
func wireSites() []*site {
	return []*site{
		{name: "directory", open: openDirectory, deviations: deviationsOf("directory")},
		{name: "s3d", open: openS3d, deviations: deviationsOf("s3")},
		{name: "gcsd", open: openGCSd, deviations: deviationsOf("gs")},
	}
}

func openDirectory(t *testing.T) bucket.Objects {
	b, err := dirbucket.Create(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func openS3d(t *testing.T) bucket.Objects {
	return s3On(t, s3d.New(t, nil))
}

// s3On is the bucket of an S3 server that is as good as AWS.
func s3On(t *testing.T, server *s3d.Server) *s3bucket.Bucket {
	t.Helper()
	b, err := s3bucket.New("bucket", &s3bucket.Options{
		Endpoint: server.URL, Prefix: "some/path", Sorted: true, AnyKeys: true, Pause: time.Microsecond,
		Credentials: credentials.NewStaticCredentialsProvider("AK", "secret", ""),
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func openGCSd(t *testing.T) bucket.Objects {
	// Behaviours write a name again at once, which is not what they are about.
	server := gcsd.New(&gcsd.Options{Lies: gcsd.Lies{NoPace: true}})
	t.Cleanup(server.Close)
	return gcsOn(t, server)
}

// gcsOn is the bucket of a GCS server that is as good as Google's.
func gcsOn(t *testing.T, server *gcsd.Server) *gcsbucket.Bucket {
	t.Helper()
	b, err := gcsbucket.New(t.Context(), gcsbucket.Options{
		Bucket: "bucket", Endpoint: server.URL(), Prefix: "some/path", Sorted: true, FirstPause: time.Microsecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// A fate is what becomes of a key that a store may not be able to hold.
type fate int

const (
	held    fate = iota
	refused      // the Put is an error, and nothing is listed
	altered      // the store lists something else
	stuck        // it is listed, although the Put was an error, or nobody can ask for it: listings must cope with it
	deadly       // the server ends at such a Put, or loses others: it is not tried
)

func (f fate) String() string { return [...]string{"held", "refused", "altered", "stuck", "deadly"}[f] }

// A deviation names keys that a store cannot hold.
type deviation struct {
	why  string
	fate fate
	of   func(key string, others []string) bool // others are in the bucket already
}

// holds puts an object whose key may be one that the store cannot hold, and tells what became of it. Where the store
// does otherwise than its deviations say, the test fails. known are the keys of the bucket, which is this test's alone.
func (s *site) holds(t testing.TB, objects bucket.Objects, key, body string, known []string) fate {
	t.Helper()
	at := slices.IndexFunc(s.deviations, func(d deviation) bool { return d.of(key, known) })
	got, how := deadly, "it is not tried"
	if at < 0 || s.deviations[at].fate != deadly {
		got, how = attempt(t.Context(), objects, key, body, known)
	}
	switch {
	case at < 0 && got == held:
		return held
	case at < 0:
		t.Errorf("%s: the key %q is %v, of which no deviation is known: %s", s.name, key, got, how)
		return got
	case got != s.deviations[at].fate:
		t.Errorf("%s: the key %q is %v (%s), and it was known to be %v: %s", s.name, key, got, how, s.deviations[at].fate,
			s.deviations[at].why)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = make(map[string]int)
	}
	s.seen[s.deviations[at].why]++
	return got
}

// attempt puts an object and finds out what became of it. What is listed instead is deleted again.
func attempt(ctx context.Context, objects bucket.Objects, key, body string, known []string) (fate, string) {
	putErr := putInto(ctx, objects, key, body)
	_, headErr := objects.Head(ctx, bucket.Key(key))
	keys, err := keysOf(ctx, objects)
	how := fmt.Sprintf("putting it: %v; asking for it: %v; listing: %v", putErr, headErr, err)
	news := slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return slices.Contains(known, k) })
	switch {
	case err != nil || len(keys) != len(known)+len(news):
	case slices.Equal(news, []string{key}) && putErr == nil && headErr == nil:
		return held, ""
	case slices.Equal(news, []string{key}):
		return stuck, how
	case len(news) == 0 && putErr != nil:
		return refused, how
	}
	strangers := make([]bucket.Key, len(news))
	for i, k := range news {
		strangers[i] = bucket.Key(k)
	}
	return altered, fmt.Sprintf("%s; listed anew: %q; deleting those: %v", how, news, objects.Delete(ctx, strangers))
}

// stays tells whether the key is one that the store cannot be rid of.
func (s *site) stays(key string) bool {
	return slices.ContainsFunc(s.deviations, func(d deviation) bool { return d.fate == stuck && d.of(key, nil) })
}

// place puts an object whose key the store may not be able to hold, and tells whether it is there.
func (w *world) place(key, body string) bool {
	w.t.Helper()
	r, ok := w.objects.(*retimed)
	if !ok {
		w.put(key, body)
		return true
	}
	switch w.site.holds(w.t, r.Objects, key, body, r.keys()) {
	case held, stuck:
		r.adopt(key)
		return true
	}
	return false
}

// adopt takes an object for put.
func (r *retimed) adopt(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.change(bucket.Key(key))
	o.stored, o.gone, o.busy = r.now(), false, 0
}

// keys are those that are known to be in the bucket.
func (r *retimed) keys() []string {
	keys := []string{}
	for _, key := range slices.Sorted(maps.Keys(r.still(bucket.ListRequest{}))) {
		keys = append(keys, string(key))
	}
	return keys
}

// hasSegment tells whether a segment of the key is one that is asked for.
func hasSegment(key string, is func(string) bool) bool {
	return slices.ContainsFunc(strings.Split(key, "/"), is)
}
