package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/blobindex/indexd/cas/manifest"
)

// A soakClaim is what is known of an entry that a producer asked for.
type soakClaim struct {
	soakStep
	seq  uint64   // of the save, if it was won
	gone []string // by which requests that were won
}

// A soakHistory is what all journals say together.
type soakHistory struct {
	claims  map[string]*soakClaim
	maybe   map[string]bool // ids whose removal may have been carried out
	absent  []string        // ids that were told not to be there
	open    map[string]int  // adds that may have been carried out, by key
	saves   map[uint64]string
	nonces  map[string]bool
	wrong   []string
	begun   int
	uploads int // that were refused
	endings map[string]int
}

// soakWrongs compares the entries of a list with the journals of the producers, and returns what must not be so:
//
//   - an add that was acknowledged is missing, and nobody who may have been carried out can have taken it out: each add under
//     its key whose outcome is not known accounts for one
//   - something is there that was refused, that was taken out, or that nobody asked for; or is there twice
//   - two requests took out the same one, or were acknowledged with the same save
//   - entries do not stand in the order of the saves that added them, or are not as they were asked for
func soakWrongs(journals [][]soakStep, entries []manifest.Entry) (wrong []string, h *soakHistory) {
	h = &soakHistory{claims: map[string]*soakClaim{}, maybe: map[string]bool{}, open: map[string]int{}, saves: map[uint64]string{},
		nonces: map[string]bool{}, endings: map[string]int{}}
	for _, steps := range journals {
		h.add(steps)
	}
	for _, steps := range journals {
		h.take(steps)
	}
	h.compare(entries)
	if len(h.nonces) > 1 {
		h.say("there were %d incarnations", len(h.nonces))
	}
	return h.wrong, h
}

func (h *soakHistory) say(format string, args ...any) {
	h.wrong = append(h.wrong, fmt.Sprintf(format, args...))
}

// add collects what was asked for.
func (h *soakHistory) add(steps []soakStep) {
	for _, s := range steps {
		if s.End == "" {
			h.begun++
		} else {
			h.endings[s.End]++
		}
		if s.End == soakRefused && strings.Contains(s.Why, manifest.ErrUpload.Error()) {
			h.uploads++
		}
		if s.Op != "add" {
			continue
		}
		if s.End == "" && h.claims[s.ID] != nil {
			h.say("%s was asked for twice", s.ID)
		}
		h.claims[s.ID] = &soakClaim{soakStep: s}
	}
	h.endings["killed"] = h.begun
	for end, n := range h.endings {
		if end != "killed" {
			h.endings["killed"] -= n
		}
	}
}

// take takes account of what was won and of what may have been.
func (h *soakHistory) take(steps []soakStep) {
	ended := map[string]bool{}
	for _, s := range steps {
		ended[s.Op+s.ID] = ended[s.Op+s.ID] || s.End != ""
	}
	for _, s := range steps {
		if s.End == "" && ended[s.Op+s.ID] {
			continue
		}
		switch {
		case s.End == soakWon:
			h.won(s)
		case s.Op == "add" && s.End != soakRefused:
			h.open[s.Key]++
		case s.Op == "remove" && s.End == soakAbsent:
			h.absent = append(h.absent, s.ID)
		case s.Op == "remove" && s.End != soakRefused:
			h.maybe[s.ID] = true
		}
	}
}

func (h *soakHistory) won(s soakStep) {
	nonce, seq, _ := strings.Cut(s.Tag, "-")
	n, err := strconv.ParseUint(seq, 10, 64)
	if err != nil {
		h.say("%s %s was won with the tag %q", s.Op, s.ID, s.Tag)
	}
	if other, ok := h.saves[n]; ok {
		h.say("%s and %s %s were won by the same save %s", other, s.Op, s.ID, s.Tag)
	}
	h.saves[n], h.nonces[nonce] = s.Op+" "+s.ID, true
	out := s.Displaced
	if s.Op == "add" {
		h.claims[s.ID].seq = n
	} else {
		out = []string{s.ID}
	}
	if len(s.Displaced) > 1 || s.Displaced != nil && s.Key == "" {
		h.say("%s of key %q displaced %q", s.ID, s.Key, s.Displaced)
	}
	for _, id := range out {
		c := h.claims[id]
		switch {
		case c == nil:
			h.say("%s took out %s, which nobody asked for", s.ID, id)
			continue
		case c.End == soakRefused:
			h.say("%s took out %s, which was refused", s.ID, id)
		case s.Op == "add" && c.Key != s.Key:
			h.say("%s of key %q displaced %s of key %q", s.ID, s.Key, id, c.Key)
		case len(c.gone) > 0:
			h.say("%s was taken out by %s and by %q", id, s.ID, c.gone)
		}
		c.gone = append(c.gone, s.Op+" "+s.ID)
	}
}

