package main

import (
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
)

func TestHumane(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 999 * time.Millisecond: "0s", 59 * time.Second: "59s", time.Minute: "1m00s",
		192 * time.Second: "3m12s", time.Hour: "1h00m", 5*time.Hour + 7*time.Minute: "5h07m",
		48*time.Hour - 1: "47h59m", 76 * time.Hour: "3d4h", 72*time.Hour + 59*time.Minute: "3d", 365 * 24 * time.Hour: "365d",
	} {
		if got := humane(d); got != want {
			t.Errorf("humane(%v) = %q, want %q", d, got, want)
		}
	}
}

// TestExact: a duration is spelled in the shortest way that reads back as itself.
func TestExact(t *testing.T) {
	for d, want := range map[time.Duration]string{
		2 * time.Hour: "2h", 90 * time.Minute: "1h30m", 90 * time.Second: "1m30s", 45 * time.Second: "45s", time.Minute: "1m",
		10 * time.Minute: "10m", 20 * time.Hour: "20h", time.Hour + time.Second: "1h0m1s", 1500 * time.Millisecond: "1.5s",
	} {
		got := exact(d)
		if back, err := time.ParseDuration(got); got != want || back != d {
			t.Errorf("exact(%v) = %q, which is %v, %v; want %q", d, got, back, err, want)
		}
	}
}

// TestTable: columns are as wide as a terminal shows them.
func TestTable(t *testing.T) {
	got := table([][]string{{"ID", "WHO"}, {"日本", "x"}, {"e\u0301", ""}, {"longer", "y"}})
	want := "ID      WHO\n日本    x\ne\u0301\nlonger  y\n"
	if got != want {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}

func TestPlain(t *testing.T) {
	if got, want := plain("a\x1b[2Jb\u202ec\nd é日"), "a\ufffd[2Jb\ufffdc\ufffdd é日"; got != want {
		t.Errorf("plain = %q, want %q", got, want)
	}
}

func TestCountsLine(t *testing.T) {
	all := blobindex.Counts{
		Live: 37, Shown: 8, BeyondCap: 29, Unresolved: 1, Foreign: 2, BornLate: 3, Superseded: 4, Stale: 5,
	}
	want := "8 of 37 shown · 1 not resolved · 4 superseded · 5 stale · 3 born late · 2 foreign"
	if got := countsLine(all); got != want {
		t.Errorf("countsLine = %q, want %q", got, want)
	}
}
