// Package castest is the conformance suite of cas.Store: what every driver, fake and server must do, as small steps that
// each work on keys of their own. It sends no request without a precondition but Load, never deletes, and can be imported
// from anywhere.
package castest

import (
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// Config says how to reach the store and in what it honestly differs from others.
type Config struct {
	// New returns the store for one step. It may return the same one each time.
	New func(t testing.TB) cas.Store
	// Another returns the same store as another process would see it, for races; nil: New's.
	Another func(t testing.TB, s cas.Store) cas.Store
	// ContentVersions says that equal bodies have equal versions, as S3's ETags are; else no two saves share one.
	ContentVersions bool
	// TellsTime says that Load tells both times.
	TellsTime bool
	// Rounds of racing creates, and of racing increments; 0: 20 and 5.
	Creates, Increments int
}

// A step checks one duty of a driver.
type step struct {
	name string
	run  func(*env)
}

// steps are in reading order: when several fail, the first one says most.
var steps = []step{
	{"Absent", absent},
	{"Create", create},
	{"CreateExisting", createExisting},
	{"Match", match},
	{"Stale", stale},
	{"MatchAbsent", matchAbsent},
	{"NoPrecondition", noPrecondition},
	{"Bodies", bodies},
	{"BackToBefore", backToBefore},
	{"Times", times},
	{"Cancelled", cancelled},
	{"BadKey", badKey},
	{"RacingCreates", racingCreates},
	{"RacingIncrements", racingIncrements},
	{"TornReads", tornReads},
	{"Linearizable", linearizable},
}

// Run runs every step as a subtest of t.
func Run(t *testing.T, c Config) {
	if c.Creates == 0 {
		c.Creates = 20
	}
	if c.Increments == 0 {
		c.Increments = 5
	}
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			s.run(&env{T: t, c: c, s: c.New(t), prefix: fmt.Sprintf("castest/%s-%s/", s.name, rand.Text())})
		})
	}
}

// An env is what a step works with.
type env struct {
	*testing.T
	c      Config
	s      cas.Store
	prefix string
	keys   int
}

// key returns one that nobody has used.
func (e *env) key() bucket.Key {
	e.keys++
	return bucket.Key(fmt.Sprintf("%skey-%d", e.prefix, e.keys))
}

// another is the store as another process sees it.
func (e *env) another() cas.Store {
	if e.c.Another == nil {
		return e.s
	}
	return e.c.Another(e, e.s)
}

func (e *env) save(key bucket.Key, body string, p cas.Precondition) cas.Version {
	e.Helper()
	v, err := e.s.Save(e.Context(), key, []byte(body), p)
	if err != nil {
		e.Fatalf("Save(%q, %v): %v", key, p, err)
	}
	if v == "" || v == "0" {
		e.Fatalf("Save(%q, %v): the version is %q", key, p, v)
	}
	return v
}

// want checks what is at key.
func (e *env) want(key bucket.Key, body string, v cas.Version) cas.Object {
	e.Helper()
	o, err := e.s.Load(e.Context(), key)
	if err != nil {
		e.Fatalf("Load(%q): %v", key, err)
	}
	if string(o.Body) != body || o.Version != v {
		e.Errorf("Load(%q): %d bytes %.40q of version %s, want %d bytes %.40q of %s", key, len(o.Body), o.Body, o.Version,
			len(body), body, v)
	}
	return o
}
