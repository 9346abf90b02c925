package s3d

import (
	"crypto/md5"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	"github.com/google/btree"
)

// A store is one bucket.
type store struct {
	mu       sync.RWMutex // guards all below
	objects  *btree.BTreeG[object]
	versions map[string]int  // that were ever made of a key, delete markers included
	marked   map[string]bool // keys whose newest version is a delete marker

	former      map[string]object    // what was overwritten, until the next GET
	cache       map[string]object    // what the first GET of a key was answered
	written     map[string]time.Time // when a key was last, for the pace
	conditional int                  // PUTs with conditions
	racing      map[string]int       // those that are between their conditions and their effect, by key
}

type object struct {
	key, body, etag string
	time            time.Time
	version         string // "" without versioning
	cacheControl    string // as it was put
}

func newStore() *store {
	return &store{
		objects:  btree.NewG(32, func(a, b object) bool { return a.key < b.key }),
		versions: map[string]int{}, marked: map[string]bool{}, former: map[string]object{}, cache: map[string]object{},
		written: map[string]time.Time{}, racing: map[string]int{},
	}
}

func newObject(key, body string, at time.Time) object {
	sum := md5.Sum([]byte(body))
	return object{key: strings.Clone(key), body: body, etag: `"` + hex.EncodeToString(sum[:]) + `"`, time: at}
}

// Store puts an object into the bucket as if somebody else had, past the wire and its lies. The time is the clock's.
func (s *Server) Store(bucket, key, body string) {
	s.t.Helper()
	st := s.bucket(bucket)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.objects.ReplaceOrInsert(newObject(key, body, s.opts.Now().UTC().Truncate(time.Second)))
	st.versions[key]++
	delete(st.marked, key)
}

// Forget takes an object out of the bucket, past the wire, its lies and its versions.
func (s *Server) Forget(bucket, key string) {
	s.t.Helper()
	st := s.bucket(bucket)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.objects.Delete(object{key: key})
}

// Body returns what is stored under the key, past the wire.
func (s *Server) Body(bucket, key string) (body string, ok bool) {
	s.t.Helper()
	st := s.bucket(bucket)
	st.mu.RLock()
	defer st.mu.RUnlock()
	o, ok := st.objects.Get(object{key: key})
	return o.body, ok
}

// Keys returns the keys that are stored, in byte order, past the wire.
func (s *Server) Keys(bucket string) []string {
	s.t.Helper()
	st := s.bucket(bucket)
	st.mu.RLock()
	defer st.mu.RUnlock()
	var keys []string
	st.objects.Ascend(func(o object) bool { keys = append(keys, o.key); return true })
	return keys
}

// Versions returns how many versions of the key a versioned server keeps, delete markers included.
func (s *Server) Versions(bucket, key string) int {
	s.t.Helper()
	st := s.bucket(bucket)
	st.mu.RLock()
	defer st.mu.RUnlock()
	return st.versions[key]
}

func (s *Server) bucket(name string) *store {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stores[name]
	if st == nil {
		s.t.Fatalf("s3d: there is no bucket %q", name)
	}
	return st
}
