package itemid

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/oklog/ulid/v2"
	"github.com/segmentio/ksuid"
)

// Mint makes a new id of grammar g with the time at, cut to the millisecond (KSUID: to the second). Epoch mints 19
// digits, of which the last six are random; the others fill every bit that their format leaves free. Two ids
// of one sub-key and one time are therefore equal once in a million (Epoch), or never (the others).
//
// A nil random is crypto/rand.Reader; Mint is as safe for concurrent use as random is. The bare grammars want an
// empty subkey, the others one that is not. Whatever Mint returns parses, and its Subkey is subkey or the whole id.
// Errors: ErrInvalid if subkey or at cannot be part of an id of g; else the error of random, wrapped.
func (g Grammar) Mint(subkey string, at time.Time, random io.Reader) (ID, error) {
	if random == nil {
		random = rand.Reader
	}
	switch {
	case g > SubkeyKSUID:
		return ID{}, refuse(g, subkey, reasonGrammar)
	case g.bare() && subkey != "":
		return ID{}, refuse(g, subkey, reasonBareMint)
	case !g.bare() && subkey == "":
		return ID{}, refuse(g, subkey, reasonEmptyMint)
	}
	// Before any randomness is spent, and before a text of any length is copied.
	if !g.bare() {
		if _, reason := scan(subkey); reason != "" {
			return ID{}, refuse(g, subkey, reason)
		}
	}
	ms, err := g.millis(at)
	if err != nil {
		return ID{}, err
	}
	part, err := g.mintTime(ms, random)
	if err != nil {
		return ID{}, fmt.Errorf("reading randomness for an id of grammar %s: %w", g, err)
	}
	if g.bare() {
		return g.Parse(part)
	}
	// Parse has the last word: a sub-key that is fine by itself may be too long with its time, or end in a "_" that
	// makes a "__0x" with a KSUID of 2017.
	return g.Parse(subkey + "_" + part)
}

// mintMillis returns the first and the last millisecond that Mint of g can write.
func (g Grammar) mintMillis() (first, last int64) {
	switch g.timePart() {
	case Epoch:
		// The last whole millisecond: within the next one, not all random digits stay below 2^63.
		return 0, math.MaxInt64/1_000_000 - 1
	case KSUID:
		return ksuidEpoch * 1e3, (ksuidEpoch+math.MaxUint32)*1e3 + 999
	}
	return 0, 1<<48 - 1
}

// millis returns at in milliseconds from 1970 on, once they are known to be within what g can write.
func (g Grammar) millis(at time.Time) (int64, error) {
	first, last := g.mintMillis()
	from, end := time.UnixMilli(first).UTC(), time.UnixMilli(last+1).UTC()
	if at.Before(from) || !at.Before(end) {
		return 0, fmt.Errorf("minting an id of grammar %s at %s: %w: its time must be from %s on and before %s",
			g, at.UTC().Format(time.RFC3339), ErrInvalid, from.Format(time.RFC3339Nano), end.Format(time.RFC3339Nano))
	}
	return at.UnixMilli(), nil
}

// mintTime spells ms, which must have passed millis, with fresh randomness.
func (g Grammar) mintTime(ms int64, random io.Reader) (string, error) {
	switch g.timePart() {
	case ULID:
		id, err := ulid.New(uint64(ms), random)
		return id.String(), err
	case UUIDv7:
		return mintUUID(uint64(ms), random)
	case KSUID:
		var payload [16]byte
		if _, err := io.ReadFull(random, payload[:]); err != nil {
			return "", err
		}
		id, err := ksuid.FromParts(time.Unix(ms/1e3, 0), payload[:])
		return id.String(), err
	}
	below, err := randomMicro(random)
	return fmt.Sprintf("%019d", ms*1e6+below), err
}

// mintUUID lays out RFC 9562, section 5.7: 48 bits of milliseconds, version, 12 random bits, variant, 62 random
// bits. The library mints version 7 for its own clock only.
func mintUUID(ms uint64, random io.Reader) (string, error) {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], ms<<16)
	if _, err := io.ReadFull(random, id[6:]); err != nil {
		return "", err
	}
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id.String(), nil
}

// randomMicro returns a number from 0 to 999,999, each equally likely: of the 2^32 values of four bytes it takes the
// largest multiple of a million and draws again beyond it, which happens once in 4,440 draws.
func randomMicro(random io.Reader) (int64, error) {
	const million = 1_000_000
	const fair = math.MaxUint32 / million * million
	// A sound source does not miss eight times in a row (one in 10^29); without a bound a broken one would hang us.
	for range 8 {
		var b [4]byte
		if _, err := io.ReadFull(random, b[:]); err != nil {
			return 0, err
		}
		if n := binary.BigEndian.Uint32(b[:]); n < fair {
			return int64(n % million), nil
		}
	}
	return 0, errors.New("its bytes are not random")
}
