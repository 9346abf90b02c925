package explore

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// A choice is one step of a schedule: which pending request of which actor, and what becomes of it.
type choice struct {
	actor int // index in Scenario.Actors; their number stands for requests on their way (AppliedLate)
	index int // among the pending requests of the actor, by op, key and text
	fault Fault
}

// letters name the outcomes in a replay string: none, then the faults from the lowest bit on.
const letters = "krnltfba"

func (c choice) String() string {
	s := strconv.Itoa(c.actor)
	if c.index > 0 {
		s += ":" + strconv.Itoa(c.index)
	}
	return s + string(letters[bits.Len16(uint16(c.fault))])
}

// formatSchedule is the replay string: its choices joined by "-", each the actor's index, ":" and the request's index
// if it is not 0, and the letter of the outcome.
func formatSchedule(cs []choice) string {
	parts := make([]string, len(cs))
	for i, c := range cs {
		parts[i] = c.String()
	}
	return strings.Join(parts, "-")
}

// parseSchedule is the inverse of formatSchedule.
func parseSchedule(s string) ([]choice, error) {
	if s == "" {
		return nil, nil
	}
	var cs []choice
	for i, part := range strings.Split(s, "-") {
		c, err := parseChoice(part)
		if err != nil {
			return nil, fmt.Errorf("explore: reading step %d of the schedule: %w", i+1, err)
		}
		cs = append(cs, c)
	}
	return cs, nil
}

func parseChoice(s string) (choice, error) {
	if s == "" {
		return choice{}, fmt.Errorf("no step at all")
	}
	var c choice
	head, letter := s[:len(s)-1], strings.IndexByte(letters, s[len(s)-1])
	actor, index, indexed := strings.Cut(head, ":")
	var err1, err2 error
	c.actor, err1 = strconv.Atoi(actor)
	if indexed {
		c.index, err2 = strconv.Atoi(index)
	}
	if letter < 0 || err1 != nil || err2 != nil {
		return choice{}, fmt.Errorf("%q is no step", s)
	}
	if letter > 0 {
		c.fault = 1 << (letter - 1)
	}
	if c.String() != s {
		return choice{}, fmt.Errorf("%q is no step", s)
	}
	return c, nil
}
