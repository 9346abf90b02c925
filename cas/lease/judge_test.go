package lease_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas/lease"
	"github.com/blobindex/indexd/fakes/explore"
)

// A document is a lease as it is stored.
type document struct {
	Seq     uint64
	Nonce   string
	Payload lease.Payload
}

func decode(body string) (document, error) {
	var d document
	err := json.Unmarshal([]byte(body), &d)
	return d, err
}

func replaceTerm(body string, from, to uint64) string {
	return strings.Replace(body, `"term":`+strconv.FormatUint(from, 10), `"term":`+strconv.FormatUint(to, 10), 1)
}

// A judge holds the states of a search to P10.
type judge struct {
	t     *testing.T
	docs  map[string]document // by body
	ends  map[string]error    // by what is stored, and the newest term
	tally map[string]int      // what was observed at the ends, with who did
}

func newJudge(t *testing.T) *judge {
	return &judge{t: t, docs: map[string]document{}, ends: map[string]error{}, tally: map[string]int{}}
}

// of is the scenario, judged.
func (j *judge) of(s explore.Scenario) explore.Scenario {
	s.Name = j.t.Name()
	s.Invariant = j.state
	s.Check = j.end
	return s
}

// A view is what an actor's observations come to.
type view struct {
	name   string
	term   uint64 // that it has got
	passed int64  // seconds, by the store's clock, of its last check that passed
	acts   bool   // it has not begun to let go of it
}

func views(f *explore.Final) (all []view) {
	for _, a := range f.Actors {
		v := view{name: a.Name}
		for _, line := range a.Log {
			words := strings.Fields(line)
			switch words[0] {
			case "got":
				v.term, _ = strconv.ParseUint(words[1], 10, 64)
				v.acts = true
			case "passed":
				v.passed, _ = strconv.ParseInt(words[2], 10, 64)
			case "releasing":
				v.acts = false
			}
		}
		if v.term > 0 {
			all = append(all, v)
		}
	}
	return all
}

// state is what holds at every moment: each term is got once, none is below one that was got before, and nobody passes a check
// after somebody else has the lease.
func (j *judge) state(f *explore.Final) error {
	all := views(f)
	seen := map[uint64]string{}
	newest := uint64(0)
	for _, v := range all {
		if other, twice := seen[v.term]; twice {
			return fmt.Errorf("%s and %s both got term %d", other, v.name, v.term)
		}
		seen[v.term] = v.name
		newest = max(newest, v.term)
	}
	o, found := f.Object(key)
	if !found {
		return nil
	}
	d, known := j.docs[o.Body]
	if !known {
		var err error
		if d, err = decode(o.Body); err != nil {
			return err
		}
		j.docs[o.Body] = d
	}
	if term := max(d.Payload.Term, kept(f)); term < newest {
		return fmt.Errorf("term %d was got, and what is stored has term %d", newest, term)
	}
	for _, v := range all {
		// Of two at the same moment the check was first only where the holder has let go of it since: else the lease is not
		// old enough by that moment.
		after := v.passed - o.StoreTime.Unix()
		if d.Payload.Class != "" && d.Payload.Term > v.term && (after > 0 || after == 0 && v.acts) {
			return fmt.Errorf("%s, of term %d, passed its check %d s after term %d was taken", v.name, v.term, after, d.Payload.Term)
		}
	}
	return nil
}

// kept is the term in the checkpoint; 0 if there is none.
func kept(f *explore.Final) uint64 {
	o, _ := f.Object(checkpoint)
	term, _ := strconv.ParseUint(o.Body, 10, 64)
	return term
}

// end is what holds when everybody is finished or crashed: who comes later gets the lease when all is over, with a greater
// term.
func (j *judge) end(f *explore.Final) error {
	newest := uint64(0)
	for _, v := range views(f) {
		newest = max(newest, v.term)
	}
	for _, a := range f.Actors {
		for _, line := range a.Log {
			j.tally[a.Name+" "+strings.Fields(line)[0]]++
		}
	}
	o, _ := f.Object(key)
	id := fmt.Sprintf("%q%d %d %d %d", o.Body, o.StoreTime.Unix(), f.Clock.Unix(), newest, kept(f))
	err, known := j.ends[id]
	if !known {
		err = acquiredLater(o, f.Clock, max(newest, kept(f)))
		j.ends[id] = err
	}
	return err
}

// acquiredLater acquires the lease when nobody can hold it any more.
func acquiredLater(o explore.Object, now time.Time, newest uint64) error {
	ctx := context.Background()
	if o.Body != "" {
		now, o.StoreTime = o.StoreTime, now
	}
	b := membucket.New(&membucket.Options{Now: func() time.Time { return now }})
	if o.Body != "" {
		if _, err := b.Put(ctx, key, strings.NewReader(o.Body)); err != nil {
			return err
		}
		now = o.StoreTime
	}
	l, err := lease.New(b, "running", lease.Scheduler, nil)
	if err != nil {
		return err
	}
	for range 2 { // the first one may have to make a lost document known
		now = now.Add(lease.DefaultTTL + lease.Margin + time.Second)
		held, err := l.Try(ctx, lease.AcquireOptions{After: newest})
		if errors.Is(err, lease.ErrHeld) {
			continue
		}
		if err != nil || held.Term() <= newest {
			return fmt.Errorf("acquired later: %+v, %w", held, err)
		}
		return held.Release(ctx)
	}
	return fmt.Errorf("term %d is held for ever by %s", newest, o.Body)
}
