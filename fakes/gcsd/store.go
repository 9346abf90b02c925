package gcsd

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/btree"

	"github.com/blobindex/indexd/fakes/internal/wire"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A store is one bucket. It is guarded by its server's mu.
type store struct {
	live     *btree.BTreeG[*object]
	archive  []*object            // of a versioned bucket
	lastSave map[string]time.Time // of a name, for the pace

	uploads int                // that came, for those that are refused
	racing  map[string]int     // uploads between their conditions and their effect, by name
	former  map[string]*object // what was overwritten, until the next read
	cache   map[string]*object // what the first read of a name was answered
	gone    map[string]bool    // names that were deleted
}

func newStore() *store {
	return &store{
		live:     btree.NewG(32, func(x, y *object) bool { return x.name < y.name }),
		lastSave: map[string]time.Time{}, racing: map[string]int{}, former: map[string]*object{},
		cache: map[string]*object{}, gone: map[string]bool{},
	}
}

func (st *store) get(name string) *object {
	o, _ := st.live.Get(&object{name: name})
	return o
}

// An object is one generation. Only its metageneration, updated and metadata change.
type object struct {
	name             string
	body             []byte
	generation       int64
	metageneration   int64
	created, updated time.Time
	meta             metadata
}

// metadata is what a client says of an object.
type metadata struct {
	Name         string            `json:"name,omitempty"`
	ContentType  string            `json:"contentType,omitempty"`
	CacheControl string            `json:"cacheControl,omitempty"`
	CRC32C       string            `json:"crc32c,omitempty"`
	MD5          string            `json:"md5Hash,omitempty"`
	Metadata     map[string]string `json:"metadata,omitempty"`
}

func (o *object) crc32c() string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.Checksum(o.body, castagnoli)))
}

func (o *object) md5() string {
	sum := md5.Sum(o.body)
	return base64.StdEncoding.EncodeToString(sum[:])
}

func (o *object) etag() string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%d/%d", o.generation, o.metageneration))
}

// resource is the object as the JSON API tells it; of the fields, if any are named, only those.
func (s *Server) resource(bucket string, o *object, fields ...string) map[string]any {
	const layout = "2006-01-02T15:04:05.000Z"
	lies := s.opts.Lies
	r := map[string]any{}
	for field, value := range map[string]func() any{
		"kind":           func() any { return "storage#object" },
		"id":             func() any { return fmt.Sprintf("%s/%s/%d", bucket, o.name, o.generation) },
		"name":           func() any { return o.name },
		"bucket":         func() any { return bucket },
		"generation":     func() any { return told(!lies.NoGeneration, fmt.Sprint(o.generation)) },
		"metageneration": func() any { return fmt.Sprint(o.metageneration) },
		"size":           func() any { return fmt.Sprint(len(o.body)) },
		"storageClass":   func() any { return "STANDARD" },
		"etag":           func() any { return o.etag() },
		"contentType":    func() any { return told(o.meta.ContentType != "", o.meta.ContentType) },
		"cacheControl":   func() any { return told(o.meta.CacheControl != "", o.meta.CacheControl) },
		"metadata":       func() any { return told(o.meta.Metadata != nil, o.meta.Metadata) },
		"crc32c":         func() any { return told(!lies.NoChecksum, o.crc32c()) },
		"md5Hash":        func() any { return told(!lies.NoChecksum, o.md5()) },
		"updated":        func() any { return told(!lies.NoUpdated, o.updated.Format(layout)) },
		"timeCreated":    func() any { return told(!lies.NoUpdated, o.created.Format(layout)) },
	} {
		if fields != nil && !slices.Contains(fields, field) {
			continue
		}
		if v := value(); v != nil {
			r[field] = v
		}
	}
	return r
}

// told is v, or what is left out.
func told(is bool, v any) any {
	if !is {
		return nil
	}
	return v
}

// save puts a new generation over what is there. Under mu.
func (s *Server) save(st *store, meta metadata, body []byte, c conditions) (*object, *failure) {
	if f := checkName(meta.Name); f != nil {
		return nil, f
	}
	if f := s.admit(st, meta.Name, c); f != nil {
		return nil, f
	}
	now := s.now()
	if f := s.pace(st, meta.Name, now); f != nil {
		return nil, f
	}
	o := &object{
		name: meta.Name, body: bytes.Clone(body), meta: meta,
		generation: s.nextGeneration(), metageneration: 1, created: now, updated: now,
	}
	if meta.CRC32C != "" && meta.CRC32C != o.crc32c() || meta.MD5 != "" && meta.MD5 != o.md5() || s.opts.Lies.BadChecksum {
		return nil, fail(400, "invalid", "Provided hash does not match the calculated one.")
	}
	if o.meta.ContentType == "" {
		o.meta.ContentType = "application/octet-stream"
	}
	s.place(st, o)
	return o, nil
}

// admit holds an upload's conditions against what is there, and returns when it may be carried out. Under mu, which it may
// let go of for a while.
func (s *Server) admit(st *store, name string, c conditions) *failure {
	lies := s.opts.Lies
	if st.uploads++; lies.ConflictEvery > 0 && st.uploads%lies.ConflictEvery == 0 {
		return fail(409, "conflict", "A conflicting operation is under way.")
	}
	if lies.ContentionFails && c.any() && st.racing[name] > 0 {
		return fail(500, "backendError", "Internal error, try again.")
	}
	f := c.of(lies, lies.WriteIgnoresConditions).check(st.get(name)).forWrite()
	if f != nil || !c.any() || lies.RaceWindow <= 0 {
		return f
	}
	st.racing[name]++
	s.mu.Unlock()
	wire.Wait(lies.RaceWindow, s.quit)
	s.mu.Lock()
	st.racing[name]--
	return nil
}

// place puts the object over what is there. Under mu.
func (s *Server) place(st *store, o *object) {
	if old, over := st.live.ReplaceOrInsert(o); over {
		st.former[o.name] = old
		s.retire(st, old)
	}
	delete(st.gone, o.name)
}

// Store puts an object into the bucket as if somebody else had, past the wire, its lies and its pace.
func (s *Server) Store(bucket, name, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.buckets[bucket]
	if st == nil {
		panic("gcsd: there is no bucket " + bucket)
	}
	now := s.now()
	s.place(st, &object{
		name: strings.Clone(name), body: []byte(body), meta: metadata{ContentType: "application/octet-stream"},
		generation: s.nextGeneration(), metageneration: 1, created: now, updated: now,
	})
}

// Body is what is stored under the name, past the wire; empty if there is nothing.
func (s *Server) Body(bucket, name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.buckets[bucket]; st != nil {
		if o := st.get(name); o != nil {
			return string(o.body)
		}
	}
	return ""
}

func (s *Server) pace(st *store, name string, now time.Time) *failure {
	if s.opts.Lies.NoPace {
		return nil
	}
	if last, ok := st.lastSave[name]; ok && now.Sub(last) < time.Second {
		return fail(429, "rateLimitExceeded", "The object exceeded the rate limit for object mutation operations.")
	}
	st.lastSave[name] = now
	return nil
}

func (s *Server) retire(st *store, o *object) {
	if o != nil && s.opts.Versioned {
		st.archive = append(st.archive, o)
	}
}

func checkName(name string) *failure {
	switch {
	case name == "":
		return fail(400, "required", "Required")
	case len(name) > 1024, !utf8.ValidString(name), strings.ContainsAny(name, "\r\n"), name == ".", name == "..",
		strings.HasPrefix(name, ".well-known/acme-challenge/"):
		return fail(400, "invalid", "Disallowed unicode characters or length in object name")
	}
	return nil
}
