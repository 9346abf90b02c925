package blobindex

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/prune"
)

// RulesFormat is the format of the document of an index's shared rules; see the package comment.
const RulesFormat = "rules/1"

// RulesLife is how long rules that were read may be used to begin a listing or a batch of deletes. It is no setting: those
// who change rules count on it.
const RulesLife = 2 * time.Minute

// How a change of the rules takes effect; see the package comment.
const (
	rulesLead   = 2*RulesLife + time.Minute // from the save to the instant from which the new rules count
	rulesQuiet  = RulesLife + time.Minute   // after that instant still nothing is deleted
	rulesDelete = RulesLife                 // the longest that a batch of deletes may take
)

// RulesKey is where the shared rules of the index with that prefix are.
func RulesKey(prefix string) bucket.Key { return bucket.Key("_indexd/index/" + prefix) }

// Errors of the shared rules. Match them with errors.Is; of what cannot be read tells a RulesError.
var (
	// ErrWithheld: nothing may be deleted now; the text says why.
	ErrWithheld = errors.New("blobindex: nothing may be deleted")
	// ErrRulesChanging: another change of the rules has been announced and does not count yet; nothing was saved.
	ErrRulesChanging = errors.New("blobindex: the rules are changing already")
)

// A RulesError says that the shared rules of an index could not be read, so that nothing can be shown or deleted by them.
type RulesError struct {
	Index string
	Key   bucket.Key
	Err   error
}

func (e *RulesError) Error() string {
	text := fmt.Sprintf("blobindex: the rules of index %q cannot be read: %v", e.Index, e.Err)
	if e.Corrupt() {
		text += fmt.Sprintf("; nobody writes over it: look at the object %q, and delete it if nothing else needs it, so that the "+
			"next serve or prune saves the rules anew", e.Key)
	}
	return text
}

func (e *RulesError) Unwrap() error { return e.Err }

// Corrupt tells whether the document itself is wrong, or of a format that this program does not know.
func (e *RulesError) Corrupt() bool {
	return errors.Is(e.Err, cas.ErrCorrupt) || errors.Is(e.Err, cas.ErrFormat)
}

// A rulesDocument is the payload of the document.
type rulesDocument struct {
	Current   rulesText     `json:"current"`
	Announced *announcement `json:"announced"`
}

type announcement struct {
	Rules rulesText `json:"rules"`
	From  time.Time `json:"from"` // no earlier; see schedule
}

// A rulesText is how rules are stored. The longest listing is no part of it: that is RulesLife for everybody.
type rulesText struct {
	Grammar   string `json:"grammar"`
	TTL       int64  `json:"ttl_ms"`
	LateAfter int64  `json:"late_after_ms"`
	Skew      int64  `json:"skew_ms"`
}

func storedRules(r prune.Rules) rulesText {
	return rulesText{r.Grammar.String(), r.TTL.Milliseconds(), r.LateAfter.Milliseconds(), r.Skew.Milliseconds()}
}

// rules reads the text. limit is this process's own ListingLimit.
func (t rulesText) rules(limit time.Duration) (prune.Rules, error) {
	grammar, err := itemid.ParseGrammar(t.Grammar)
	if err != nil {
		return prune.Rules{}, fmt.Errorf("%w: %w", cas.ErrCorrupt, err)
	}
	r := prune.Rules{Grammar: grammar, ListingLimit: limit}
	for _, f := range []struct {
		name string
		ms   int64
		into *time.Duration
	}{{"ttl_ms", t.TTL, &r.TTL}, {"late_after_ms", t.LateAfter, &r.LateAfter}, {"skew_ms", t.Skew, &r.Skew}} {
		if f.ms < 1 || f.ms > int64(1<<63-1)/int64(time.Millisecond) {
			return prune.Rules{}, fmt.Errorf("%w: %s is %d", cas.ErrCorrupt, f.name, f.ms)
		}
		*f.into = time.Duration(f.ms) * time.Millisecond
	}
	if r, err = r.WithDefaults(); err != nil {
		return prune.Rules{}, fmt.Errorf("%w: %w", cas.ErrCorrupt, err)
	}
	return r, nil
}

