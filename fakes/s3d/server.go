package s3d

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/blobindex/indexd/fakes/internal/wire"
)

// TB is what New needs of a *testing.T.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Options configures a Server; nil and zero fields mean the defaults.
type Options struct {
	Buckets   []string         // that exist; nil: one called "bucket"
	Now       func() time.Time // the store's clock; nil: time.Now
	Versioned bool             // keep versions, write delete markers
	TLS       bool             // serve https, with a certificate that nobody knows
	Latency   time.Duration    // of every answer, for benchmarks
	Domain    string           // such as s3.test: what is sent to bucket.s3.test is for that bucket; path style goes on working

	// AccessKey and Region, if not empty, are the ones that requests must be signed for.
	AccessKey, Region string
	// Secret, if not empty, is the one that belongs to every access key: signatures are verified, and so is that they were
	// made within 15 minutes of the server's clock.
	Secret string
	// Refuse, if not nil, returns the S3 error code with which a request is refused, such as AccessDenied or
	// ExpiredToken, and "" for one that is let pass. It is asked for each key of a DeleteObjects, and for the request
	// itself with an empty key. It may be called from several goroutines.
	Refuse func(op Op, key string) string

	Lies Lies
}

// A Server is an S3 server. It is safe for concurrent use.
type Server struct {
	URL    string
	Client *http.Client // trusts the certificate, with TLS

	opts Options
	t    TB
	http *httptest.Server
	quit chan struct{} // closed when the server closes

	mu      sync.Mutex // guards all below
	stores  map[string]*store
	counts  map[Op]int
	headers map[Op]http.Header // of the last request of each operation
	plan    []*planned
	version uint64

	late sync.WaitGroup // requests that are carried out later than they were answered
}

// New starts a server that stops at the end of the test.
func New(t TB, opts *Options) *Server {
	t.Helper()
	s := &Server{t: t, quit: make(chan struct{}), stores: map[string]*store{}, counts: map[Op]int{},
		headers: map[Op]http.Header{}, version: 1 << 40}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Now == nil {
		s.opts.Now = time.Now
	}
	if s.opts.Buckets == nil {
		s.opts.Buckets = []string{"bucket"}
	}
	for _, name := range s.opts.Buckets {
		s.stores[name] = newStore()
	}
	s.http = httptest.NewUnstartedServer(s)
	s.http.Config.ErrorLog = quiet()
	if s.opts.TLS {
		s.http.StartTLS()
	} else {
		s.http.Start()
	}
	s.URL, s.Client = s.http.URL, s.http.Client()
	t.Cleanup(s.close)
	return s
}

func (s *Server) close() {
	close(s.quit)
	s.http.Close()
	s.late.Wait()
	s.reportUnstruck()
}

// An Op is an S3 operation, as AWS calls it.
type Op string

// The operations.
const (
	AnyOp         Op = ""
	ListObjectsV2 Op = "ListObjectsV2"
	PutObject     Op = "PutObject"
	GetObject     Op = "GetObject"
	HeadObject    Op = "HeadObject"
	DeleteObject  Op = "DeleteObject"
	DeleteObjects Op = "DeleteObjects"
	HeadBucket    Op = "HeadBucket"
	CreateBucket  Op = "CreateBucket"
	Unknown       Op = "Unknown"
)

// A call is one request on its way through the server.
type call struct {
	s           *Server
	w           http.ResponseWriter
	r           *http.Request
	op          Op
	bucket, key string
	now         time.Time
}

// ServeHTTP counts the request, lets the faults strike, and carries it out.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if bucket, virtual := strings.CutSuffix(r.Host, "."+s.opts.Domain); virtual && s.opts.Domain != "" {
		name, key = bucket, strings.TrimPrefix(r.URL.Path, "/")
	}
	c := &call{s: s, w: w, r: r, bucket: name, key: key}
	c.op = operation(r, key)
	s.count(c)
	f := s.struck(c)
	c.w = f.wrap(w)
	c.date()
	if !f.before(s, c) {
		return
	}
	wire.Wait(s.opts.Latency, s.quit)
	c.date()
	c.serve()
	f.after(c.w)
}

// date takes the time and tells it.
func (c *call) date() {
	c.now = c.s.opts.Now().UTC().Truncate(time.Second)
	if c.s.opts.Lies.NoDate {
		c.w.Header()["Date"] = nil
	} else {
		c.w.Header().Set("Date", c.now.Format(http.TimeFormat))
	}
	c.w.Header().Set("X-Amz-Request-Id", "s3d")
}

