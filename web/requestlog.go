package web

import (
	"context"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/labstack/echo/v4"
)

// A requestLog is a handler for the log of a server: it adds the id of the request that the context is of, and hides in
// errors what clients have chosen: an error of the store names the keys that it is about. What is logged as text passes as it
// is: whoever does so means it.
type requestLog struct{ next slog.Handler }

var _ slog.Handler = requestLog{}

func (l requestLog) Enabled(ctx context.Context, level slog.Level) bool {
	return l.next.Enabled(ctx, level)
}

func (l requestLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return requestLog{l.next.WithAttrs(attrs)}
}

func (l requestLog) WithGroup(name string) slog.Handler { return requestLog{l.next.WithGroup(name)} }

// Handle passes the line on.
func (l requestLog) Handle(ctx context.Context, r slog.Record) error {
	t := traceOf(ctx)
	if t == nil {
		return l.next.Handle(ctx, r)
	}
	line := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	if t.id != "" {
		line.AddAttrs(slog.String("request_id", t.id))
	}
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			a.Value = slog.StringValue(t.safe(err.Error()))
		}
		line.AddAttrs(a)
		return true
	})
	return l.next.Handle(ctx, line)
}

// quoted finds what errors quote: keys, ids, names, and whatever a decoder did not like.
var quoted = regexp.MustCompile(`"(?:\\.|[^"\\])*"`)

const hiddenText = "…"

// safe is the text of an error without what the client has chosen, and without what is quoted, which is that or may be. Where
// the server keeps its own documents stays readable: they are what an operator has to look at.
func (t *trace) safe(text string) string {
	t.mu.Lock()
	hidden := slices.Clone(t.hidden)
	t.mu.Unlock()
	// The longest first: one may be a part of another.
	slices.SortFunc(hidden, func(a, b string) int { return len(b) - len(a) })
	for _, h := range hidden {
		for _, form := range forms(h) {
			text = replaceWord(text, form)
		}
	}
	return quoted.ReplaceAllStringFunc(text, func(q string) string {
		if strings.HasPrefix(q, `"_indexd/`) {
			return q
		}
		return `"` + hiddenText + `"`
	})
}

// forms are the ways in which errors spell a text.
func forms(text string) []string {
	all := []string{text}
	asGo := strconv.Quote(text)
	for _, form := range []string{asGo[1 : len(asGo)-1], url.PathEscape(text), url.QueryEscape(text)} {
		if !slices.Contains(all, form) {
			all = append(all, form)
		}
	}
	return all
}

// replaceWord hides each occurrence of a word that is not a part of a longer one: an id of one letter must not spoil the rest.
func replaceWord(text, word string) string {
	if word == "" {
		return text
	}
	var out strings.Builder
	for {
		i := strings.Index(text, word)
		if i < 0 {
			out.WriteString(text)
			return out.String()
		}
		out.WriteString(text[:i])
		if endsInWord(text[:i]) || beginsInWord(text[i+len(word):]) {
			out.WriteString(word)
		} else {
			out.WriteString(hiddenText)
		}
		text = text[i+len(word):]
	}
}

var escapedEnd = regexp.MustCompile(`%[0-9A-Fa-f]{2}$`)

// endsInWord does not take an escaped slash for two letters.
func endsInWord(text string) bool {
	r, _ := utf8.DecodeLastRuneInString(text)
	return text != "" && partOfWord(r) && !escapedEnd.MatchString(text)
}

func beginsInWord(text string) bool {
	r, _ := utf8.DecodeRuneInString(text)
	return text != "" && partOfWord(r)
}

func partOfWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// keepQuiet takes note of what the client has chosen in the path and the query.
func keepQuiet(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		hide(c.Request().Context(), chosen(c)...)
		return next(c)
	}
}

// chosen is by itself for the sake of streams, as checkParams is.
func chosen(c echo.Context) (texts []string) {
	for _, value := range c.ParamValues() {
		texts = append(texts, value)
		if plain, err := url.PathUnescape(value); err == nil {
			texts = append(texts, plain)
		}
	}
	query, _ := url.ParseQuery(c.Request().URL.RawQuery) // what can be read of it
	for name, values := range query {
		texts = append(append(texts, name), values...)
	}
	return texts
}
