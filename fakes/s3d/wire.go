package s3d

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// A failure is an answer that is none.
type failure struct {
	status        int
	code, message string
	header        http.Header
}

func (c *call) fail(f failure) {
	for name, values := range f.header {
		c.w.Header()[name] = values
	}
	var x strings.Builder
	x.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n<Error>")
	c.element(&x, "Code", f.code)
	c.element(&x, "Message", f.message)
	c.element(&x, "RequestId", "s3d")
	x.WriteString("</Error>")
	c.w.Header().Set("Content-Type", "application/xml")
	c.w.WriteHeader(f.status)
	if f.code != "" && c.r.Method != http.MethodHead {
		io.WriteString(c.w, x.String())
	}
}

func (c *call) element(x *strings.Builder, name, text string) {
	x.WriteString("<" + name + ">")
	for _, r := range text {
		switch {
		case r == '&':
			x.WriteString("&amp;")
		case r == '<':
			x.WriteString("&lt;")
		case r == '>':
			x.WriteString("&gt;")
		case (r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff) && c.s.opts.Lies.ManglesControl:
			x.WriteRune('\uFFFD')
		case r < ' ':
			// XML 1.0 has no way to say most of these; AWS writes the reference all the same, and parsers refuse it.
			fmt.Fprintf(x, "&#x%x;", r)
		default:
			x.WriteRune(r)
		}
	}
	x.WriteString("</" + name + ">")
}

// encoded is encoding-type=url as AWS does it: slashes stay, a space is a plus, a plus is %2B.
func (l listing) encoded(s string) string {
	if !l.encode {
		return s
	}
	s = strings.ReplaceAll(url.QueryEscape(s), "%2F", "/")
	if l.space20 {
		s = strings.ReplaceAll(s, "+", "%20")
	}
	return s
}

func hasChecksum(r *http.Request) bool {
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Amz-Checksum-") || name == "X-Amz-Sdk-Checksum-Algorithm" || name == "X-Amz-Trailer" {
			return true
		}
	}
	return framed(r)
}

func framed(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked") ||
		strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-")
}

// unframe takes the aws-chunked framing off: <hex length>[;signature]CRLF data CRLF …, a chunk of length 0, trailers.
func unframe(r *http.Request, data []byte) ([]byte, error) {
	if !framed(r) {
		return data, nil
	}
	var body []byte
	for {
		line, rest, ok := bytes.Cut(data, []byte("\r\n"))
		size, _, _ := bytes.Cut(line, []byte(";"))
		n, err := strconv.ParseUint(string(size), 16, 31)
		if !ok || err != nil || int(n) > len(rest) {
			return nil, errors.New("the framing of the body is broken")
		}
		if n == 0 {
			return body, nil
		}
		body = append(body, rest[:n]...)
		data = bytes.TrimPrefix(rest[n:], []byte("\r\n"))
	}
}

// checkDigests holds the body to the digests that came with it.
func checkDigests(h http.Header, data []byte) *failure {
	sum := md5.Sum(data)
	if got := h.Get("Content-Md5"); got != "" && got != base64.StdEncoding.EncodeToString(sum[:]) {
		return &failure{http.StatusBadRequest, "BadDigest", "The Content-MD5 you specified did not match", nil}
	}
	crc := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(data))
	if got := h.Get("X-Amz-Checksum-Crc32"); got != "" && got != base64.StdEncoding.EncodeToString(crc) {
		return &failure{http.StatusBadRequest, "BadDigest", "The CRC32 you specified did not match", nil}
	}
	return nil
}

// quiet drops what net/http says of connections that faults break.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
