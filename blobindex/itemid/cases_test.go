package itemid_test

import (
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/itemid"
)

func TestCase_C15_epochs(t *testing.T) {
	for _, c := range []struct {
		part string
		want string // the time, or empty if the part does not parse
	}{
		{"", ""}, {"0", ""}, {"-1", ""}, {"+1", ""}, {"1e9", ""}, {" 1", ""}, {"NaN", ""}, {"0x65535300", ""},
		{"-170000000", ""}, {"+170000000", ""}, {" 170000000", ""}, {"170000000 ", ""}, {"1700000e03", ""},
		{"17000000.0", ""}, {"1,70000000", ""}, {"170000000\x00", ""}, {"170000000/", ""}, {"170000000:", ""},
		{"１７００００００００", ""}, {"١٧٠٠٠٠٠٠٠٠", ""}, {"170000000²", ""}, {"170000000０", ""},
		{"-170000000000", ""}, {"+170000000000", ""}, {"-1700000000000", ""}, {"-170000000000000000", ""},
		{"170000000", ""}, {"17000000000", ""}, {"170000000000", ""}, {"17000000000000", ""},
		{"170000000000000", ""}, {"17000000000000000", ""}, {"170000000000000000", ""},
		{"17000000000000000000", ""}, {"18446744073709551616", ""}, {"18446744075409551616", ""},
		{"170000000000000000000000000000", ""}, {strings.Repeat("9", 180), ""},

		{"0000000000", "1970-01-01T00:00:00Z"},
		{"0000000001", "1970-01-01T00:00:01Z"},
		{"0000000000001", "1970-01-01T00:00:00.001Z"},
		{"0000000000000001", "1970-01-01T00:00:00.000001Z"},
		{"0000000000000000001", "1970-01-01T00:00:00.000000001Z"},
		{"0000001700000000123", "1970-01-01T00:28:20.000000123Z"},
		{"1700000000", "2023-11-14T22:13:20Z"},
		{"1700000000123", "2023-11-14T22:13:20.123Z"},
		{"1700000000123456", "2023-11-14T22:13:20.123456Z"},
		{"1700000000123456789", "2023-11-14T22:13:20.123456789Z"},
		{"2147483647", "2038-01-19T03:14:07Z"}, // 2^31 - 1
		{"2147483648", "2038-01-19T03:14:08Z"},
		{"2147483649", "2038-01-19T03:14:09Z"},
		{"4294967296", "2106-02-07T06:28:16Z"},
		{"9223372036", "2262-04-11T23:47:16Z"}, // the last second within int64 nanoseconds
		{"9223372037", "2262-04-11T23:47:17Z"},
		{"9999999999", "2286-11-20T17:46:39Z"},
		{"9999999999999", "2286-11-20T17:46:39.999Z"},
		{"9999999999999999", "2286-11-20T17:46:39.999999Z"},
		{"9223372036854775806", "2262-04-11T23:47:16.854775806Z"},
		{"9223372036854775807", "2262-04-11T23:47:16.854775807Z"}, // 2^63 - 1
		{"9223372036854775808", ""},
		{"9223372036854775809", ""},
		{"9999999999999999999", ""},
	} {
		text := "k_" + c.part
		if c.want == "" {
			wantRefused(t, itemid.Epoch, text)
			continue
		}
		id := mustParse(t, itemid.Epoch, text)
		if id.String() != text || id.Subkey() != "k" || format(id.Time()) != c.want || id.Time().Location() != time.UTC {
			t.Errorf("%s: got %s, %s, %s; want %s", text, id, id.Subkey(), id.Time(), c.want)
		}
	}
}

// bareCase is a time part and its time, or empty if the part does not parse.
type bareCase struct{ part, want string }

// wantBare checks the cases in the bare grammar and, behind a sub-key, in the other one.
func wantBare(t *testing.T, bare, withSubkey itemid.Grammar, cases []bareCase) {
	t.Helper()
	for _, c := range cases {
		if c.want == "" {
			wantRefused(t, bare, c.part)
			wantRefused(t, withSubkey, "a_b_"+c.part)
			continue
		}
		id := mustParse(t, bare, c.part)
		if id.String() != c.part || id.Subkey() != c.part || format(id.Time()) != c.want {
			t.Errorf("%s: got %s, %s, %s; want %s", bare, id, id.Subkey(), id.Time(), c.want)
		}
		id = mustParse(t, withSubkey, "a_b_"+c.part)
		if id.String() != "a_b_"+c.part || id.Subkey() != "a_b" || format(id.Time()) != c.want {
			t.Errorf("%s: got %s, %s, %s; want %s", withSubkey, id, id.Subkey(), id.Time(), c.want)
		}
		wantRefused(t, bare, "a_"+c.part)
		wantRefused(t, bare, "_"+c.part)
		wantRefused(t, withSubkey, c.part)
		wantRefused(t, withSubkey, "_"+c.part)
		wantRefused(t, withSubkey, "a_"+c.part+"_")
		wantRefused(t, withSubkey, "a_"+c.part+" ")
		wantRefused(t, itemid.Epoch, "a_"+c.part)
	}
}

