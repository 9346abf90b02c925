package itemid_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/blobindex/indexd/blobindex/itemid"
)

var grammars = []itemid.Grammar{
	itemid.Epoch, itemid.ULID, itemid.UUIDv7, itemid.KSUID,
	itemid.SubkeyULID, itemid.SubkeyUUIDv7, itemid.SubkeyKSUID,
}

const unknownGrammar = itemid.SubkeyKSUID + 1

// Time parts that are right in their grammars.
const (
	aULID  = "01HF7YAT00041061050R3GG28A"
	aUUID  = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"
	aKSUID = "0ujtsYcgvSTl8PAuAdqWYSMnLOv"
)

func mustParse(t rapid.TB, g itemid.Grammar, s string) itemid.ID {
	t.Helper()
	id, err := g.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// wantRefused fails unless g refuses s with an error that keeps the promises of Error.
func wantRefused(t rapid.TB, g itemid.Grammar, s string) *itemid.Error {
	t.Helper()
	id, err := g.Parse(s)
	if err == nil {
		t.Fatalf("%s: %q parsed: sub-key %q, time %s", g, s, id.Subkey(), id.Time())
	}
	if id != (itemid.ID{}) {
		t.Errorf("%s: %q: an error came with the id %v", g, s, id)
	}
	var refused *itemid.Error
	if !errors.As(err, &refused) || !errors.Is(err, itemid.ErrInvalid) {
		t.Fatalf("%s: %q: got error %T %v", g, s, err, err)
	}
	if refused.Grammar != g || refused.Reason == "" || len(refused.Excerpt) > 64 ||
		!strings.HasPrefix(s, refused.Excerpt) {
		t.Errorf("%s: %q: got %#v", g, s, refused)
	}
	if text := err.Error(); len(text) > 600 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		t.Errorf("%s: error text of %d bytes is not bounded printable ASCII: %q", g, len(text), text)
	}
	return refused
}

func TestGrammar_roundTrip(t *testing.T) {
	want := []string{"epoch", "ulid", "uuidv7", "ksuid", "subkey_ulid", "subkey_uuidv7", "subkey_ksuid"}
	for i, g := range grammars {
		if g.String() != want[i] {
			t.Errorf("got name %q, want %q", g, want[i])
		}
		if back, err := itemid.ParseGrammar(g.String()); err != nil || back != g {
			t.Errorf("%s: read back as %s, %v", g, back, err)
		}
	}
	if got := unknownGrammar.String(); got != "Grammar(7)" {
		t.Errorf("unknown grammar: got name %q", got)
	}
	for _, s := range []string{
		"", "Epoch", " epoch", "epoch ", "uuid", "subkey-ulid", "Grammar(7)", strings.Repeat("\n", 1e6),
	} {
		_, err := itemid.ParseGrammar(s)
		if err == nil {
			t.Errorf("%.20q is a grammar", s)
		} else if !strings.Contains(err.Error(), "subkey_uuidv7") || len(err.Error()) > 500 {
			t.Errorf("%.20q: unhelpful error of %d bytes: %.500s", s, len(err.Error()), err)
		}
	}
	for _, s := range []string{"a_1700000000", aULID} {
		if got := wantRefused(t, unknownGrammar, s).Reason; !strings.Contains(got, "unknown") {
			t.Errorf("an unknown grammar refuses because %s", got)
		}
	}
	if _, err := unknownGrammar.Mint("a", time.Unix(0, 0), nil); !errors.Is(err, itemid.ErrInvalid) {
		t.Errorf("minting in an unknown grammar: got %v", err)
	}
}

func TestZeroID(t *testing.T) {
	var id itemid.ID
	if !id.IsZero() || id.String() != "" || id.Subkey() != "" || !id.Time().IsZero() {
		t.Errorf("zero ID: got %q, %q, %s", id, id.Subkey(), id.Time())
	}
	if mustParse(t, itemid.Epoch, "a_0000000000").IsZero() {
		t.Error("a parsed id is zero")
	}
}

func TestCompare(t *testing.T) {
	// Oldest first; the last three have one time.
	sorted := []string{
		"z_0000000000", "z_1700000000", "y_1700000000000000001", "a_1700000000001", "z_1700000001",
		"b_9999999999", "b_9999999999000", "b_9999999999000000",
	}
	for i, a := range sorted {
		for j, b := range sorted {
			x, y := mustParse(t, itemid.Epoch, a), mustParse(t, itemid.Epoch, b)
			if got, want := x.Compare(y), min(1, max(-1, i-j)); got != want {
				t.Errorf("%s against %s: got %d, want %d", a, b, got, want)
			}
			if (x == y) != (i == j) {
				t.Errorf("%s == %s: got %t", a, b, x == y)
			}
		}
	}
	ids := []string{"b_1700000000", "a_1700000000"}
	slices.SortFunc(ids, func(a, b string) int {
		return mustParse(t, itemid.Epoch, a).Compare(mustParse(t, itemid.Epoch, b))
	})
	if ids[0] != "a_1700000000" {
		t.Errorf("ties are not broken by id: %q", ids)
	}
}

