package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// printJSON answers with one JSON object on one line.
func (a *app) printJSON(v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encoding the answer: %w", err)
	}
	return a.print(buf.String())
}

// orNull makes a time that is not known null in JSON.
func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// A listJSON is a list with its cursor. A command joins all pages, so there is no next one.
type listJSON[T any] struct {
	Items []T     `json:"items"`
	Next  *string `json:"next"`
}