func operation(r *http.Request, key string) Op {
	q := r.URL.Query()
	switch {
	case key == "" && r.Method == http.MethodGet && q.Get("list-type") == "2":
		return ListObjectsV2
	case key == "" && r.Method == http.MethodPost && q.Has("delete"):
		return DeleteObjects
	case key == "" && r.Method == http.MethodHead:
		return HeadBucket
	case key == "" && r.Method == http.MethodPut && r.URL.RawQuery == "":
		return CreateBucket
	case key == "" || q.Has("uploads") || q.Has("uploadId"):
		return Unknown
	}
	switch r.Method {
	case http.MethodPut:
		return PutObject
	case http.MethodGet:
		return GetObject
	case http.MethodHead:
		return HeadObject
	case http.MethodDelete:
		return DeleteObject
	}
	return Unknown
}

func (c *call) serve() {
	if e := c.unauthorized(); e != nil {
		c.fail(*e)
		return
	}
	if c.s.opts.Lies.RefusesChecksums && hasChecksum(c.r) {
		c.fail(failure{http.StatusBadRequest, "InvalidArgument", "unsupported header", nil})
		return
	}
	if c.s.opts.Lies.RefusesOddPaths && c.key != "" && wire.Cleaned(c.key) != c.key {
		c.fail(failure{http.StatusBadRequest, "InvalidArgument", "this is no path", nil})
		return
	}
	if c.op == CreateBucket {
		c.s.mu.Lock()
		defer c.s.mu.Unlock()
		if c.s.stores[c.bucket] == nil {
			c.s.stores[c.bucket] = newStore()
		}
		return
	}
	serve := map[Op]func(*store){
		ListObjectsV2: c.list, PutObject: c.put, GetObject: c.get, HeadObject: c.get, DeleteObject: c.delete,
		DeleteObjects: c.deleteBatch, HeadBucket: func(*store) {},
	}[c.op]
	if serve == nil {
		c.fail(failure{http.StatusNotImplemented, "NotImplemented", "not implemented", nil})
		return
	}
	c.s.mu.Lock()
	st := c.s.stores[c.bucket]
	c.s.mu.Unlock()
	if st == nil {
		c.fail(failure{http.StatusNotFound, "NoSuchBucket", "The specified bucket does not exist", nil})
		return
	}
	serve(st)
}

var scope = regexp.MustCompile(`Credential=([^/]*)/[0-9]{8}/([^/]*)/`)

// unauthorized reports why the request is refused, nil if it is not.
func (c *call) unauthorized() *failure {
	if refuse := c.s.opts.Refuse; refuse != nil {
		if code := refuse(c.op, c.key); code != "" {
			return &failure{statusOf(code), code, "refused: " + code, nil}
		}
	}
	m := scope.FindStringSubmatch(c.r.Header.Get("Authorization"))
	if m == nil {
		m = []string{"", "", ""}
	}
	if want := c.s.opts.AccessKey; want != "" && m[1] != want {
		return &failure{http.StatusForbidden, "InvalidAccessKeyId", "The access key Id does not exist in our records.", nil}
	}
	if want := c.s.opts.Region; want != "" && m[2] != want {
		return &failure{http.StatusBadRequest, "AuthorizationHeaderMalformed",
			fmt.Sprintf("The authorization header is malformed; the region '%s' is wrong; expecting '%s'", m[2], want),
			http.Header{"X-Amz-Bucket-Region": {want}}}
	}
	if c.s.opts.Secret != "" {
		return c.verify()
	}
	return nil
}

func statusOf(code string) int {
	switch code {
	case "SlowDown", "ServiceUnavailable":
		return http.StatusServiceUnavailable
	case "InternalError":
		return http.StatusInternalServerError
	case "ExpiredToken", "InvalidToken":
		return http.StatusBadRequest
	case "MethodNotAllowed":
		return http.StatusMethodNotAllowed
	}
	return http.StatusForbidden
}

func (s *Server) count(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[c.op]++
	s.headers[c.op] = c.r.Header.Clone()
	s.headers[c.op]["Transfer-Encoding"] = c.r.TransferEncoding
}

// Counts returns how many requests of each operation arrived since the beginning or the last Reset.
func (s *Server) Counts() map[Op]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[Op]int{}
	for op, n := range s.counts {
		counts[op] = n
	}
	return counts
}

// Reset starts counting again from zero and returns the counts until then.
func (s *Server) Reset() map[Op]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := s.counts
	s.counts = map[Op]int{}
	return counts
}

// Header returns the headers of the last request of op, Transfer-Encoding among them.
func (s *Server) Header(op Op) http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.headers[op].Clone()
}