func TestParse_everyIDsRule(t *testing.T) {
	good := []string{
		"a", " ", "a b", "_", "__", "__0", "_0x2f", "__0X2f", "__1x", "a.", "a..b", "-", "%2F", "%", "&?#+=", `\`, "*",
		"\"'<>", "^", "`", "{|}",
		"é", "日本", "\u00a0", "\u2028", "\u2029", "\u202e", "\ufeff", "\ufffd", "\ufffe", "\U0010ffff", "\U0001f600",
	}
	for _, subkey := range good {
		id := mustParse(t, itemid.Epoch, subkey+"_1700000000")
		if id.Subkey() != subkey || id.Time().Unix() != 1700000000 {
			t.Errorf("%s: got sub-key %q, time %s", id, id.Subkey(), id.Time())
		}
	}
	bad := []string{
		".", ".a", "..", "/", "a/b", "a//b", "../..", "~", "a~done", "__0x2f__", "a__0x", "___0x",
		"\x00", "\t", "\r\n", "\x1f", "\x7f", "\u0080", "\u0085", "\u009f",
		"\xff", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc2", "é\xa9",
	}
	for _, subkey := range bad {
		wantRefused(t, itemid.Epoch, subkey+"_1700000000")
		wantRefused(t, itemid.SubkeyULID, subkey+"_"+aULID)
		wantRefused(t, itemid.SubkeyUUIDv7, subkey+"_"+aUUID)
		wantRefused(t, itemid.SubkeyKSUID, subkey+"_"+aKSUID)
	}
	for _, junk := range []string{"/", "~", "\n", "\x00", "\x7f", "\u0085", "\xff", ".", " ", "__0x"} {
		for g, id := range map[itemid.Grammar]string{itemid.ULID: aULID, itemid.UUIDv7: aUUID, itemid.KSUID: aKSUID} {
			wantRefused(t, g, junk+id)
			wantRefused(t, g, id+junk)
			wantRefused(t, g, id[:5]+junk+id[5+len(junk):])
		}
	}
}

// The escape is looked for in the whole id, so also where a sub-key meets a KSUID.
func TestParse_escapeAcrossTheSplit(t *testing.T) {
	const ksuid = "0xtsYcgvSTl8PAuAdqWYSMnLOvA"
	mustParse(t, itemid.SubkeyKSUID, "a_"+ksuid)
	wantRefused(t, itemid.SubkeyKSUID, "a__"+ksuid)
}

func TestParse_length(t *testing.T) {
	for g, part := range map[itemid.Grammar]string{
		itemid.Epoch: "1700000000", itemid.SubkeyULID: aULID, itemid.SubkeyUUIDv7: aUUID, itemid.SubkeyKSUID: aKSUID,
	} {
		part = "_" + part
		longest := strings.Repeat("é", itemid.MaxLen)[:(itemid.MaxLen-len(part))/2*2]
		longest += strings.Repeat("x", itemid.MaxLen-len(part)-len(longest))
		if id := mustParse(t, g, longest+part); len(id.String()) != 200 || id.Subkey() != longest {
			t.Errorf("%s: got %d bytes, sub-key %q", g, len(id.String()), id.Subkey())
		}
		wantRefused(t, g, "x"+longest+part)
		wantRefused(t, g, strings.Repeat("\x01é", 1e6)+part)
	}
}

// A caller that prints or stores the error of a hostile key gets a bounded part of it and keeps none of the rest.
func TestError_excerpt(t *testing.T) {
	for given, want := range map[string]string{
		"short":                           "short",
		strings.Repeat("a", 64):           strings.Repeat("a", 64),
		strings.Repeat("a", 65):           strings.Repeat("a", 64),
		strings.Repeat("a", 63) + "é":     strings.Repeat("a", 63),
		strings.Repeat("a", 61) + "😀":     strings.Repeat("a", 61),
		strings.Repeat("\x80", 100):       strings.Repeat("\x80", 60),
		strings.Repeat("\u202e\u2028", 9): strings.Repeat("\u202e\u2028", 9),
	} {
		if got := wantRefused(t, itemid.Epoch, given).Excerpt; got != want {
			t.Errorf("%q: got excerpt %q", given, got)
		}
	}
}

func TestParse_allocates(t *testing.T) {
	for g, s := range map[itemid.Grammar]string{
		itemid.Epoch: "9f3c0a_1700000000123456789", itemid.ULID: aULID, itemid.KSUID: aKSUID,
		itemid.SubkeyULID: "é_" + aULID, itemid.SubkeyKSUID: "é_" + aKSUID,
		itemid.UUIDv7: aUUID, itemid.SubkeyUUIDv7: "é_" + aUUID,
	} {
		var id itemid.ID
		var subkey string
		var at time.Time
		allocs := testing.AllocsPerRun(100, func() {
			id, _ = g.Parse(s)
			subkey, at = id.Subkey(), id.Time()
		})
		// The library writes a UUID back as a new string; nothing else allocates.
		limit := 0.0
		if g == itemid.UUIDv7 || g == itemid.SubkeyUUIDv7 {
			limit = 1
		}
		if allocs > limit || id.String() != s || subkey == "" || at.IsZero() {
			t.Errorf("%s: %v allocations", g, allocs)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for _, bench := range []struct {
		name string
		g    itemid.Grammar
		text string
	}{
		{"epoch_26", itemid.Epoch, "9f3c0a_1700000000123456789"},
		{"epoch_84", itemid.Epoch, strings.Repeat("9f3c0a7e", 8) + "_1700000000123456789"},
		{"ulid", itemid.ULID, aULID},
		{"uuidv7", itemid.UUIDv7, aUUID},
		{"ksuid", itemid.KSUID, aKSUID},
		{"refused", itemid.Epoch, "9f3c0a_170000000012345678x"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = bench.g.Parse(bench.text)
			}
		})
	}
}
