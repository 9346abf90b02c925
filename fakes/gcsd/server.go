package gcsd

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"time"
)

// An Op is a kind of request; the zero value stands for any.
type Op string

// The kinds.
const (
	AnyOp    Op = ""
	List     Op = "List"
	Get      Op = "Get"      // metadata
	Download Op = "Download" // a body, by the JSON API
	XMLRead  Op = "XMLRead"  // GET or HEAD by the XML API
	Insert   Op = "Insert"   // an upload in one request
	Begin    Op = "Begin"    // of a resumable upload
	Chunk    Op = "Chunk"    // of a resumable upload
	Patch    Op = "Patch"
	Delete   Op = "Delete"
	Other    Op = "Other" // whatever else; answered with 404 or 501
)

// A Request is what reached the socket.
type Request struct {
	Op     Op
	Bucket string
	Name   string // of the object; empty for List and, until they are read, uploads that name it in their body only
	Query  url.Values
	Header http.Header
}

// Options configures a Server; nil and zero fields mean the defaults.
type Options struct {
	Buckets   []string         // that exist; nil: one named "bucket"
	Now       func() time.Time // the server's clock; nil: time.Now. Ticking makes one by which no write is too early
	Lies      Lies
	Versioned bool               // keep old generations, listed to who asks for versions
	Token     string             // if not empty, 401 to requests that do not bear it
	Deny      func(Request) bool // 403 to the requests that it reports
}

// A Server is a Cloud Storage server. It is safe for concurrent use; Close it after use.
type Server struct {
	opts Options
	http *httptest.Server
	quit chan struct{}  // closed when the server closes
	once sync.Once      // closes it
	late sync.WaitGroup // requests that are carried out later than they were answered

	mu       sync.Mutex // guards all below
	buckets  map[string]*store
	sessions map[string]*session
	counter  int64 // the last generation given out
	requests []Request
	plan     []*planned
}

// New starts a server.
func New(opts *Options) *Server { return start(opts, false) }

// NewTLS starts a server that speaks TLS, with a certificate that no client trusts by itself. Client gives one that does.
func NewTLS(opts *Options) *Server { return start(opts, true) }

func start(opts *Options, encrypted bool) *Server {
	s := &Server{quit: make(chan struct{}), buckets: map[string]*store{}, sessions: map[string]*session{}, counter: 1_700_000_000_000_000}
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
		s.buckets[name] = newStore()
	}
	// No ServeMux: it would clean paths, which are keys.
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.http.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that hang up are what tests are about
	if encrypted {
		s.http.StartTLS()
	} else {
		s.http.Start()
	}
	return s
}

// Close ends the server and its connections.
func (s *Server) Close() {
	s.once.Do(func() { close(s.quit) })
	s.http.CloseClientConnections()
	s.http.Close()
	s.late.Wait()
}

// Ticking is a clock for Options.Now that moves on by step each time it is read. With a second or more no write comes too
// early after the last one of its name.
func Ticking(from time.Time, step time.Duration) func() time.Time {
	var mu sync.Mutex
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		from = from.Add(step)
		return from
	}
}

// URL is the server's base URL, without a slash at its end.
func (s *Server) URL() string { return s.http.URL }

// Client trusts the server's certificate.
func (s *Server) Client() *http.Client { return s.http.Client() }

// Requests returns what has reached the socket since the beginning or the last Reset, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// SetToken makes token the one that requests must bear from now on, in place of Options.Token.
func (s *Server) SetToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opts.Token = token
}

// Reset forgets the requests, and returns them counted by kind.
func (s *Server) Reset() map[Op]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[Op]int{}
	for _, r := range s.requests {
		counts[r.Op]++
	}
	s.requests = nil
	return counts
}

// now is what the server takes for the time, in the milliseconds that it tells.
func (s *Server) now() time.Time {
	return s.opts.Now().Add(s.opts.Lies.ClockAhead).UTC().Truncate(time.Millisecond)
}

// nextGeneration leaves gaps, as the service does: whoever counts on it will be wrong. Under mu.
func (s *Server) nextGeneration() int64 {
	s.counter += 1 + s.counter%997
	return s.counter
}