// A schedule is which rules are in force at which instant. The zero from of one without next means nothing.
type schedule struct {
	current prune.Rules
	next    *prune.Rules // announced; nil if there is none
	from    time.Time    // the instant from which next is in force
}

// scheduleOf reads a document that the store accepted at saved; zero if the store tells no time.
func scheduleOf(doc rulesDocument, saved time.Time, limit time.Duration) (schedule, error) {
	current, err := doc.Current.rules(limit)
	if err != nil {
		return schedule{}, fmt.Errorf("its current rules: %w", err)
	}
	s := schedule{current: current}
	if doc.Announced == nil {
		return s, nil
	}
	next, err := doc.Announced.Rules.rules(limit)
	if err != nil {
		return schedule{}, fmt.Errorf("its announced rules: %w", err)
	}
	s.next, s.from = &next, doc.Announced.From
	// A save that was held up after its writer had looked at the clock, or that was carried out late, announces from
	// when it landed.
	if landed := saved.Add(rulesLead); !saved.IsZero() && landed.After(s.from) {
		s.from = landed
	}
	return s, nil
}

// at returns the rules that are in force at an instant of the store's clock.
func (s *schedule) at(t time.Time) prune.Rules {
	if s.next == nil || t.Before(s.from) {
		return s.current
	}
	return *s.next
}

// target returns the rules that are meant to be in force in the end.
func (s *schedule) target() prune.Rules {
	if s.next == nil {
		return s.current
	}
	return *s.next
}

// pending tells whether a change was announced that does not count yet.
func (s *schedule) pending(t time.Time) bool { return s.next != nil && t.Before(s.from) }

// quiet tells whether nothing may be deleted since a change is or was under way.
func (s *schedule) quiet(t time.Time) bool { return s.next != nil && t.Before(s.from.Add(rulesQuiet)) }

// A givenRules says which rules an index was opened with by somebody's choice; the others are defaults.
type givenRules struct {
	grammar, ttl, lateAfter, skew bool
}

// over returns saved with what was given of own in its place.
func (g givenRules) over(saved, own prune.Rules) prune.Rules {
	if g.grammar {
		saved.Grammar = own.Grammar
	}
	if g.ttl {
		saved.TTL = own.TTL
	}
	if g.lateAfter {
		saved.LateAfter = own.LateAfter
	}
	if g.skew {
		saved.Skew = own.Skew
	}
	return saved
}

// A Difference is a rule of which a process was given another value than is saved.
type Difference struct {
	Rule       string // "grammar", "ttl", "late_after" or "skew"
	Own, Saved string // such as "2h"
}

// differences lists where b is other than a.
func differences(own, saved prune.Rules) []Difference {
	var out []Difference
	add := func(rule, a, b string) {
		if a != b {
			out = append(out, Difference{rule, a, b})
		}
	}
	add("grammar", own.Grammar.String(), saved.Grammar.String())
	add("ttl", span(own.TTL), span(saved.TTL))
	add("late_after", span(own.LateAfter), span(saved.LateAfter))
	add("skew", span(own.Skew), span(saved.Skew))
	return out
}

// span writes a duration without the zeros that time.Duration ends in: "2h", not "2h0m0s".
func span(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// wholeMilliseconds refuses rules that a document cannot hold.
func wholeMilliseconds(r prune.Rules) error {
	for _, f := range []struct {
		name string
		d    time.Duration
	}{{"ttl", r.TTL}, {"late_after", r.LateAfter}, {"skew", r.Skew}} {
		if f.d%time.Millisecond != 0 {
			return fmt.Errorf("%w: %s is %v; give whole milliseconds", ErrRequest, f.name, f.d)
		}
	}
	return nil
}
