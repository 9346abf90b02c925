package s3d

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

var (
	noSuchKey = failure{http.StatusNotFound, "NoSuchKey", "The specified key does not exist.", nil}
	unmet     = failure{http.StatusPreconditionFailed, "PreconditionFailed",
		"At least one of the pre-conditions you specified did not hold", nil}
)

// get serves GET and HEAD; net/http sends no body to a HEAD.
func (c *call) get(st *store) {
	o, cut, ok := c.seen(st)
	if !ok {
		if c.s.opts.Versioned && c.marked(st) {
			c.w.Header().Set("X-Amz-Delete-Marker", "true")
		}
		c.fail(noSuchKey)
		return
	}
	c.describe(o)
	if !c.s.opts.Lies.IgnoresReadConditions {
		if status := c.readCondition(o); status == http.StatusNotModified {
			c.w.WriteHeader(status)
			return
		} else if status != 0 {
			c.fail(unmet)
			return
		}
	}
	body, status := o.body, http.StatusOK
	if text := c.r.Header.Get("Range"); text != "" {
		first, end, ok := parseRange(text, len(body))
		if !ok {
			c.fail(failure{http.StatusRequestedRangeNotSatisfiable, "InvalidRange", "The requested range is not satisfiable", nil})
			return
		}
		c.w.Header().Set("Content-Range", "bytes "+strconv.Itoa(first)+"-"+strconv.Itoa(end-1)+"/"+strconv.Itoa(len(body)))
		body, status = body[first:end], http.StatusPartialContent
	}
	c.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	c.w.WriteHeader(status)
	if c.r.Method != http.MethodGet {
		return
	}
	if cut {
		io.WriteString(c.w, body[:len(body)/2])
		http.NewResponseController(c.w).Flush()
		panic(http.ErrAbortHandler)
	}
	io.WriteString(c.w, body)
}

// seen is the object as this server shows it, which may be another one than the one that it has; cut says that its body
// will break off.
func (c *call) seen(st *store) (o object, cut, ok bool) {
	lies, key := c.s.opts.Lies, c.stored()
	st.mu.Lock()
	defer st.mu.Unlock()
	o, ok = st.objects.Get(object{key: key})
	if !ok || c.r.Method != http.MethodGet {
		return o, false, ok
	}
	if lies.CachesReads {
		if old, cached := st.cache[key]; cached {
			return old, false, true
		}
		if !strings.Contains(o.cacheControl, "no-store") {
			st.cache[key] = o
		}
	}
	before, fresh := st.former[key]
	delete(st.former, key)
	switch {
	case !fresh:
	case lies.AbsentAfterOverwrite:
		return o, false, false
	case lies.CutAfterOverwrite:
		return o, true, true
	case lies.OldBodyNewETag:
		o.body = before.body
	}
	return o, false, true
}

func (c *call) marked(st *store) bool {
	st.mu.RLock()
	defer st.mu.RUnlock()
	return st.marked[c.stored()]
}

func (c *call) describe(o object) {
	h := c.w.Header()
	c.tellETag(o)
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Accept-Ranges", "bytes")
	if !c.s.opts.Lies.NoLastModified {
		h.Set("Last-Modified", o.time.Format(http.TimeFormat))
	}
	if o.version != "" {
		h.Set("X-Amz-Version-Id", o.version)
	}
	if o.cacheControl != "" {
		h.Set("Cache-Control", o.cacheControl)
	}
}

func (c *call) tellETag(o object) {
	switch lies := c.s.opts.Lies; {
	case lies.NoETag:
	case lies.WeakETags:
		c.w.Header().Set("ETag", "W/"+o.etag)
	default:
		c.w.Header().Set("ETag", o.etag)
	}
}

// readCondition is the status to which the conditions lead, 0 if they let the request pass. Those on ETags go before those
// on times (RFC 9110, section 13.2.2).
func (c *call) readCondition(o object) int {
	h := c.r.Header
	since := func(name string) (later, given bool) {
		at, err := http.ParseTime(h.Get(name))
		return o.time.Truncate(time.Second).After(at), err == nil
	}
	if match := h.Get("If-Match"); match != "" {
		if !names(match, o.etag) {
			return http.StatusPreconditionFailed
		}
	} else if later, given := since("If-Unmodified-Since"); given && later {
		return http.StatusPreconditionFailed
	}
	if none := h.Get("If-None-Match"); none != "" {
		if names(none, o.etag) {
			return http.StatusNotModified
		}
	} else if later, given := since("If-Modified-Since"); given && !later {
		return http.StatusNotModified
	}
	return 0
}

func names(condition, etag string) bool {
	for one := range strings.SplitSeq(condition, ",") {
		if one = strings.TrimSpace(one); one == "*" || one == etag {
			return true
		}
	}
	return false
}

// parseRange reads "bytes=first-", "bytes=first-last" and "bytes=-count"; end is behind the last byte.
func parseRange(text string, size int) (first, end int, ok bool) {
	text, ok = strings.CutPrefix(text, "bytes=")
	from, to, dash := strings.Cut(text, "-")
	if !ok || !dash || size == 0 {
		return 0, 0, false
	}
	if from == "" {
		n, err := strconv.Atoi(to)
		return max(size-n, 0), size, err == nil && n > 0
	}
	first, err := strconv.Atoi(from)
	end = size
	if to != "" && err == nil {
		last, e := strconv.Atoi(to)
		end, err = min(last+1, size), e
	}
	return first, end, err == nil && first < end
}