func (h *soakHistory) compare(entries []manifest.Entry) {
	present, keys := map[string]bool{}, map[string]string{}
	last := &soakClaim{}
	for _, e := range entries {
		c := h.claims[e.ID]
		switch {
		case present[e.ID]:
			h.say("%s is there twice", e.ID)
		case c == nil:
			h.say("%s is there, which nobody asked for", e.ID)
			continue
		case c.End == soakRefused:
			h.say("%s is there, which was refused: %s", e.ID, c.Why)
		case len(c.gone) > 0:
			h.say("%s is there, which was taken out by %q", e.ID, c.gone)
		}
		present[e.ID] = true
		if other, ok := keys[e.DedupeKey]; ok && e.DedupeKey != "" {
			h.say("%s and %s have the same key %q", other, e.ID, e.DedupeKey)
		}
		keys[e.DedupeKey] = e.ID
		var sizes []int64
		for _, b := range e.Blobs {
			sizes = append(sizes, b.Size)
		}
		if e.DedupeKey != c.Key || !slices.Equal(sizes, c.Sizes) {
			h.say("%s is there with key %q and sizes %v, and was asked for with %q and %v", e.ID, e.DedupeKey, sizes, c.Key, c.Sizes)
		}
		if c.seq != 0 {
			if c.seq <= last.seq {
				h.say("%s of save %d stands after %s of save %d", e.ID, c.seq, last.ID, last.seq)
			}
			last = c
		}
	}
	for _, id := range h.absent {
		if present[id] {
			h.say("%s is there, and was told not to be", id)
		}
	}
	for _, c := range h.claims {
		switch {
		case c.End != soakWon || present[c.ID] || len(c.gone) > 0 || h.maybe[c.ID]:
		case c.Key != "" && h.open[c.Key] > 0:
			h.open[c.Key]--
		default:
			h.say("%s of key %q was acknowledged and is missing", c.ID, c.Key)
		}
	}
	slices.Sort(h.wrong)
}

// TestManifestSoak_CanFail: what the soak looks for is found.
func TestManifestSoak_CanFail(t *testing.T) {
	add := func(id, key string) soakStep { return soakStep{Op: "add", ID: id, Key: key, Sizes: []int64{1}} }
	won := func(s soakStep, seq int, displaced ...string) soakStep {
		s.End, s.Tag, s.Displaced = soakWon, fmt.Sprint("N-", seq), displaced
		return s
	}
	ended := func(s soakStep, end string) soakStep { s.End = end; return s }
	remove := func(id string) soakStep { return soakStep{Op: "remove", ID: id} }
	entry := func(id, key string) manifest.Entry {
		return manifest.Entry{ID: id, DedupeKey: key, Blobs: []manifest.Blob{{Key: id, Size: 1}}}
	}
	a, b, c, other := add("a", "k"), add("b", "k"), add("c", "k"), add("c", "")
	wonA, rmA := won(a, 1), remove("a")
	eA, eB, eC := entry("a", "k"), entry("b", "k"), entry("c", "")
	type journals = [][]soakStep
	type list = []manifest.Entry
	for name, x := range map[string]struct {
		steps   journals
		entries list
		want    string // part of what is wrong; empty: nothing is
	}{
		"all well":              {journals{{a, wonA}, {b, won(b, 2, "a")}}, list{eB}, ""},
		"lost":                  {journals{{a, wonA}}, nil, "a of key \"k\" was acknowledged and is missing"},
		"killed, not there":     {journals{{a}}, nil, ""},
		"killed, there":         {journals{{a}}, list{eA}, ""},
		"perhaps displaced":     {journals{{a, wonA}, {b, ended(b, soakUnknown)}}, list{eB}, ""},
		"displaced by another":  {journals{{a, wonA}, {add("b", "l")}}, nil, "a of key"},
		"two, one displacer":    {journals{{a, wonA}, {b, won(b, 2)}, {c}}, nil, "was acknowledged and is missing"},
		"perhaps removed":       {journals{{a, wonA, rmA}}, nil, ""},
		"removal refused":       {journals{{a, wonA, rmA, ended(rmA, soakRefused)}}, nil, "missing"},
		"removed, there":        {journals{{a, wonA, rmA, won(rmA, 2)}}, list{eA}, "taken out by"},
		"displaced, there":      {journals{{a, wonA}, {b, won(b, 2, "a")}}, list{eA, eB}, "taken out by"},
		"absent, there":         {journals{{a, wonA, rmA, ended(rmA, soakAbsent)}}, list{eA}, "told not to be"},
		"refused, there":        {journals{{a, ended(a, soakRefused)}}, list{eA}, "which was refused"},
		"nobody's":              {nil, list{eA}, "nobody asked for"},
		"twice":                 {journals{{a, wonA}}, list{eA, eA}, "twice"},
		"one key":               {journals{{a, b}}, list{eA, eB}, "the same key"},
		"another key":           {journals{{a}}, list{entry("a", "l")}, "was asked for with"},
		"one save":              {journals{{a, wonA}, {other, won(other, 1)}}, list{eA, eC}, "the same save"},
		"out of order":          {journals{{a, won(a, 2)}, {other, won(other, 1)}}, list{eA, eC}, "stands after"},
		"displaced twice":       {journals{{a, wonA}, {b, won(b, 2, "a")}, {c, won(c, 3, "a")}}, nil, "was taken out by"},
		"displaced another key": {journals{{a, wonA}, {add("c", "l"), won(add("c", "l"), 2, "a")}}, list{entry("c", "l")}, "displaced a of key"},
	} {
		wrong, _ := soakWrongs(x.steps, x.entries)
		if x.want == "" && len(wrong) > 0 || !strings.Contains(strings.Join(wrong, "\n"), cmp.Or(x.want, "")) {
			t.Errorf("%s: %q, want %q", name, wrong, x.want)
		}
	}
}
