package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/blobindex/indexd/web/api"
	"github.com/labstack/echo/v4"
)

// A binder reads the JSON body of a request. Unlike echo's, it takes no other type, no unknown member, and nothing that
// encoding/json would change in silence: repeated or differently spelled members, null for a string, broken UTF-8.
type binder struct{}

// Bind reads the body into i. An empty body is io.EOF, which the generated code takes for "none".
func (binder) Bind(i any, c echo.Context) error {
	r := c.Request()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return bodyProblem(err)
	}
	if len(body) == 0 {
		return io.EOF
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return &problem{
			status: http.StatusUnsupportedMediaType, code: codeMediaType,
			detail: "The body is not declared as JSON.",
			action: "Send it with Content-Type: application/json.",
		}
	}
	members, err := scanJSON(body)
	if err != nil {
		return badBody(err.Error())
	}
	if _, ok := i.(*api.NewItem); ok {
		for _, m := range members {
			if m != "subkey" && m != "labels" {
				return badBody("it has a member that is not known here; subkey and labels are")
			}
		}
	}
	if err := json.Unmarshal(body, i); err != nil {
		return badBody("it is not of the form that this operation takes")
	}
	return nil
}

func badBody(what string) error {
	return badRequest("The body cannot be used: "+what+".", "Send what the operation describes, or no body.")
}

// bodyProblem tells why a body could not be read.
func bodyProblem(err error) error {
	if over, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge(over.Limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &problem{
			status: http.StatusRequestTimeout, code: codeTimeout,
			detail: "The body did not arrive in time; nothing was done.",
			action: "Send it again.", cause: err,
		}
	}
	p := badRequest("The body ended before its end; nothing was done.", "Send it again.")
	p.cause = err
	return p
}

// scanJSON returns the members of the object that body is, or a sentence that says why it is none.
func scanJSON(body []byte) (members []string, err error) {
	if !utf8.Valid(body) {
		return nil, errors.New("it is not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("it is no JSON object")
	}
	open := [][]string{{}} // the members so far of each object around the next token; nil for an array
	name := true           // the next token is a member's name, or ends the object
	for len(open) > 0 {
		t, err := dec.Token()
		if err != nil {
			return nil, errors.New("it is no JSON object")
		}
		top := len(open) - 1
		switch t := t.(type) {
		case json.Delim:
			if t == '{' || t == '[' {
				frame := []string{}
				if t == '[' {
					frame = nil
				}
				open, name = append(open, frame), t == '{'
				continue
			}
			if top == 0 {
				members = open[0]
			}
			open = open[:top]
		case string:
			if strings.ContainsRune(t, utf8.RuneError) {
				return nil, errors.New("a text in it was broken before it came here (U+FFFD)")
			}
			if name {
				if slices.Contains(open[top], t) {
					return nil, errors.New("it has a member twice")
				}
				open[top], name = append(open[top], t), false
				continue
			}
		case nil:
			return nil, errors.New("it has a null; leave out what has no value")
		}
		name = len(open) > 0 && open[len(open)-1] != nil
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("something follows the JSON object")
	}
	return members, nil
}
