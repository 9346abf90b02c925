package itemid

import (
	"math"

	"github.com/google/uuid"
	"github.com/oklog/ulid/v2"
	"github.com/segmentio/ksuid"
)

// ksuidEpoch is where the seconds of a KSUID start, 2014-05-13T16:53:20Z, in seconds from 1970 on.
const ksuidEpoch = 1_400_000_000

// The functions below return the time in a time part as seconds from 1970 on and nanoseconds within the second, or
// the reason why it is none. The libraries read more spellings than the canonical one (lower case, braces, letters
// outside the alphabet), so each part is also written back and compared.

func epochTime(part string) (sec int64, nsec int32, reason string) {
	if len(part) > 19 {
		return 0, 0, reasonDigits
	}
	// 19 digits fit an unsigned 64-bit number, whatever they are: nothing below can wrap.
	var n uint64
	for i := 0; i < len(part); i++ {
		d := part[i] - '0'
		if d > 9 {
			return 0, 0, reasonDigits
		}
		n = n*10 + uint64(d)
	}
	switch len(part) {
	case 10:
		return int64(n), 0, ""
	case 13:
		return int64(n / 1e3), int32(n % 1e3 * 1e6), ""
	case 16:
		return int64(n / 1e6), int32(n % 1e6 * 1e3), ""
	case 19:
		if n > math.MaxInt64 {
			return 0, 0, reasonNanos
		}
		return int64(n / 1e9), int32(n % 1e9), ""
	}
	return 0, 0, reasonDigits
}

func ulidTime(part string) (sec int64, nsec int32, reason string) {
	id, err := ulid.ParseStrict(part)
	if err != nil {
		return 0, 0, reasonULID
	}
	var canonical [ulid.EncodedSize]byte
	if err := id.MarshalTextTo(canonical[:]); err != nil || string(canonical[:]) != part {
		return 0, 0, reasonULID
	}
	sec, nsec = splitMillis(id.Time())
	return sec, nsec, ""
}

func uuidTime(part string) (sec int64, nsec int32, reason string) {
	id, err := uuid.Parse(part)
	if err != nil || id.String() != part {
		return 0, 0, reasonUUID
	}
	if id.Version() != 7 || id.Variant() != uuid.RFC4122 { // RFC 9562 kept the variant of RFC 4122
		return 0, 0, reasonUUIDv7
	}
	var ms uint64
	for _, b := range id[:6] {
		ms = ms<<8 | uint64(b)
	}
	sec, nsec = splitMillis(ms)
	return sec, nsec, ""
}

func ksuidTime(part string) (sec int64, nsec int32, reason string) {
	id, err := ksuid.Parse(part)
	if err != nil {
		return 0, 0, reasonKSUID
	}
	var canonical [27]byte
	if string(id.Append(canonical[:0])) != part {
		return 0, 0, reasonKSUID
	}
	return ksuidEpoch + int64(id.Timestamp()), 0, ""
}

// splitMillis takes at most 48 bits of milliseconds.
func splitMillis(ms uint64) (sec int64, nsec int32) {
	return int64(ms / 1e3), int32(ms % 1e3 * 1e6)
}
