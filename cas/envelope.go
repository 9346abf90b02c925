package cas

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// Remembered is how many saves before the last one a document tells of.
const Remembered = 256

// MaxSize is the size of a document that is neither read nor written: 16 MiB and more.
const MaxSize = 16 << 20

// A Birth tells one incarnation of a document from any other.
type Birth struct {
	Nonce string    `json:"nonce"` // of the save that created it
	At    time.Time `json:"at"`    // by the clock of the host that created it
}

// A mark is one save.
type mark struct {
	Seq   uint64 `json:"seq"`
	Nonce string `json:"nonce"`
}

// An envelope is a document as it is stored; see the package comment.
type envelope struct {
	Format  string          `json:"format"`
	Created Birth           `json:"created"`
	Seq     uint64          `json:"seq"`
	Nonce   string          `json:"nonce"`
	Recent  []mark          `json:"recent"`
	Payload json.RawMessage `json:"payload"`
}

func (e *envelope) mark() mark { return mark{e.Seq, e.Nonce} }

// newNonce returns 130 random bits.
func newNonce() string { return rand.Text() }

// encode returns the body of a document. What could not be read again is an error.
func (e *envelope) encode() ([]byte, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	body, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	if len(body) >= MaxSize {
		return nil, fmt.Errorf("%w: %d bytes; the limit is %d", ErrTooLarge, len(body), MaxSize)
	}
	return body, nil
}

// decode reads a body. What is not exactly a document of that format is an error, and so nobody writes over it.
func decode(body []byte, format string) (*envelope, error) {
	e := new(envelope)
	err := strict(body, e)
	if err == nil {
		err = e.check()
	}
	if err != nil || e.Format != format {
		return nil, refusal(body, format, err)
	}
	return e, nil
}

// refusal says what is wrong with a body. One of another format may well have other fields, and is not corrupt for that; to
// ask for the format first would read every document twice.
func refusal(body []byte, format string, err error) error {
	var kind struct {
		Format *string `json:"format"`
	}
	switch bad := json.Unmarshal(body, &kind); {
	case len(body) == 0:
		return fmt.Errorf("%w: it is empty", ErrCorrupt)
	case bad != nil || kind.Format == nil:
		return fmt.Errorf("%w: %d bytes that are no JSON object with a format", ErrCorrupt, len(body))
	case *kind.Format != format:
		return fmt.Errorf("%w: %.80q, where %q was expected", ErrFormat, *kind.Format, format)
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}

// strict decodes one JSON value, whole, and nothing that it has no place for: who would write it back would drop that.
func strict(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one value")
	}
	return nil
}

func (e *envelope) check() error {
	switch {
	case e.Seq == 0, e.Nonce == "", e.Created.Nonce == "", e.Created.At.IsZero(), len(e.Payload) == 0:
		return errors.New("a part of the envelope is missing")
	case len(e.Recent) > Remembered, uint64(len(e.Recent)) >= e.Seq:
		return fmt.Errorf("it has %d recent saves at seq %d", len(e.Recent), e.Seq)
	case e.Seq == math.MaxUint64:
		return errors.New("no seq can follow on its own")
	case e.Seq == 1 && e.Nonce != e.Created.Nonce:
		return errors.New("the first save is not the one that created it")
	}
	before := e.Seq - uint64(len(e.Recent))
	for i, m := range e.Recent {
		if m.Seq != before+uint64(i) || m.Nonce == "" {
			return errors.New("its recent saves do not follow on each other")
		}
	}
	return nil
}

// next returns the envelope of a save on top of base, nil if there is none.
func next(base *envelope, format, nonce string, now time.Time, payload []byte) *envelope {
	e := &envelope{Format: format, Created: Birth{nonce, now.UTC()}, Seq: 1, Nonce: nonce, Recent: []mark{}, Payload: payload}
	if base == nil {
		return e
	}
	e.Created, e.Seq = base.Created, base.Seq+1
	e.Recent = append(append(e.Recent, base.Recent...), base.mark())
	if n := len(e.Recent) - Remembered; n > 0 {
		e.Recent = e.Recent[n:]
	}
	return e
}

// A verdict is what a document that was read back says of a save.
type verdict int

const (
	undecided verdict = iota // nothing can be said
	won
	lost   // and it can never land any more
	notYet // what the save was made on is still there
)

// judge says what became of the save ours, on top of base, by the document that is there now; nil stands for none.
func judge(base, ours, now *envelope) verdict {
	switch {
	case now == nil && base == nil:
		return notYet
	case now == nil:
		return undecided
	case now.Created.Nonce != ours.Created.Nonce && base == nil:
		return lost // somebody else has created it, so that ours finds something there for ever
	case now.Created.Nonce != ours.Created.Nonce:
		return undecided
	case base == nil:
		return won // the incarnation is ours
	case base.mark() == now.mark():
		return notYet
	}
	for _, m := range append(now.Recent[:len(now.Recent):len(now.Recent)], now.mark()) {
		switch {
		case m == ours.mark():
			return won
		case m.Seq == ours.Seq:
			return lost
		}
	}
	return undecided
}
