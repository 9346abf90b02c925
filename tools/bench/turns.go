package main

import (
	"fmt"
	"slices"
)

// turns is how many pairs there are where each takes long.
const turns = 5

// noisy is the spread between measurements of one and the same thing above which a row is skipped.
const noisy = 0.15

// skipped stands in row.over where what is measured is lost in what the machine does besides.
const skipped = -1

// A take holds what was measured in turn: ours, the bare thing, and the bare thing once more.
type take struct{ ours, bare, again []float64 }

// taken measures in pairs. Which of the two goes first changes from pair to pair; the bare thing is measured twice in each.
func taken(ours, bare func() (float64, error)) (take, error) {
	var t take
	for i := range turns {
		steps := []struct {
			measure func() (float64, error)
			into    *[]float64
		}{{bare, &t.bare}, {ours, &t.ours}, {bare, &t.again}}
		if i%2 == 1 {
			steps[0], steps[1] = steps[1], steps[0]
		}
		for _, s := range steps {
			v, err := s.measure()
			if err != nil {
				return t, err
			}
			*s.into = append(*s.into, v)
		}
	}
	return t, nil
}

// takenAgain sorts what else was measured, in the order of measuring, as taken does.
func takenAgain(measured []float64) (take, error) {
	next := func() (float64, error) {
		v := measured[0]
		measured = measured[1:]
		return v, nil
	}
	return taken(next, next)
}

// row is r, or r skipped where the bare thing differs too much from itself.
func (t take) row(r row) row {
	same := ratios(t.again, t.bare)
	noise := slices.Max(same)/slices.Min(same) - 1
	r.figure += fmt.Sprintf("; the latter against itself: %.0f %% apart", 100*noise)
	if noise > noisy {
		r.over = skipped
	}
	return r
}

// whole says a spread of large numbers.
func (s spread) whole() string {
	return fmt.Sprintf("%.0f (%.0f to %.0f)", s.median, s.min, s.max)
}
