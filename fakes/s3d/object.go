package s3d

import (
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/blobindex/indexd/fakes/internal/wire"
)

// stored is the key that the server uses for the one that was asked for.
func (c *call) stored() string {
	if c.s.opts.Lies.CleansPaths {
		return wire.Cleaned(c.key)
	}
	return c.key
}

func (c *call) put(st *store) {
	if c.r.Header.Get("Content-Length") == "" && len(c.r.TransferEncoding) == 0 {
		c.fail(failure{http.StatusLengthRequired, "MissingContentLength", "Content-Length is required", nil})
		return
	}
	if len(c.key) > 1024 {
		c.fail(failure{http.StatusBadRequest, "KeyTooLongError", "Your key is too long", nil})
		return
	}
	data, e := c.body()
	if e != nil {
		c.fail(*e)
		return
	}
	if data == nil {
		return // nobody is there to read an answer, and nothing is stored
	}
	o := newObject(c.stored(), string(data), c.now)
	o.cacheControl = c.r.Header.Get("Cache-Control")
	st.mu.Lock()
	defer st.mu.Unlock()
	if e := c.refused(st, o.key); e != nil {
		c.fail(*e)
		return
	}
	if c.s.opts.Versioned {
		o.version = c.s.nextVersion()
		c.w.Header().Set("X-Amz-Version-Id", o.version)
	}
	if before, over := st.objects.ReplaceOrInsert(o); over {
		st.former[o.key] = before
	}
	st.versions[o.key]++
	delete(st.marked, o.key)
	c.tellETag(o)
}

// body reads the body of a PUT without its framing. It is nil if it broke off.
func (c *call) body() ([]byte, *failure) {
	data, err := io.ReadAll(c.r.Body)
	if err != nil {
		return nil, nil
	}
	if e := c.checkPayload(data); e != nil {
		return nil, e
	}
	if !c.s.opts.Lies.StoresFraming {
		if data, err = unframe(c.r, data); err != nil {
			return nil, &failure{http.StatusBadRequest, "IncompleteBody", err.Error(), nil}
		}
	}
	if e := checkDigests(c.r.Header, data); e != nil {
		return nil, e
	}
	if data == nil {
		data = []byte{}
	}
	return data, nil
}

// refused reports why a PUT is not carried out, nil if it is. Under st.mu, which it may let go of for a while.
func (c *call) refused(st *store, key string) *failure {
	lies := c.s.opts.Lies
	if last, ok := st.written[key]; ok && lies.Pace > 0 && c.s.opts.Now().Sub(last) < lies.Pace {
		if lies.PaceIs429 {
			return &failure{http.StatusTooManyRequests, "TooManyRequests", "Please reduce your request rate.", nil}
		}
		return &failure{http.StatusServiceUnavailable, "SlowDown", "Please reduce your request rate.", nil}
	}
	if c.r.Header.Get("If-Match") != "" || c.r.Header.Get("If-None-Match") != "" {
		if e := c.conditional(st, key); e != nil {
			return e
		}
	} else if lies.Demands412 {
		return &unmet
	}
	if lies.Pace > 0 {
		st.written[key] = c.s.opts.Now()
	}
	return nil
}

// conditional holds the object to the conditions of a PUT, and is done with it when the PUT may be carried out.
func (c *call) conditional(st *store, key string) *failure {
	lies := c.s.opts.Lies
	if st.conditional++; lies.ConflictEvery > 0 && st.conditional%lies.ConflictEvery == 0 {
		return &failure{http.StatusConflict, "ConditionalRequestConflict",
			"The conditional request cannot succeed due to a conflicting operation against this resource.", nil}
	}
	if lies.ContentionFails && st.racing[key] > 0 {
		return &failure{http.StatusInternalServerError, "InternalError", "We encountered an internal error. Please try again.", nil}
	}
	e := c.precondition(st, key)
	if e != nil || lies.RaceWindow <= 0 {
		return e
	}
	st.racing[key]++
	st.mu.Unlock()
	wire.Wait(lies.RaceWindow, c.s.quit)
	st.mu.Lock()
	st.racing[key]--
	return nil
}

// precondition reports why a conditional PUT is refused, nil if it is not.
func (c *call) precondition(st *store, key string) *failure {
	lies := c.s.opts.Lies
	have, exists := st.objects.Get(object{key: key})
	match, none := c.r.Header.Get("If-Match"), c.r.Header.Get("If-None-Match")
	overwrites := lies.CreateOnlyOverwrites || lies.VersionedOverwrites && c.s.opts.Versioned
	same := match == "*" || strings.Trim(match, `"`) == strings.Trim(have.etag, `"`) // AWS takes it without quotes, too
	if lies.QuotedIfMatchFails && strings.HasPrefix(match, `"`) {
		return &unmet
	}
	switch {
	case none != "" && none != "*":
		return &failure{http.StatusNotImplemented, "NotImplemented", "If-None-Match takes * only", nil}
	case none == "*" && exists && !overwrites:
		return &unmet
	case none == "*" && st.marked[key] && lies.MarkerBlocksCreate:
		return &unmet
	case match == "" || lies.IgnoresIfMatch:
		return nil
	case !exists && lies.IfMatchCreates:
		return nil
	case !exists && lies.IfMatchAbsent412:
		return &unmet
	case !exists:
		return &noSuchKey
	case !same:
		return &unmet
	}
	return nil
}

func (c *call) delete(st *store) {
	st.mu.Lock()
	defer st.mu.Unlock()
	key := c.stored()
	have, exists := st.objects.Get(object{key: key})
	if match := c.r.Header.Get("If-Match"); match != "" && !c.s.opts.Lies.DeleteIgnoresIfMatch {
		if !exists {
			c.fail(noSuchKey)
			return
		}
		if match != have.etag && match != "*" {
			c.fail(unmet)
			return
		}
	}
	if version := c.remove(st, key); version != "" {
		c.w.Header().Set("X-Amz-Delete-Marker", "true")
		c.w.Header().Set("X-Amz-Version-Id", version)
	}
	c.w.WriteHeader(http.StatusNoContent)
}

// remove takes the object away and returns the version of the delete marker, "" without versioning. Under st.mu.
func (c *call) remove(st *store, key string) string {
	st.objects.Delete(object{key: key})
	delete(st.former, key)
	if !c.s.opts.Versioned {
		return ""
	}
	st.versions[key]++
	st.marked[key] = true
	return c.s.nextVersion()
}

// nextVersion takes a number from one counter, large and with gaps: who takes versions for small or dense fails.
func (s *Server) nextVersion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version += 1009
	return strconv.FormatUint(s.version, 36)
}
