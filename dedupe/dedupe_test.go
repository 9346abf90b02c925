package dedupe_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/blobindex/indexd/dedupe"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSuperseders(t *testing.T) {
	live := func(receipt dedupe.Instant) dedupe.Run {
		return dedupe.Run{Live: true, LastReceipt: receipt, LastWord: receipt}
	}
	over := func(receipt, word dedupe.Instant) dedupe.Run { return dedupe.Run{LastReceipt: receipt, LastWord: word} }
	for _, tc := range []struct {
		name string
		runs []dedupe.Run // newest first
		want []int
	}{
		{"none", nil, []int{}},
		{"one", []dedupe.Run{live(5)}, []int{-1}},
		{"a live one supersedes all older ones", []dedupe.Run{live(5), live(9), over(7, 7)}, []int{-1, 0, 0}},
		{"one that is over supersedes what was heard of no later", []dedupe.Run{over(5, 5), live(5), live(4)}, []int{-1, 0, 0}},
		{"and not what went on", []dedupe.Run{over(5, 5), live(6), live(4)}, []int{-1, -1, 0}},
		{"what goes on supersedes in its turn", []dedupe.Run{over(5, 5), live(6), live(7)}, []int{-1, -1, 1}},
		{"the newest superseder counts", []dedupe.Run{over(1, 1), over(3, 3), over(9, 9), live(3)}, []int{-1, -1, -1, 1}},
		{"a tombstone alone has no receipt", []dedupe.Run{over(1, 1), over(dedupe.Never, 9)}, []int{-1, 0}},
	} {
		if got := dedupe.Superseders([]int{}, tc.runs); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestSuperseders_Naive compares with asking Supersedes of every pair.
func TestSuperseders_Naive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runs := make([]dedupe.Run, rapid.IntRange(0, 8).Draw(t, "n"))
		instant := rapid.SampledFrom([]dedupe.Instant{dedupe.Never, 1, 2, 3, 4})
		for i := range runs {
			runs[i] = dedupe.Run{
				ID: fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "id"), i), At: instant.Draw(t, "at"),
				Live: rapid.Bool().Draw(t, "live"), LastReceipt: instant.Draw(t, "receipt"), LastWord: instant.Draw(t, "word"),
			}
		}
		slices.SortFunc(runs, dedupe.Newest)
		want := make([]int, len(runs))
		for i := range runs {
			want[i] = slices.IndexFunc(runs[:i], func(newer dedupe.Run) bool { return dedupe.Supersedes(newer, runs[i]) })
		}
		if diff := cmp.Diff(want, dedupe.Superseders([]int{}, runs)); diff != "" {
			t.Fatalf("%+v (-want +got):\n%s", runs, diff)
		}
	})
}

func TestNewest(t *testing.T) {
	runs := []dedupe.Run{{ID: "a", At: 1}, {ID: "b", At: 2}, {ID: "c", At: 2}}
	slices.SortFunc(runs, dedupe.Newest)
	if got := runs[0].ID + runs[1].ID + runs[2].ID; got != "cba" {
		t.Errorf("%s, want cba: larger time first, ties by id", got)
	}
}
