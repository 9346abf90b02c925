package gcsbucket

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/storage"
	"google.golang.org/api/option"
	htransport "google.golang.org/api/transport/http"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/internal/remote"
)

// Defaults of Options.
const (
	defaultAttempts   = 5
	defaultFirstPause = 200 * time.Millisecond
)

// emulatorEnv is the official client's: a host and port, with or without a scheme, that is asked instead of Google.
const emulatorEnv = "STORAGE_EMULATOR_HOST"

// Options says which bucket to open, and how. Only Bucket is required.
type Options struct {
	// Bucket is the name of the bucket. It must exist.
	Bucket string
	// Prefix is a path inside the bucket below which all keys live; slashes at its ends do not count.
	Prefix string
	// Endpoint is the base URL of another server that speaks this API, such as http://127.0.0.1:7074. It is asked
	// without authentication, as the one named by the environment variable STORAGE_EMULATOR_HOST is, over which it has
	// precedence. Empty: that one, else Google's.
	Endpoint string
	// HTTPClient is used instead of one with Application Default Credentials. It must authenticate by itself.
	HTTPClient *http.Client
	// ClientOptions are passed on to the official client, credentials and endpoints of other universes for example.
	// None may be an HTTP client.
	ClientOptions []option.ClientOption
	// Sorted says that listings are known to come in byte order and to honour a start offset, or to ignore it. It is
	// not needed for Google's own service, of which that is documented.
	Sorted bool
	// PathKeys says that the server takes names for paths and cleans them, as some emulators do: it stores an object
	// with an empty or a dot segment in its name, and then leads whoever asks for it to another one. Such keys are
	// refused with bucket.ErrInvalidKey.
	PathKeys bool
	// Attempts is how often a call is sent at the most; 0: 5.
	Attempts int
	// FirstPause is waited before the second attempt, twice that before the third, and so on, each with up to half
	// of it more by chance; five times that at the least after an answer that asks for slower writes. 0: 200 ms.
	FirstPause time.Duration
}

// A Bucket is an object store in a Cloud Storage bucket. It is safe for concurrent use; Close it after use.
type Bucket struct {
	conn       atomic.Pointer[connection]
	connect    func(context.Context) (*connection, error)
	ours       bool       // the credentials are looked for by us, so that new ones can be
	renewing   sync.Mutex // held while a connection with new credentials is made
	name       string
	root       string // with a slash at its end, or empty
	sorted     bool
	pathKeys   bool
	attempts   int
	firstPause time.Duration
	maxEmpty   int
}

var _ bucket.Objects = (*Bucket)(nil)

// A connection is the official client with its credentials.
type connection struct {
	client *storage.Client
	handle *storage.BucketHandle
	base   http.RoundTripper // below what authenticates
}

// close lets go of idle connections, which the official client does not: what it and its credentials put around the
// transport hides them from it. Requests under way go on.
func (c *connection) close() error {
	if t, ok := c.base.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
	return c.client.Close()
}

// New opens the bucket. It makes no request of it, so a bucket that is absent or closed to this caller shows at the
// first call. Credentials are looked for now, and their absence is an error.
func New(ctx context.Context, opts Options) (*Bucket, error) {
	b, err := open(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("opening bucket gs://%s: %w", opts.Bucket, err)
	}
	return b, nil
}

func open(ctx context.Context, opts Options) (*Bucket, error) {
	root := strings.Trim(opts.Prefix, "/")
	if root != "" {
		root += "/"
	}
	if opts.Bucket == "" || strings.Contains(opts.Bucket, "/") {
		return nil, errors.New("not the name of a bucket")
	}
	if err := checkName(root + "x"); err != nil {
		return nil, fmt.Errorf("prefix %q: %w", opts.Prefix, err)
	}
	target, err := targetOf(opts)
	if err != nil {
		return nil, err
	}
	b := &Bucket{
		connect: func(ctx context.Context) (*connection, error) {
			base := transportOf(opts.HTTPClient)
			client, err := newClient(ctx, opts, target, base)
			if err != nil {
				return nil, err
			}
			// The driver retries by itself: see the package comment.
			handle := client.Bucket(opts.Bucket).Retryer(storage.WithPolicy(storage.RetryNever))
			return &connection{client, handle, base}, nil
		},
		ours:       opts.HTTPClient == nil && !target.open,
		name:       opts.Bucket,
		root:       root,
		sorted:     opts.Sorted || target.google,
		pathKeys:   opts.PathKeys,
		attempts:   opts.Attempts,
		firstPause: opts.FirstPause,
		maxEmpty:   remote.MaxEmptyPages,
	}
	if b.attempts <= 0 {
		b.attempts = defaultAttempts
	}
	if b.firstPause <= 0 {
		b.firstPause = defaultFirstPause
	}
	conn, err := b.connect(ctx)
	if err != nil {
		return nil, err
	}
	b.conn.Store(conn)
	return b, nil
}

// Close closes idle connections, also those of an HTTP client that was given and can do that. Calls after it open new ones.
func (b *Bucket) Close() error { return b.conn.Load().close() }

// renew looks for credentials again, because those of old were not accepted, unless somebody else has meanwhile. It reports
// whether there are others now: those of a client that authenticates by itself are not ours to renew.
func (b *Bucket) renew(ctx context.Context, old *connection) bool {
	if !b.ours {
		return false
	}
	b.renewing.Lock()
	defer b.renewing.Unlock()
	if b.conn.Load() != old {
		return true
	}
	conn, err := b.connect(context.WithoutCancel(ctx)) // it outlives this call
	if err != nil {
		return false
	}
	b.conn.Store(conn)
	old.close()
	return true
}

// A target is the server to be asked.
type target struct {
	endpoint string // empty: left to the client and its environment
	open     bool   // asked without authentication
	google   bool   // Google's own service
}

func targetOf(opts Options) (target, error) {
	if opts.Endpoint == "" {
		emulated := os.Getenv(emulatorEnv) != ""
		// Options of the client may name any endpoint, and cannot be looked into.
		return target{open: emulated, google: !emulated && len(opts.ClientOptions) == 0}, nil
	}
	u, err := url.Parse(opts.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		return target{}, fmt.Errorf("endpoint %q is not of the form http://host:port", opts.Endpoint)
	}
	return target{endpoint: u.Scheme + "://" + u.Host + "/storage/v1/", open: true}, nil
}

// newClient puts base below what authenticates, so that the driver sees what really leaves.
func newClient(ctx context.Context, opts Options, to target, base http.RoundTripper) (*storage.Client, error) {
	settings := append([]option.ClientOption{option.WithScopes(storage.ScopeReadWrite)}, opts.ClientOptions...)
	if to.open {
		settings = append(settings, option.WithoutAuthentication())
	}
	if to.endpoint != "" {
		settings = append(settings, option.WithEndpoint(to.endpoint))
	}
	hc := &http.Client{}
	if opts.HTTPClient != nil {
		*hc = *opts.HTTPClient
		hc.Transport = recorder{base}
		settings = append(settings, option.WithoutAuthentication())
	} else {
		var err error
		if hc.Transport, err = htransport.NewTransport(ctx, recorder{base}, settings...); err != nil {
			return nil, err
		}
	}
	return storage.NewClient(ctx, append(settings, option.WithHTTPClient(hc), storage.WithJSONReads())...)
}
