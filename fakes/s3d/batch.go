package s3d

import (
	"encoding/xml"
	"io"
	"net/http"
	"strings"
)

// A batch is the body of a DeleteObjects request.
type batch struct {
	XMLName xml.Name `xml:"Delete"`
	Quiet   bool     `xml:"Quiet"`
	Objects []struct {
		Key  string `xml:"Key"`
		ETag string `xml:"ETag"`
	} `xml:"Object"`
}

func (c *call) deleteBatch(st *store) {
	lies := c.s.opts.Lies
	if lies.NoBatchDelete {
		c.fail(failure{http.StatusNotImplemented, "NotImplemented", "not implemented", nil})
		return
	}
	data, err := io.ReadAll(c.r.Body)
	if err != nil {
		return
	}
	if e := c.checkPayload(data); e != nil {
		c.fail(*e)
		return
	}
	if e := c.batchDigest(data); e != nil {
		c.fail(*e)
		return
	}
	var b batch
	if err := xml.Unmarshal(data, &b); err != nil || len(b.Objects) == 0 || len(b.Objects) > 1000 {
		c.fail(failure{http.StatusBadRequest, "MalformedXML", "The XML you provided was not well-formed", nil})
		return
	}
	var x strings.Builder
	x.WriteString(`<DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">`)
	for _, o := range b.Objects {
		code := c.deleteOne(st, o.Key, o.ETag)
		switch {
		case lies.BatchForgets:
		case code != "":
			x.WriteString("<Error>")
			c.element(&x, "Key", o.Key)
			c.element(&x, "Code", code)
			c.element(&x, "Message", "refused: "+code)
			x.WriteString("</Error>")
		case !b.Quiet:
			x.WriteString("<Deleted>")
			c.element(&x, "Key", o.Key)
			x.WriteString("</Deleted>")
		}
	}
	x.WriteString("</DeleteResult>")
	c.w.Header().Set("Content-Type", "application/xml")
	io.WriteString(c.w, x.String())
}

// deleteOne returns the code of the key's error, "" if there is none.
func (c *call) deleteOne(st *store, key, etag string) string {
	if refuse := c.s.opts.Refuse; refuse != nil {
		if code := refuse(c.op, key); code != "" {
			return code
		}
	}
	one := *c
	one.key = key
	key = one.stored()
	st.mu.Lock()
	defer st.mu.Unlock()
	have, exists := st.objects.Get(object{key: key})
	if etag != "" && !c.s.opts.Lies.BatchIgnoresETag && (!exists || etag != have.etag) {
		return "PreconditionFailed"
	}
	c.remove(st, key)
	return ""
}

// batchDigest: DeleteObjects must carry a digest of its body, of either kind.
func (c *call) batchDigest(data []byte) *failure {
	h := c.r.Header
	if c.s.opts.Lies.BatchWantsMD5 && h.Get("Content-Md5") == "" {
		return &failure{http.StatusBadRequest, "InvalidRequest", "Missing required header for this request: Content-MD5", nil}
	}
	if h.Get("Content-Md5") == "" && !hasChecksum(c.r) {
		return &failure{http.StatusBadRequest, "InvalidRequest",
			"Missing required header for this request: Content-MD5 OR x-amz-checksum-*", nil}
	}
	return checkDigests(h, data)
}
