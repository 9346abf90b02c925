package itemid_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/blobindex/indexd/blobindex/itemid"
)

// subkeyFor returns a sub-key that g can be minted with.
func subkeyFor(g itemid.Grammar) string {
	if g == itemid.ULID || g == itemid.UUIDv7 || g == itemid.KSUID {
		return ""
	}
	return "9f3c"
}

func TestMint_spelling(t *testing.T) {
	at := time.Unix(1700000000, 123999999).In(time.FixedZone("elsewhere", 3600))
	source := "\x00\x01\xe2\x40\x04\x05\x86\x07\xff\x09\x0a\x0b\x0c\x0d\x0e\x0f"
	for g, want := range map[itemid.Grammar]string{
		itemid.Epoch:        "9f3c_1700000000123123456",
		itemid.ULID:         "01HF7YAT3V000Y4G040P30FZR9",
		itemid.UUIDv7:       "018bcfe5-687b-7001-a240-04058607ff09",
		itemid.KSUID:        "2YBXZHqD8buxRW6sLZeVbJvzxwF",
		itemid.SubkeyULID:   "9f3c_01HF7YAT3V000Y4G040P30FZR9",
		itemid.SubkeyUUIDv7: "9f3c_018bcfe5-687b-7001-a240-04058607ff09",
		itemid.SubkeyKSUID:  "9f3c_2YBXZHqD8buxRW6sLZeVbJvzxwF",
	} {
		id, err := g.Mint(subkeyFor(g), at, iotest.OneByteReader(strings.NewReader(source)))
		if err != nil || id.String() != want {
			t.Errorf("%s: got %s, %v; want %s", g, id, err, want)
		}
		checkMint(t, g, subkeyFor(g), at, strings.NewReader(source))
	}
}

func TestMint_subkeys(t *testing.T) {
	at := time.UnixMilli(1700000000000)
	for _, g := range grammars {
		refused := []string{"a/b", "a~b", ".a", "a\nb", "\xff", "__0x", strings.Repeat("k", 200), strings.Repeat("\n", 1e6)}
		if subkeyFor(g) == "" {
			refused = append(refused, "a")
		} else {
			refused = append(refused, "")
		}
		for _, subkey := range refused {
			// No randomness is spent on what cannot be minted.
			source := strings.NewReader(strings.Repeat("x", 32))
			id, err := g.Mint(subkey, at, source)
			var why *itemid.Error
			if !errors.As(err, &why) || !errors.Is(err, itemid.ErrInvalid) || !id.IsZero() {
				t.Errorf("%s: minted %q for %.20q: %v", g, id, subkey, err)
			} else if len(subkey) < 200 && source.Len() != 32 {
				t.Errorf("%s: read %d bytes of randomness for %.20q", g, 32-source.Len(), subkey)
			}
		}
	}
	longest := map[itemid.Grammar]int{
		itemid.Epoch: 180, itemid.SubkeyULID: 173, itemid.SubkeyUUIDv7: 163, itemid.SubkeyKSUID: 172,
	}
	for g, n := range longest {
		if id, err := g.Mint(strings.Repeat("k", n), at, nil); err != nil || len(id.String()) != itemid.MaxLen {
			t.Errorf("%s: sub-key of %d bytes: got %s, %v", g, n, id, err)
		}
		if _, err := g.Mint(strings.Repeat("k", n+1), at, nil); !errors.Is(err, itemid.ErrInvalid) {
			t.Errorf("%s: sub-key of %d bytes: got %v", g, n+1, err)
		}
	}
}

// In December 2017 a KSUID starts with "0x", which a sub-key that ends in "_" turns into the escape.
func TestMint_escapeAcrossTheSplit(t *testing.T) {
	at := time.Date(2017, 12, 10, 0, 0, 0, 0, time.UTC)
	id, err := itemid.SubkeyKSUID.Mint("a", at, nil)
	if err != nil || !strings.HasPrefix(id.String(), "a_0x") {
		t.Fatalf("got %s, %v; want a_0x…", id, err)
	}
	if id, err := itemid.SubkeyKSUID.Mint("a_", at, nil); !errors.Is(err, itemid.ErrInvalid) {
		t.Errorf("minted %s: %v", id, err)
	}
}

