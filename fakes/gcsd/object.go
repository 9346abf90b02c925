package gcsd

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// find returns the generation that is asked for, by default the live one, if the conditions allow it to be read.
func (s *Server) find(st *store, r *request) (*object, *failure) {
	c, f := fromQuery(r.Query)
	if r.Op == XMLRead {
		c, f = fromHeader(r.http.Header)
	}
	if f != nil {
		return nil, f
	}
	o := st.get(r.Name)
	if text := r.Query.Get("generation"); text != "" {
		o = st.generation(r.Name, text)
	}
	if o == nil {
		if s.opts.Lies.AbsentIsDenied {
			return nil, fail(403, "forbidden", "The caller does not have storage.objects.list access to the bucket.")
		}
		return nil, absent(r)
	}
	if f := c.of(s.opts.Lies, s.opts.Lies.ReadIgnoresConditions).check(o); f != nil {
		return nil, f
	}
	return o, nil
}

func absent(r *request) *failure {
	if r.Op == XMLRead {
		return fail(404, "NoSuchKey", "The specified key does not exist.")
	}
	return fail(404, "notFound", fmt.Sprintf("No such object: %s/%s", r.Bucket, r.Name))
}

func (st *store) generation(name, text string) *object {
	if o := st.get(name); o != nil && fmt.Sprint(o.generation) == text {
		return o
	}
	for _, o := range st.archive {
		if o.name == name && fmt.Sprint(o.generation) == text {
			return o
		}
	}
	return nil
}

func (s *Server) get(st *store, r *request) (*answer, *failure) {
	o, f := s.find(st, r)
	if f != nil {
		return nil, f
	}
	return jsonAnswer(s.resource(r.Bucket, o)), nil
}

func (s *Server) download(st *store, r *request) (*answer, *failure) {
	o, f := s.find(st, r)
	if f != nil {
		return nil, f
	}
	o = s.seen(st, o)
	a := &answer{200, http.Header{}, o.body}
	a.set("Content-Type", o.meta.ContentType)
	a.set("Cache-Control", o.meta.CacheControl)
	a.set("ETag", strconv.Quote(o.etag()))
	a.set("X-Goog-Metageneration", fmt.Sprint(o.metageneration))
	a.set("X-Goog-Stored-Content-Length", fmt.Sprint(len(o.body)))
	if !s.opts.Lies.NoGeneration {
		a.set("X-Goog-Generation", fmt.Sprint(o.generation))
	}
	if !s.opts.Lies.NoChecksum {
		a.set("X-Goog-Hash", "crc32c="+o.crc32c()+",md5="+o.md5())
	}
	if !s.opts.Lies.NoUpdated {
		a.set("Last-Modified", o.updated.Format(http.TimeFormat))
	}
	if text := r.http.Header.Get("Range"); text != "" {
		first, last, ok := parseRange(text, len(o.body))
		if !ok {
			return nil, fail(416, "requestedRangeNotSatisfiable", "The requested range cannot be satisfied.")
		}
		a.code, a.body = http.StatusPartialContent, o.body[first:last+1]
		a.set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(o.body)))
	}
	return a, nil
}

// seen is the object as this server shows its body, which may be another one than the one that it has.
func (s *Server) seen(st *store, o *object) *object {
	if s.opts.Lies.CachesReads {
		if cached := st.cache[o.name]; cached != nil {
			return cached
		}
		if !strings.Contains(o.meta.CacheControl, "no-store") {
			st.cache[o.name] = o
		}
	}
	before := st.former[o.name]
	delete(st.former, o.name)
	if before == nil || !s.opts.Lies.OldBodyNewGeneration {
		return o
	}
	torn := *o
	torn.body = before.body
	return &torn
}

// parseRange reads "bytes=first-", "bytes=first-last" and "bytes=-count".
func parseRange(text string, size int) (first, last int, ok bool) {
	text, ok = strings.CutPrefix(text, "bytes=")
	from, to, dash := strings.Cut(text, "-")
	if !ok || !dash {
		return 0, 0, false
	}
	last = size - 1
	var err error
	if from == "" {
		n, err := strconv.Atoi(to)
		return max(size-n, 0), last, err == nil && n > 0 && size > 0
	}
	if first, err = strconv.Atoi(from); err != nil {
		return 0, 0, false
	}
	if to != "" {
		n, err := strconv.Atoi(to)
		if err != nil {
			return 0, 0, false
		}
		last = min(last, n)
	}
	return first, last, first <= last
}

func (s *Server) delete(st *store, r *request) (*answer, *failure) {
	c, f := fromQuery(r.Query)
	if f != nil {
		return nil, f
	}
	o := st.get(r.Name)
	if o == nil {
		return nil, absent(r)
	}
	ignored := s.opts.Lies.DeleteIgnoresConditions
	if text := r.Query.Get("generation"); text != "" && text != fmt.Sprint(o.generation) && !ignored {
		return nil, absent(r)
	}
	if f := c.of(s.opts.Lies, ignored).check(o).forWrite(); f != nil {
		return nil, f
	}
	st.live.Delete(o)
	delete(st.former, o.name)
	st.gone[o.name] = true
	s.retire(st, o)
	return &answer{204, http.Header{}, nil}, nil
}

// patch changes metadata only: another metageneration of the same generation.
func (s *Server) patch(st *store, r *request) (*answer, *failure) {
	c, f := fromQuery(r.Query)
	if f != nil {
		return nil, f
	}
	o := st.get(r.Name)
	if o == nil {
		return nil, absent(r)
	}
	if f := c.of(s.opts.Lies, s.opts.Lies.WriteIgnoresConditions).check(o).forWrite(); f != nil {
		return nil, f
	}
	now := s.now()
	if f := s.pace(st, r.Name, now); f != nil {
		return nil, f
	}
	changed := *o
	if err := json.Unmarshal(r.body, &changed.meta); err != nil {
		return nil, fail(400, "parseError", "Parse Error")
	}
	changed.metageneration++
	changed.updated = now
	st.live.ReplaceOrInsert(&changed)
	return jsonAnswer(s.resource(r.Bucket, &changed)), nil
}
