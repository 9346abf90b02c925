package s3d

import (
	"encoding/base64"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/blobindex/indexd/fakes/internal/wire"
)

// A listing is what one ListObjectsV2 request asks for.
type listing struct {
	prefix, after, token string
	inside               string // the common prefix with which the page before ended
	delimiter            string
	max                  int
	encode, space20      bool
}

// An entry is an object, or what several have in common.
type entry struct {
	object
	common bool
}

func (c *call) list(st *store) {
	lies := c.s.opts.Lies
	if lies.EmptyList {
		return
	}
	l, e := c.listing()
	if e != nil {
		c.fail(*e)
		return
	}
	var entries []entry
	more := false
	if !lies.EmptyPages {
		entries, more = l.page(st, lies)
	}
	var x strings.Builder
	x.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n" +
		`<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">`)
	c.element(&x, "Name", c.bucket)
	c.element(&x, "Prefix", l.encoded(l.prefix))
	if l.delimiter != "" {
		c.element(&x, "Delimiter", l.encoded(l.delimiter))
	}
	c.element(&x, "KeyCount", strconv.Itoa(len(entries)))
	c.element(&x, "MaxKeys", strconv.Itoa(l.max))
	if l.encode && !lies.EncodesSilently {
		c.element(&x, "EncodingType", "url")
	}
	more = more || lies.EmptyPages || lies.TruncatedNoToken
	if !lies.NoTruncated {
		c.element(&x, "IsTruncated", strconv.FormatBool(more))
	}
	switch {
	case lies.TruncatedNoToken || !more:
	case lies.EmptyPages:
		c.element(&x, "NextContinuationToken", l.token+"x")
	case lies.RepeatsToken:
		c.element(&x, "NextContinuationToken", token("", false))
	default:
		last := entries[len(entries)-1]
		c.element(&x, "NextContinuationToken", token(last.key, last.common))
	}
	for _, o := range entries {
		l.write(c, &x, o)
	}
	x.WriteString("</ListBucketResult>")
	c.w.Header().Set("Content-Type", "application/xml")
	c.w.Write([]byte(x.String()))
}

func (l listing) write(c *call, x *strings.Builder, o entry) {
	if o.common {
		x.WriteString("<CommonPrefixes>")
		c.element(x, "Prefix", l.encoded(o.key))
		x.WriteString("</CommonPrefixes>")
		return
	}
	x.WriteString("<Contents>")
	c.element(x, "Key", l.encoded(o.key))
	if !c.s.opts.Lies.NoLastModified {
		c.element(x, "LastModified", o.time.Format("2006-01-02T15:04:05.000Z"))
	}
	if !c.s.opts.Lies.NoETag {
		c.element(x, "ETag", o.etag)
	}
	c.element(x, "Size", strconv.Itoa(len(o.body)))
	x.WriteString("<StorageClass>STANDARD</StorageClass></Contents>")
}

func (c *call) listing() (listing, *failure) {
	lies, q := c.s.opts.Lies, c.r.URL.Query()
	l := listing{prefix: q.Get("prefix"), after: q.Get("start-after"), token: q.Get("continuation-token"),
		delimiter: q.Get("delimiter"), max: 1000}
	l.encode = q.Get("encoding-type") == "url" && !lies.IgnoresEncodingType
	l.space20 = lies.EncodesSpaceAs20
	bad := func(message string) (listing, *failure) {
		return l, &failure{http.StatusBadRequest, "InvalidArgument", message, nil}
	}
	if s := q.Get("max-keys"); s != "" {
		n, err := strconv.Atoi(s)
		switch {
		case err != nil || n < 0:
			return bad("max-keys " + s)
		case n > 1000 && lies.LargePagesFail:
			return l, &failure{http.StatusInternalServerError, "InternalError", "too many keys", nil}
		case n <= 1000 || lies.NoPageCap:
			l.max = n
		}
	}
	if lies.PageSize > 0 {
		l.max = lies.PageSize
	}
	if !utf8.ValidString(l.prefix) || !utf8.ValidString(l.after) {
		return bad("the prefix is not UTF-8")
	}
	if l.after != "" && lies.RefusesStartAfter {
		return l, &failure{http.StatusNotImplemented, "NotImplemented", "start-after is not implemented", nil}
	}
	if lies.CleansPaths {
		l.prefix = wire.Cleaned(l.prefix)
	}
	if lies.IgnoresPrefix {
		l.prefix = ""
	}
	if lies.IgnoresStartAfter || lies.Unsorted {
		l.after = ""
	}
	if l.token != "" && !lies.EmptyPages {
		last, err := base64.RawURLEncoding.DecodeString(l.token)
		if err != nil || len(last) == 0 {
			return bad("the continuation token is not one of ours")
		}
		if l.after = string(last[1:]); last[0] == 'p' {
			l.inside = l.after
		}
	}
	return l, nil
}

// token is opaque, and never empty.
func token(key string, common bool) string {
	kind := "k"
	if common {
		kind = "p"
	}
	return base64.RawURLEncoding.EncodeToString([]byte(kind + key))
}

func (l listing) page(st *store, lies Lies) (entries []entry, more bool) {
	st.mu.RLock()
	defer st.mu.RUnlock()
	if lies.Unsorted {
		return l.shuffled(st)
	}
	common := l.inside
	st.objects.AscendGreaterOrEqual(object{key: max(l.prefix, l.after)}, func(o object) bool {
		if !strings.HasPrefix(o.key, l.prefix) {
			return false
		}
		if o.key == l.after && l.after != "" || common != "" && strings.HasPrefix(o.key, common) {
			return true
		}
		if len(entries) == l.max {
			more = true
			return false
		}
		e := l.entry(o)
		if e.common {
			common = e.key
		}
		entries = append(entries, e)
		return true
	})
	return entries, more && len(entries) > 0
}

// entry is the object, or the common prefix to which it belongs.
func (l listing) entry(o object) entry {
	if l.delimiter != "" {
		if head, _, found := strings.Cut(o.key[len(l.prefix):], l.delimiter); found {
			return entry{object{key: l.prefix + head + l.delimiter}, true}
		}
	}
	return entry{object: o}
}

// shuffled lists by a hash of the key: an order that is none, and yet the same from page to page.
func (l listing) shuffled(st *store) (entries []entry, more bool) {
	seen := map[string]bool{}
	st.objects.AscendGreaterOrEqual(object{key: l.prefix}, func(o object) bool {
		if !strings.HasPrefix(o.key, l.prefix) {
			return false
		}
		e := l.entry(o)
		if !seen[e.key] && (l.after == "" || byHash(e.key, l.after) > 0) {
			seen[e.key] = e.common
			entries = append(entries, e)
		}
		return true
	})
	slices.SortFunc(entries, func(a, b entry) int { return byHash(a.key, b.key) })
	if len(entries) > l.max {
		return entries[:l.max], true
	}
	return entries, false
}

func byHash(a, b string) int {
	x, y := fnv.New64a(), fnv.New64a()
	x.Write([]byte(a))
	y.Write([]byte(b))
	switch {
	case x.Sum64() < y.Sum64():
		return -1
	case x.Sum64() > y.Sum64():
		return 1
	}
	return strings.Compare(a, b)
}
