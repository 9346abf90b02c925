package gocloudbucket_test

import (
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"gocloud.dev/blob/memblob"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket/gocloudbucket"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/prune/janitor"
)

// TestIndex registers, shows, finishes and prunes over memblob.
func TestIndex(t *testing.T) {
	b := adapt(t, memblob.OpenBucket(nil), gocloudbucket.Options{})
	n := team(t, b, time.Now)
	first, second := register(t, n, "first", 2*time.Second), register(t, n, "second", time.Second)
	wantCards(t, n, second, first)
	if list, err := n.List(t.Context()); err != nil || len(list.Items) != 2 || list.Clock != blobindex.HostClock {
		t.Errorf("List: %+v, %v, want two items by the host's clock", list, err)
	}
	beat, err := n.Heartbeat(t.Context(), first)
	if err != nil || !beat.Stored.IsZero() {
		t.Errorf("Heartbeat: %+v, %v, want no store time", beat, err)
	}
	if _, err := n.Finish(t.Context(), second, blobindex.Done); err != nil {
		t.Fatal(err)
	}
	wantCards(t, n, first)
	recent, err := n.Recent(t.Context())
	if err != nil || len(recent.Items) != 1 || recent.Items[0].ID != second.String() || recent.Items[0].EndedAt.IsZero() {
		t.Errorf("Recent: %+v, %v, want %s with the time of its end", recent, err, second)
	}
	if names, _, err := n.Index().Namespaces(t.Context()); err != nil || !slices.Equal(names, []string{"team"}) {
		t.Errorf("Namespaces: %q, %v", names, err)
	}
}

// TestIndexPrunes: nothing is pruned by the host's clock, unless an object that is written shows that it is right.
func TestIndexPrunes(t *testing.T) {
	for what, tt := range map[string]struct {
		ahead time.Duration
		prune bool
	}{"clocks agree": {0, true}, "host three hours ahead": {3 * time.Hour, false}} {
		t.Run(what, func(t *testing.T) {
			b := adapt(t, memblob.OpenBucket(nil), gocloudbucket.Options{})
			n := team(t, b, func() time.Time { return time.Now().Add(tt.ahead) })
			old := mint(t, "cfg", time.Now().Add(tt.ahead-110*time.Minute))
			newer := mint(t, "cfg", time.Now().Add(tt.ahead-100*time.Minute))
			put(t, b, "_active_runs/team/"+old.String(), "_active_runs/team/"+newer.String())
			report, err := janitor.New(n.Index(), nil).Run(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			keys := list(t, b, "")
			if tt.prune && (report.Withheld != "" || !slices.Equal(keys, []string{"_active_runs/team/" + newer.String()})) {
				t.Errorf("withheld: %q, left %q, want only the newer one", report.Withheld, keys)
			}
			if !tt.prune && (report.Withheld == "" || len(keys) != 2) {
				t.Errorf("withheld: %q, left %q, want both", report.Withheld, keys)
			}
		})
	}
}

func mint(t *testing.T, subkey string, at time.Time) itemid.ID {
	t.Helper()
	id, err := itemid.Epoch.Mint(subkey, at, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func team(t *testing.T, b *gocloudbucket.Bucket, now func() time.Time) *blobindex.Namespace {
	t.Helper()
	x, err := blobindex.New(b, blobindex.Config{}, &blobindex.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	n, err := x.Namespace("team")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func register(t *testing.T, n *blobindex.Namespace, subkey string, age time.Duration) itemid.ID {
	t.Helper()
	id := mint(t, subkey, time.Now().Add(-age))
	if r, err := n.Register(t.Context(), id, blobindex.Labels{"title": subkey}); err != nil || !r.Stored.IsZero() {
		t.Fatalf("Register: %+v, %v, want no store time", r, err)
	}
	return id
}

func wantCards(t *testing.T, n *blobindex.Namespace, ids ...itemid.ID) {
	t.Helper()
	v, err := n.Cards(t.Context(), blobindex.CardsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, c := range v.Cards {
		got = append(got, c.ID)
	}
	for _, id := range ids {
		want = append(want, id.String())
	}
	if !slices.Equal(got, want) {
		t.Fatalf("cards are %q, want %q", got, want)
	}
}