func TestMint_times(t *testing.T) {
	const year10889 = 1<<48 - 1
	ranges := map[itemid.Grammar]struct{ first, last int64 }{ // milliseconds from 1970 on
		itemid.Epoch:        {0, 9223372036853},
		itemid.ULID:         {0, year10889},
		itemid.UUIDv7:       {0, year10889},
		itemid.KSUID:        {1400000000000, (1400000000+math.MaxUint32)*1000 + 999},
		itemid.SubkeyULID:   {0, year10889},
		itemid.SubkeyUUIDv7: {0, year10889},
		itemid.SubkeyKSUID:  {1400000000000, (1400000000+math.MaxUint32)*1000 + 999},
	}
	// The bytes that give the largest random part: 999,999 for Epoch.
	largest := []byte("\xff\xf1\x3d\x7f" + strings.Repeat("\xff", 12))
	for _, g := range grammars {
		first, last := time.UnixMilli(ranges[g].first), time.UnixMilli(ranges[g].last).Add(time.Millisecond-1)
		for _, at := range []time.Time{first, first.Add(1), last, last.Add(-1)} {
			if _, err := g.Mint(subkeyFor(g), at, bytes.NewReader(largest)); err != nil {
				t.Errorf("%s at %s: %v", g, at, err)
			}
			checkMint(t, g, subkeyFor(g), at, bytes.NewReader(largest))
		}
		for _, at := range []time.Time{
			first.Add(-1), last.Add(1), {}, time.Unix(math.MaxInt64, 0), time.Unix(math.MinInt64, 0),
			time.Unix(math.MaxInt64/1000, 0), time.Unix(math.MaxInt64-62135596801, 999999999), time.UnixMilli(math.MinInt64),
		} {
			if id, err := g.Mint(subkeyFor(g), at, nil); !errors.Is(err, itemid.ErrInvalid) {
				t.Errorf("%s: minted %s, %s for %s: %v", g, id, id.Time(), at, err)
			}
		}
	}
}

func TestMint_epochDigitsAreUnbiased(t *testing.T) {
	at := time.UnixMilli(1700000000000)
	for source, want := range map[string]int{
		"\x00\x00\x00\x00": 0,
		"\x00\x0f\x42\x3f": 999999,
		"\x00\x0f\x42\x40": 0,
		// 4,293,999,999 is the last number that is taken; 4,294,000,000 and above are drawn again.
		"\xff\xf1\x3d\x7f":                                 999999,
		"\xff\xf1\x3d\x80\x00\x00\x00\x07":                 7,
		"\xff\xff\xff\xff\xff\xf1\x3d\x80\x00\x00\x00\x08": 8,
	} {
		id, err := itemid.Epoch.Mint("a", at, strings.NewReader(source))
		if err != nil || id.Time().Nanosecond() != want {
			t.Errorf("%x: got %s, %v; want %d", source, id, err, want)
		}
	}
}

func TestMint_badRandomness(t *testing.T) {
	at := time.UnixMilli(1700000000000)
	broken := errors.New("broken")
	for _, g := range grammars {
		for name, c := range map[string]struct {
			source io.Reader
			want   error
		}{
			"empty":  {strings.NewReader(""), io.EOF},
			"short":  {strings.NewReader("abc"), io.ErrUnexpectedEOF},
			"broken": {iotest.ErrReader(broken), broken},
		} {
			id, err := g.Mint(subkeyFor(g), at, c.source)
			if !errors.Is(err, c.want) || errors.Is(err, itemid.ErrInvalid) || !id.IsZero() {
				t.Errorf("%s, %s: got %q, %v; want %v", g, name, id, err, c.want)
			}
		}
	}
	// A source that never gives a fair number must not hang us.
	endless := bytes.NewReader(bytes.Repeat([]byte{0xff}, 1<<20))
	id, err := itemid.Epoch.Mint("a", at, endless)
	if err == nil || errors.Is(err, itemid.ErrInvalid) || endless.Len() == 0 {
		t.Errorf("minted %s: %v with %d bytes left", id, err, endless.Len())
	}
}

// A nil source is a good one: ids of one sub-key and one millisecond differ. Of 50 random numbers below a million two
// are equal once in 800 runs, so equal ones are allowed up to a few; a constant is not.
func TestMint_nilRandomIsRandom(t *testing.T) {
	at := time.UnixMilli(1700000000000)
	for _, g := range grammars {
		seen := map[string]bool{}
		for range 50 {
			id, err := g.Mint(subkeyFor(g), at, nil)
			if err != nil {
				t.Fatal(err)
			}
			seen[id.String()] = true
		}
		if len(seen) < 45 {
			t.Errorf("%s: %d different ids of 50", g, len(seen))
		}
	}
}
