package itemid_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/blobindex/indexd/blobindex/itemid"
)

// FuzzParse holds Parse to its contract and to the oracle, in every grammar and an unknown one.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "_", "/", ".", "~", "a_1700000000", "a_b_1700000000123", "a_1700000000123456", "a_1700000000123456789",
		"a_9999999999", "a_9223372036854775807", "a_9223372036854775808", "a_0000000000", "_1700000000",
		"a__1700000000",
		"a_-170000000", "a_１７００００００００", "1700000000_1700000001", "x_1700000000_ab", "a__0x2f___1700000000",
		"a\x00_1700000000", "a\u0085_1700000000", "a\u2028_1700000000", "a\xff_1700000000", "a~done_1700000000",
		"é_1700000000",
		aULID, "a_" + aULID, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "8ZZZZZZZZZZZZZZZZZZZZZZZZZ", strings.ToLower(aULID),
		aUUID, "a_" + aUUID, "{" + aUUID + "}", "urn:uuid:" + aUUID, strings.ToUpper(aUUID),
		"ffffffff-ffff-7fff-bfff-ffffffffffff",
		aKSUID, "a_" + aKSUID, "aWgEPTl1tmebfsQzFP4bxwgy80V", "aWgEPTl1tmebfsQzFP4bxwgy80W", "a__0xtsYcgvSTl8PAuAdqWYSMnLOvA",
		strings.Repeat("a", 189) + "_1700000000", strings.Repeat("a", 190) + "_1700000000",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, g := range append(grammars, unknownGrammar) {
			checkParse(t, g, s)
		}
	})
}

func checkParse(t rapid.TB, g itemid.Grammar, s string) {
	t.Helper()
	want := oracle(g, s)
	if want == nil {
		wantRefused(t, g, s)
		return
	}
	id := mustParse(t, g, s)
	if id.String() != s || id.IsZero() || id.Subkey() == "" || !strings.HasPrefix(s, id.Subkey()) {
		t.Errorf("%s %q: got %q, sub-key %q", g, s, id, id.Subkey())
	}
	if id.Subkey() != want.subkey || id.Time() != want.at {
		t.Errorf("%s %q: got %q at %s, want %q at %s", g, s, id.Subkey(), id.Time(), want.subkey, want.at)
	}
	if year := id.Time().Year(); year < 1970 || year > 10889 {
		t.Errorf("%s %q: got year %d", g, s, year)
	}
	if again := mustParse(t, g, id.String()); again != id || again.Compare(id) != 0 {
		t.Errorf("%s %q: read again it is %v, not %v", g, s, again, id)
	}
}

// FuzzMintRoundTrip holds Mint to its contract for any sub-key, time and source of bytes.
func FuzzMintRoundTrip(f *testing.F) {
	source := []byte("0123456789abcdef0123456789abcdef")
	f.Add(uint8(0), "9f3c", int64(1700000000), int64(123456789), source)
	f.Add(uint8(0), "a_", int64(9223372036), int64(853999999), source)
	f.Add(uint8(0), "a", int64(9223372036), int64(854000000), source)
	f.Add(uint8(0), "a", int64(-1), int64(999999999), source)
	f.Add(uint8(0), "a", int64(1<<63-1), int64(0), source)
	f.Add(uint8(0), "a", int64(-1<<63), int64(0), source)
	f.Add(uint8(0), "a", int64(0), int64(0), bytes.Repeat([]byte{0xff}, 64))
	f.Add(uint8(1), "", int64(1700000000), int64(0), source)
	f.Add(uint8(1), "a", int64(1700000000), int64(0), source)
	f.Add(uint8(2), "", int64(281474976710), int64(655999999), source)
	f.Add(uint8(2), "", int64(281474976710), int64(656000000), source)
	f.Add(uint8(3), "", int64(1399999999), int64(999999999), source)
	f.Add(uint8(3), "", int64(1400000000+1<<32-1), int64(999999999), source)
	f.Add(uint8(4), "a/b", int64(1700000000), int64(0), source)
	f.Add(uint8(5), strings.Repeat("k", 163), int64(1700000000), int64(0), source)
	f.Add(uint8(6), "a_", int64(1511500000), int64(0), source)
	f.Add(uint8(7), "a", int64(1700000000), int64(0), source)
	f.Fuzz(func(t *testing.T, n uint8, subkey string, sec, nsec int64, random []byte) {
		checkMint(t, itemid.Grammar(n), subkey, time.Unix(sec, nsec), bytes.NewReader(random))
	})
}

func checkMint(t rapid.TB, g itemid.Grammar, subkey string, at time.Time, random io.Reader) {
	t.Helper()
	id, err := g.Mint(subkey, at, random)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return
	case err != nil && strings.Contains(err.Error(), "not random"):
		return
	case err != nil:
		if id != (itemid.ID{}) || !errors.Is(err, itemid.ErrInvalid) || len(err.Error()) > 600 {
			t.Errorf("%s: minting for %q at %s: got %v, %v", g, subkey, at, id, err)
		}
		return
	}
	bare := g == itemid.ULID || g == itemid.UUIDv7 || g == itemid.KSUID
	if bare && (subkey != "" || id.Subkey() != id.String()) || !bare && id.Subkey() != subkey {
		t.Errorf("%s: minted %s of sub-key %q for %q", g, id, id.Subkey(), subkey)
	}
	unit := time.Millisecond
	if g == itemid.KSUID || g == itemid.SubkeyKSUID {
		unit = time.Second
	}
	got, want := id.Time(), at.UTC().Truncate(unit)
	if !got.Truncate(unit).Equal(want) || g != itemid.Epoch && !got.Equal(want) {
		t.Errorf("%s: minted %s at %s for %s", g, id, got, at)
	}
	checkParse(t, g, id.String())
}
