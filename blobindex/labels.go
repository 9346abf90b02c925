package blobindex

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// Labels are what a producer says about its item. The names title, owner and url are shown on its card.
type Labels map[string]string

// MaxLabels is the most bytes that labels may take as JSON.
const MaxLabels = 1024

// ErrLabels is wrapped by the errors for labels that cannot be stored or read.
var ErrLabels = errors.New("blobindex: unusable labels")

// ErrLabelsTooLarge is wrapped, beside ErrLabels, by the error for labels that take more than MaxLabels.
var ErrLabelsTooLarge = errors.New("blobindex: labels too large")

// Check returns the error that Register would refuse the labels with: one that wraps ErrLabels, or nil.
func (l Labels) Check() error {
	_, err := l.encode()
	return err
}

// encode returns the marker's body: nothing for no labels.
func (l Labels) encode() ([]byte, error) {
	if len(l) == 0 {
		return nil, nil
	}
	for k, v := range l {
		if k == "" {
			return nil, fmt.Errorf("%w: a label has no name; give it one", ErrLabels)
		}
		for _, s := range []string{k, v} {
			if err := checkText(s); err != nil {
				return nil, fmt.Errorf("%w: label %.40q: %w", ErrLabels, k, err)
			}
		}
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // it would take six bytes for one
	if err := enc.Encode(map[string]string(l)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLabels, err)
	}
	body := bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	if len(body) > MaxLabels {
		return nil, fmt.Errorf("%w: %w: they take %d bytes as JSON, and a marker holds %d: shorten them", ErrLabels,
			ErrLabelsTooLarge, len(body), MaxLabels)
	}
	return body, nil
}

func checkText(s string) error {
	if !utf8.ValidString(s) {
		return errors.New("it is not valid UTF-8")
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return fmt.Errorf("it has the control character %U", r)
		}
	}
	return nil
}

// ParseLabels reads the body of a marker. An empty body has no labels. Values that are no strings are an error, as is
// whatever is longer than MaxLabels; both wrap ErrLabels.
func ParseLabels(body []byte) (Labels, error) {
	if len(body) == 0 {
		return nil, nil
	}
	if len(body) > MaxLabels {
		return nil, fmt.Errorf("%w: the body is longer than %d bytes", ErrLabels, MaxLabels)
	}
	var values map[string]*string
	if err := json.Unmarshal(body, &values); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLabels, err)
	}
	l := make(Labels, len(values))
	for k, v := range values {
		if v == nil {
			return nil, fmt.Errorf("%w: the label %.40q is null", ErrLabels, k)
		}
		l[k] = *v
	}
	return l, nil
}
