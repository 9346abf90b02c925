package itemid_test

import (
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/blobindex/indexd/blobindex/itemid"
)

const oracleUUID = `[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`

var oracleShapes = map[itemid.Grammar]*regexp.Regexp{
	itemid.Epoch:        regexp.MustCompile(`(?s)^(.+)_([0-9]{10}|[0-9]{13}|[0-9]{16}|[0-9]{19})$`),
	itemid.ULID:         regexp.MustCompile(`^()([0-7][0-9A-HJKMNP-TV-Z]{25})$`),
	itemid.UUIDv7:       regexp.MustCompile(`^()(` + oracleUUID + `)$`),
	itemid.KSUID:        regexp.MustCompile(`^()([0-9A-Za-z]{27})$`),
	itemid.SubkeyULID:   regexp.MustCompile(`(?s)^(.+)_([0-7][0-9A-HJKMNP-TV-Z]{25})$`),
	itemid.SubkeyUUIDv7: regexp.MustCompile(`(?s)^(.+)_(` + oracleUUID + `)$`),
	itemid.SubkeyKSUID:  regexp.MustCompile(`(?s)^(.+)_([0-9A-Za-z]{27})$`),
}

// parsed is what oracle says of an id.
type parsed struct {
	subkey string
	at     time.Time
}

// oracle is a second reading of the specification, slow and with none of the libraries: expressions for the shapes,
// numbers of any size for the times. It returns nil for what does not parse.
func oracle(g itemid.Grammar, s string) *parsed {
	if !oracleAllows(s) || oracleShapes[g] == nil {
		return nil
	}
	m := oracleShapes[g].FindStringSubmatch(s)
	if m == nil {
		return nil
	}
	subkey, part := m[1], m[2]
	if subkey == "" {
		subkey = s
	}
	nanos := oracleNanos(g, part)
	if nanos == nil {
		return nil
	}
	sec, nsec := new(big.Int).QuoRem(nanos, big.NewInt(1e9), new(big.Int))
	return &parsed{subkey, time.Unix(sec.Int64(), nsec.Int64()).UTC()}
}

func oracleAllows(s string) bool {
	return len(s) >= 1 && len(s) <= 200 && utf8.ValidString(s) && !strings.HasPrefix(s, ".") &&
		!strings.ContainsAny(s, "/~") && !strings.Contains(s, "__0x") && !strings.ContainsFunc(s, unicode.IsControl)
}

// oracleNanos returns the nanoseconds from 1970 on of a time part of the right shape, or nil if it is too large.
func oracleNanos(g itemid.Grammar, part string) *big.Int {
	switch g {
	case itemid.ULID, itemid.SubkeyULID:
		return scaled(digits(part[:10], "0123456789ABCDEFGHJKMNPQRSTVWXYZ"), 1e6)
	case itemid.UUIDv7, itemid.SubkeyUUIDv7:
		return scaled(digits(part[:8]+part[9:13], "0123456789abcdef"), 1e6)
	case itemid.KSUID, itemid.SubkeyKSUID:
		n := digits(part, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
		if n.BitLen() > 160 {
			return nil
		}
		return scaled(n.Rsh(n, 128).Add(n, big.NewInt(1400000000)), 1e9)
	}
	unit := map[int]int64{10: 1e9, 13: 1e6, 16: 1e3, 19: 1}[len(part)]
	n := digits(part, "0123456789")
	if unit == 1 && n.String() != strconv.FormatInt(n.Int64(), 10) {
		return nil
	}
	return scaled(n, unit)
}

func digits(s, alphabet string) *big.Int {
	n := new(big.Int)
	for i := range len(s) {
		n.Mul(n, big.NewInt(int64(len(alphabet))))
		n.Add(n, big.NewInt(int64(strings.IndexByte(alphabet, s[i]))))
	}
	return n
}

func scaled(n *big.Int, unit int64) *big.Int { return n.Mul(n, big.NewInt(unit)) }
