package gcsd

import (
	"encoding/base64"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Sizes of pages.
const (
	pageCap = 1000 // the service's, and its default
	endless = math.MaxInt
)

// A selection is what a list request asks for.
type selection struct {
	prefix, start, end string
	delimiter          string
	after              string // the token's name: only what comes behind it
	max                int
	versions           bool
	fields             []string // of the items; nil: all
}

func (s *Server) list(st *store, r *request) (*answer, *failure) {
	sel, empty, f := s.selection(r)
	if f != nil {
		return nil, f
	}
	resp := map[string]any{}
	if r.Query.Get("fields") == "" {
		resp["kind"] = "storage#objects"
	}
	if s.opts.Lies.EmptyPages && !empty {
		resp["nextPageToken"] = token("e", sel.after)
		return jsonAnswer(resp), nil
	}
	objects, more := s.page(st, sel)
	var items []map[string]any
	var prefixes []string
	for _, o := range objects {
		if o.generation == 0 {
			prefixes = append(prefixes, o.name)
		} else {
			items = append(items, s.resource(r.Bucket, o, sel.fields...))
		}
	}
	if s.opts.Lies.NullForDeleted {
		items = append(items, make([]map[string]any, len(st.gone))...)
	}
	if items != nil {
		resp["items"] = items
	}
	if prefixes != nil {
		resp["prefixes"] = prefixes
	}
	if more && !s.opts.Lies.LostToken {
		resp["nextPageToken"] = token("n", objects[len(objects)-1].name)
		if given := r.Query.Get("pageToken"); s.opts.Lies.RepeatToken && given != "" {
			resp["nextPageToken"] = given
		}
	}
	return jsonAnswer(resp), nil
}

// selection reads the request; empty says that an empty page was just answered.
func (s *Server) selection(r *request) (sel selection, empty bool, f *failure) {
	q, lies := r.Query, s.opts.Lies
	sel = selection{
		prefix: q.Get("prefix"), start: q.Get("startOffset"), end: q.Get("endOffset"),
		delimiter: q.Get("delimiter"), max: pageCap, versions: q.Get("versions") == "true", fields: itemFields(q.Get("fields")),
	}
	for _, text := range []string{sel.prefix, sel.start, sel.end} {
		if !utf8.ValidString(text) {
			return sel, false, fail(400, "invalid", "Invalid unicode in a parameter")
		}
	}
	if lies.NoPageCap {
		sel.max = endless
	}
	if text := q.Get("maxResults"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return sel, false, fail(400, "invalid", "Invalid maxResults")
		}
		if n > 0 {
			sel.max = min(sel.max, n)
		}
	}
	if lies.PageCap > 0 {
		sel.max = lies.PageCap
	}
	if lies.IgnoresMax {
		sel.max = endless
	}
	if lies.IgnoresOffsets {
		sel.start, sel.end = "", ""
	}
	if lies.IgnoresPrefix {
		sel.prefix = ""
	}
	if text := q.Get("pageToken"); text != "" {
		kind, name, ok := parseToken(text)
		if !ok {
			return sel, false, fail(400, "invalid", "Invalid page token")
		}
		sel.after, empty = name, kind == "e"
	}
	return sel, empty, nil
}

func token(kind, name string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(kind + name))
}

func parseToken(text string) (kind, name string, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) == 0 {
		return "", "", false
	}
	return string(b[:1]), string(b[1:]), true
}

func (sel selection) takes(name string) bool {
	return strings.HasPrefix(name, sel.prefix) && name >= sel.start && (sel.end == "" || name < sel.end)
}

// page is in byte order unless this server has another one. Under mu.
func (s *Server) page(st *store, sel selection) (objects []*object, more bool) {
	if s.opts.Lies.Unsorted || sel.versions {
		return s.gathered(st, sel)
	}
	common := ""
	if sel.delimiter != "" && strings.HasSuffix(sel.after, sel.delimiter) && sel.after != sel.prefix {
		common = sel.after // the page before ended with it
	}
	st.live.AscendGreaterOrEqual(&object{name: max(sel.prefix, sel.start, sel.after)}, func(o *object) bool {
		if !strings.HasPrefix(o.name, sel.prefix) {
			return false // past all that have it
		}
		if !sel.takes(o.name) || sel.after != "" && o.name == sel.after || common != "" && strings.HasPrefix(o.name, common) {
			return true
		}
		if len(objects) == sel.max {
			more = true
			return false
		}
		if o = sel.grouped(o); o.generation == 0 {
			common = o.name
		}
		objects = append(objects, o)
		return true
	})
	return objects, more
}

// grouped is the object, or what it has in common with others up to the delimiter: an object of generation 0.
func (sel selection) grouped(o *object) *object {
	if sel.delimiter != "" {
		if first, _, found := strings.Cut(o.name[len(sel.prefix):], sel.delimiter); found {
			return &object{name: sel.prefix + first + sel.delimiter}
		}
	}
	return o
}

// gathered sorts all there is by another key: a hash of the name, or name and generation.
func (s *Server) gathered(st *store, sel selection) (objects []*object, more bool) {
	place := func(name string) string {
		if !s.opts.Lies.Unsorted {
			return name
		}
		h := fnv.New64a()
		h.Write([]byte(name))
		return string(h.Sum(nil)) + name
	}
	var all []*object
	take := func(o *object) bool {
		if sel.takes(o.name) && (sel.after == "" || place(o.name) > place(sel.after)) {
			all = append(all, o)
		}
		return true
	}
	st.live.Ascend(take)
	if sel.versions {
		for _, o := range st.archive {
			take(o)
		}
	}
	slices.SortStableFunc(all, func(x, y *object) int { return strings.Compare(place(x.name), place(y.name)) })
	if len(all) > sel.max {
		return all[:sel.max], true
	}
	return all, false
}

// itemFields reads the names in "items(…)" of a field selection.
func itemFields(text string) []string {
	_, rest, ok := strings.Cut(text, "items(")
	if !ok {
		return nil
	}
	inside, _, _ := strings.Cut(rest, ")")
	return strings.Split(inside, ",")
}
