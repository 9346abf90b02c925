package itemid_test

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/blobindex/indexd/blobindex/itemid"
)

func genGrammar() *rapid.Generator[itemid.Grammar] { return rapid.SampledFrom(grammars) }

// genMinted draws an id of g that Mint made, with a sub-key of characters that every id may hold.
func genMinted(g itemid.Grammar) *rapid.Generator[itemid.ID] {
	return rapid.Custom(func(t *rapid.T) itemid.ID {
		subkey := ""
		if subkeyFor(g) != "" {
			subkey = rapid.StringMatching(`[a-zA-Z0-9_é日 %+-][a-zA-Z1-9_.é日 %+-]{0,20}`).Draw(t, "subkey")
		}
		// From 2018 on a KSUID never starts with "0x": see TestMint_escapeAcrossTheSplit.
		ms := rapid.Int64Range(1_514_764_800_000, 5_000_000_000_000).Draw(t, "ms")
		at := time.UnixMilli(ms).Add(time.Duration(rapid.Int64Range(0, 999_999).Draw(t, "ns")))
		random := rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "random")
		random[0] &= 0x7f // a fair number at the first draw
		id, err := g.Mint(subkey, at, bytes.NewReader(random))
		if err != nil {
			t.Fatal(err)
		}
		return id
	})
}

func TestProperty_mintedIDsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := genGrammar().Draw(t, "grammar")
		subkey := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z_]{0,190}`), rapid.Just("")).Draw(t, "subkey")
		if subkeyFor(g) == "" {
			subkey = ""
		}
		at := time.Unix(rapid.Int64().Draw(t, "sec")>>rapid.IntRange(0, 63).Draw(t, "shift"), rapid.Int64().Draw(t, "nsec"))
		checkMint(t, g, subkey, at, bytes.NewReader(rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "random")))
	})
}

// Whatever one byte of an id is turned into, Parse agrees with the oracle about the result.
func TestProperty_oneMutatedByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := genGrammar().Draw(t, "grammar")
		id := genMinted(g).Draw(t, "id")
		b := []byte(id.String())
		i := rapid.IntRange(0, len(b)-1).Draw(t, "at")
		switch rapid.IntRange(0, 2).Draw(t, "mutation") {
		case 0:
			b[i] = rapid.Byte().Draw(t, "byte")
		case 1:
			b = append(b[:i:i], b[i+1:]...)
		case 2:
			b = append(append(b[:i:i], rapid.Byte().Draw(t, "byte")), b[i:]...)
		}
		for _, g := range grammars {
			checkParse(t, g, string(b))
		}
	})
}

func TestProperty_anyString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(
			rapid.String(),
			rapid.StringMatching(`[a_]{0,3}_?[0-9]{8,20}`),
			rapid.StringMatching(`[a_]{0,3}_?[0-9A-Za-z]{25,28}`),
			rapid.StringMatching(`[a_]{0,3}_?[0-9a-f]{8}-[0-9a-f]{4}-[4-8][0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`),
		).Draw(t, "s")
		for _, g := range grammars {
			checkParse(t, g, s)
		}
	})
}

// Compare is an order that agrees with the times.
func TestProperty_compare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := genGrammar().Draw(t, "grammar")
		ids := rapid.SliceOfN(genMinted(g), 3, 3).Draw(t, "ids")
		a, b, c := ids[0], ids[1], ids[2]
		if a.Compare(b) != -b.Compare(a) || a.Compare(a) != 0 || (a.Compare(b) == 0) != (a == b) {
			t.Errorf("%s and %s: %d and %d", a, b, a.Compare(b), b.Compare(a))
		}
		if a.Compare(b) <= 0 && b.Compare(c) <= 0 && a.Compare(c) > 0 {
			t.Errorf("%s, %s, %s do not stand in order", a, b, c)
		}
		if byTime := a.Time().Compare(b.Time()); byTime != 0 && byTime != a.Compare(b) {
			t.Errorf("%s and %s: times say %d", a, b, byTime)
		}
	})
}
