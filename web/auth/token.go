package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Prefix begins each static token.
const Prefix = "indexd_"

const tokenBytes = 32

// spelled is base32 in small letters: a double click takes all of it.
var spelled = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// A Hash is the SHA-256 of a token.
type Hash [sha256.Size]byte

// Mint returns a new token.
func Mint() string {
	var b [tokenBytes]byte
	rand.Read(b[:]) // which never fails
	return Prefix + spelled.EncodeToString(b[:])
}

// CheckToken returns an error unless token is one that Mint may have made.
func CheckToken(token string) error {
	rest, ok := strings.CutPrefix(token, Prefix)
	if ok {
		b, err := spelled.DecodeString(rest)
		// Spelled again, since the last character has bits that say nothing.
		ok = err == nil && len(b) == tokenBytes && spelled.EncodeToString(b) == rest
	}
	if !ok {
		return errors.New("auth: this is no token of indexd, which is " + Prefix + " and 52 of a-z and 2-7; make one with " +
			"\"indexd token new\"")
	}
	return nil
}

// HashOf returns the hash of a token.
func HashOf(token string) Hash { return sha256.Sum256([]byte(token)) }

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash reads what String writes. Its error does not repeat the text, which may be a token.
func ParseHash(text string) (h Hash, err error) {
	if strings.HasPrefix(text, Prefix) {
		return h, errors.New("auth: what stands there is a token itself; keep its hash instead, which \"indexd token hash\" tells, and " +
			"make a new token if others can read this")
	}
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(h) {
		return h, errors.New("auth: the hash of a token is 64 hexadecimal digits; \"indexd token new\" tells it")
	}
	return Hash(b), nil
}

// A Token is a static token, as the configuration knows it.
type Token struct {
	Name    string // of its principal
	Hash    Hash
	Expires time.Time // zero: never
	Grants  []Grant
}

const maxName = 100 // bytes

func (t Token) check() error {
	if t.Name == "" || len(t.Name) > maxName || !readable(t.Name) {
		return fmt.Errorf("auth: the name of a token is 1 to %d bytes of text without control characters, such as ci", maxName)
	}
	if t.Hash == (Hash{}) {
		return errors.New("auth: it has no hash; \"indexd token new\" makes a token and tells it")
	}
	if len(t.Grants) == 0 {
		return errors.New("auth: it has no grants, so that it lets nobody do anything; give it one")
	}
	for i, g := range t.Grants {
		if err := g.Check(); err != nil {
			return fmt.Errorf("grants[%d]: %w", i, err)
		}
	}
	return nil
}