func TestCase_C15_ulids(t *testing.T) {
	wantBare(t, itemid.ULID, itemid.SubkeyULID, []bareCase{
		{aULID, "2023-11-14T22:13:20Z"},
		{"00000000000000000000000000", "1970-01-01T00:00:00Z"},
		{"0000000001ZZZZZZZZZZZZZZZZ", "1970-01-01T00:00:00.001Z"},
		{"7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "10889-08-02T05:31:50.655Z"},
		{"8ZZZZZZZZZZZZZZZZZZZZZZZZZ", ""},
		{"80000000000000000000000000", ""},
		{"ZZZZZZZZZZZZZZZZZZZZZZZZZZ", ""},
		{strings.ToLower(aULID), ""},
		{"7zzzzzzzzzzzzzzzzzzzzzzzzz", ""},
		{aULID[:25] + "a", ""},
		{aULID[:25] + "I", ""}, {aULID[:25] + "L", ""}, {aULID[:25] + "O", ""}, {aULID[:25] + "U", ""},
		{"O" + aULID[1:], ""}, {aULID[:25], ""}, {aULID + "0", ""}, {aULID[:24] + "é", ""}, {"", ""},
	})
}

func TestCase_C15_uuids(t *testing.T) {
	wantBare(t, itemid.UUIDv7, itemid.SubkeyUUIDv7, []bareCase{
		{aUUID, "2022-02-22T19:22:22Z"}, // RFC 9562, appendix A.6
		{"00000000-0000-7000-8000-000000000000", "1970-01-01T00:00:00Z"},
		{"00000000-0001-7fff-bfff-ffffffffffff", "1970-01-01T00:00:00.001Z"},
		{"ffffffff-ffff-7fff-bfff-ffffffffffff", "10889-08-02T05:31:50.655Z"},
		{"017f22e2-79b0-7cc3-78c4-dc0c0c07398f", ""}, // variant of NCS
		{"017f22e2-79b0-7cc3-c8c4-dc0c0c07398f", ""}, // variant of Microsoft
		{"017f22e2-79b0-7cc3-e8c4-dc0c0c07398f", ""}, // variant kept for the future
		{"017f22e2-79b0-1cc3-98c4-dc0c0c07398f", ""}, {"017f22e2-79b0-4cc3-98c4-dc0c0c07398f", ""},
		{"017f22e2-79b0-6cc3-98c4-dc0c0c07398f", ""}, {"017f22e2-79b0-8cc3-98c4-dc0c0c07398f", ""},
		{"00000000-0000-0000-0000-000000000000", ""}, {"ffffffff-ffff-ffff-ffff-ffffffffffff", ""},
		{strings.ToUpper(aUUID), ""}, {aUUID[:35] + "F", ""},
		{"{" + aUUID + "}", ""}, {"x" + aUUID + "y", ""}, {"urn:uuid:" + aUUID, ""},
		{strings.ReplaceAll(aUUID, "-", ""), ""}, {strings.ReplaceAll(aUUID, "-", ":"), ""},
		{aUUID[:35], ""}, {aUUID + "0", ""}, {aUUID[:35] + "g", ""}, {aUUID[:34] + "é", ""},
	})
}

func TestCase_C15_ksuids(t *testing.T) {
	wantBare(t, itemid.KSUID, itemid.SubkeyKSUID, []bareCase{
		{aKSUID, "2017-10-10T04:00:47Z"},
		{"000000000000000000000000000", "2014-05-13T16:53:20Z"},
		{"aWgEPTl1tmebfsQzFP4bxwgy80V", "2150-06-19T23:21:35Z"},
		{"aWgEPTl1tmebfsQzFP4bxwgy80W", ""},
		{"aWgEPTl1tmebfsQzFP4bxwgy81V", ""}, {"bWgEPTl1tmebfsQzFP4bxwgy80V", ""}, {"zzzzzzzzzzzzzzzzzzzzzzzzzzz", ""},
		{aKSUID[:26], ""}, {aKSUID + "0", ""}, {"0" + aKSUID, ""}, {aKSUID[:26] + "-", ""}, {aKSUID[:26] + "=", ""},
		{aKSUID[:26] + "{", ""}, {"@" + aKSUID[1:], ""}, {"[" + aKSUID[1:], ""}, {aKSUID[:25] + "é", ""}, {"", ""},
	})
}

// What bytes other than digits and letters decode to in the library must not matter at any place.
func TestCase_C15_noStrayByteInATimePart(t *testing.T) {
	for c := range 256 {
		b := byte(c)
		for g, part := range map[itemid.Grammar]string{
			itemid.Epoch: "k_1700000000", itemid.ULID: aULID, itemid.UUIDv7: aUUID, itemid.KSUID: aKSUID,
		} {
			for i := range part {
				text := part[:i] + string([]byte{b}) + part[i+1:]
				_, err := g.Parse(text)
				if want := oracle(g, text) != nil; (err == nil) != want {
					t.Errorf("%s %q: parses: %t, want %t (%v)", g, text, err == nil, want, err)
				}
			}
		}
	}
}

func TestCase_C40_separators(t *testing.T) {
	for _, c := range []struct {
		text, subkey string // no sub-key: does not parse
		sec          int64
	}{
		{"ab_cd_1700000000", "ab_cd", 1700000000},
		{"_1700000000", "", 0},
		{"1700000000", "", 0},
		{"ab__1700000000", "ab_", 1700000000},
		{"1700000000_1700000001", "1700000000", 1700000001},
		{"x_1700000000_ab", "", 0},
		{"__1700000000", "_", 1700000000},
		{"_a_1700000000", "_a", 1700000000},
		{"_", "", 0}, {"__", "", 0}, {"a_", "", 0}, {"a_1700000000_", "", 0}, {"a-1700000000", "", 0},
		{"a\u02cd1700000000", "", 0}, {"a＿1700000000", "", 0}, // other low lines are no separators
		{"a＿b_1700000000", "a＿b", 1700000000},
		{"A_1700000000", "A", 1700000000}, {"a _1700000000", "a ", 1700000000}, {"e\u0301_1700000000", "e\u0301", 1700000000},
	} {
		if c.subkey == "" {
			wantRefused(t, itemid.Epoch, c.text)
			continue
		}
		id := mustParse(t, itemid.Epoch, c.text)
		if id.String() != c.text || id.Subkey() != c.subkey || id.Time().Unix() != c.sec {
			t.Errorf("%q: got %q, %q, %s", c.text, id, id.Subkey(), id.Time())
		}
	}
}

// Writer and reader share the parser: what was minted splits back into what it was minted from.
func TestCase_C40_mintedSubkeysComeBackVerbatim(t *testing.T) {
	at := time.UnixMilli(1700000000123)
	for _, g := range []itemid.Grammar{itemid.Epoch, itemid.SubkeyULID, itemid.SubkeyUUIDv7, itemid.SubkeyKSUID} {
		for _, subkey := range []string{"ab_cd", "_", "ab_", "1700000000", "x_1700000000", aULID, "a_" + aUUID, " é\u2028"} {
			id, err := g.Mint(subkey, at, nil)
			if err != nil {
				t.Errorf("%s: %v", g, err)
			} else if back := mustParse(t, g, id.String()); back != id || id.Subkey() != subkey {
				t.Errorf("%s: sub-key %q came back as %q", g, subkey, back.Subkey())
			}
		}
	}
}

func TestCase_C39_emptyIDs(t *testing.T) {
	for _, g := range append(grammars, unknownGrammar) {
		for _, text := range []string{"", "/", " ", ".", "..", "_", "~", "\x00", "\u00a0"} {
			wantRefused(t, g, text)
		}
		if got := wantRefused(t, g, "").Reason; g != unknownGrammar && !strings.Contains(got, "empty") {
			t.Errorf("%s: the empty id is refused because %s", g, got)
		}
	}
	for _, g := range []itemid.Grammar{itemid.Epoch, itemid.SubkeyULID, itemid.SubkeyUUIDv7, itemid.SubkeyKSUID} {
		if id, err := g.Mint("", time.UnixMilli(1700000000000), nil); err == nil {
			t.Errorf("%s: minted %q without a sub-key", g, id)
		}
	}
}

// What needs care in a URL is plain in an id, so that seven spellings are seven items.
func TestCase_C27_reservedCharactersAreVerbatim(t *testing.T) {
	seen := map[string]bool{}
	for _, subkey := range []string{"a+b", "a b", "a%2Bb", "a%252F", "a&b", "a?x", "a#y"} {
		seen[mustParse(t, itemid.Epoch, subkey+"_1700000000").Subkey()] = true
	}
	if len(seen) != 7 {
		t.Errorf("got %d sub-keys: %v", len(seen), seen)
	}
}
