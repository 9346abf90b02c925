package probe_test

import (
	"testing"

	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/probe"
	"github.com/blobindex/indexd/fakes"
)

// plain is a store without what its driver offers beside its contract.
type plain struct {
	*fakes.Counter
	cas.Store
}

// TestRemembered: a verdict is told without trying anything, where there is one. It can be found out through a store that hides
// what its driver offers, which is then looked for in the driver.
func TestRemembered(t *testing.T) {
	mem := membucket.New(nil)
	count := fakes.NewCounter(mem)
	store := plain{count, mem}
	if v, ok := probe.Remembered(t.Context(), store); ok {
		t.Errorf("of nothing: %+v", v)
	}
	quoter := &quotes{}
	site := probe.Site{Name: "x", Objects: store, Store: store, Extra: quoter}
	found, err := probe.UsableAt(t.Context(), site, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := probe.UsableAt(t.Context(), site, nil); err != nil || !quoter.asked {
		t.Fatalf("by what is remembered: %v; the driver was told how: %t", err, quoter.asked)
	}
	count.Reset()
	v, ok := probe.Remembered(t.Context(), store)
	if !ok || v.Err() != nil || !v.At.Equal(found.At) || !v.Usable {
		t.Errorf("%+v, %t, %v", v, ok, v.Err())
	}
	if n := count.Reset(); n != (fakes.Counts{}) {
		t.Errorf("it took %v beside the document", n)
	}
}

type quotes struct{ asked bool }

func (q *quotes) UnquotedIfMatch(bool) { q.asked = true }
