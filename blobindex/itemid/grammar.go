package itemid

import (
	"fmt"
	"strings"
)

// A Grammar says how an id is spelled and where its time is; the package documentation specifies each. The zero
// value is Epoch.
type Grammar uint8

// The grammars. Their order is no part of any stored format; their names are.
const (
	Epoch        Grammar = iota // <subkey>_<10, 13, 16 or 19 digits>
	ULID                        // bare
	UUIDv7                      // bare
	KSUID                       // bare
	SubkeyULID                  // <subkey>_<ulid>
	SubkeyUUIDv7                // <subkey>_<uuidv7>
	SubkeyKSUID                 // <subkey>_<ksuid>
)

const grammarNames = "epoch, ulid, uuidv7, ksuid, subkey_ulid, subkey_uuidv7, subkey_ksuid"

// String returns the name by which configurations call g, such as "subkey_ulid". ParseGrammar reads it back. A
// value that is none of the constants gives "Grammar(n)", which ParseGrammar refuses.
func (g Grammar) String() string {
	switch g {
	case Epoch:
		return "epoch"
	case ULID:
		return "ulid"
	case UUIDv7:
		return "uuidv7"
	case KSUID:
		return "ksuid"
	case SubkeyULID:
		return "subkey_ulid"
	case SubkeyUUIDv7:
		return "subkey_uuidv7"
	case SubkeyKSUID:
		return "subkey_ksuid"
	}
	return fmt.Sprintf("Grammar(%d)", uint8(g))
}

// ParseGrammar returns the grammar of that name, spelled exactly as String does. The error lists the names; it
// wraps no sentinel, since it comes from a configuration and never from an id.
func ParseGrammar(s string) (Grammar, error) {
	for g := Epoch; g <= SubkeyKSUID; g++ {
		if g.String() == s {
			return g, nil
		}
	}
	return Epoch, fmt.Errorf("itemid: unknown grammar %s: want one of %s", quote(excerpt(s)), grammarNames)
}

// Parses reports whether text is an id of any grammar.
func Parses(text string) bool {
	for g := Epoch; g <= SubkeyKSUID; g++ {
		if _, err := g.Parse(text); err == nil {
			return true
		}
	}
	return false
}

// bare reports whether an id of g is its time part and nothing else.
func (g Grammar) bare() bool { return g == ULID || g == UUIDv7 || g == KSUID }

// timePart returns the bare grammar that spells the time part of g, or Epoch.
func (g Grammar) timePart() Grammar {
	switch g {
	case SubkeyULID:
		return ULID
	case SubkeyUUIDv7:
		return UUIDv7
	case SubkeyKSUID:
		return KSUID
	}
	return g
}

// shape is how error messages show g.
func (g Grammar) shape() string {
	part := map[Grammar]string{
		Epoch: "<10, 13, 16 or 19 digits>", ULID: "<ulid>", UUIDv7: "<uuid>", KSUID: "<ksuid>",
	}[g.timePart()]
	if g.bare() {
		return part
	}
	return strings.Join([]string{"<subkey>", part}, "_")
}
