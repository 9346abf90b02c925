package s3bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/internal/remote"
)

// Options configures a Bucket. Zero fields mean the defaults, but credentials must come from somewhere.
type Options struct {
	// Config is where the rest comes from: region, credentials, endpoint, HTTP client, as the SDK's package config
	// loads them. The fields below go before it.
	Config aws.Config

	Prefix      string // path inside the bucket below which everything lives; slashes around it and doubled ones are dropped
	Endpoint    string // URL of a store that is not AWS, such as http://127.0.0.1:7070
	Region      string // default with an endpoint: us-east-1; else it must come from Config
	VirtualHost bool   // https://bucket.host/key with a custom endpoint, too, instead of https://host/bucket/key
	Credentials aws.CredentialsProvider
	// HTTPClient is by default the SDK's, with idle connections kept for 256 requests at once. Redirects are followed by
	// neither that nor any *http.Client.
	HTTPClient s3.HTTPClient

	// Sorted says that a store with a custom endpoint was proved to list in byte order.
	Sorted bool
	// AnyKeys says that a store with a custom endpoint was proved to keep empty segments and control characters.
	AnyKeys bool
	// UnquotedIfMatch says that the store was proved to want ETags back without their quotes, as Ceph RGW 16 does. It can
	// be changed later, by the method of that name.
	UnquotedIfMatch bool

	Attempts  int           // of a request, the first one included; default 5
	Pause     time.Duration // before the second attempt, doubled each time; default 100 ms, 500 ms when throttled
	LongPause time.Duration // limit of a pause; default 5 s
}

// connections are kept open when idle.
const connections = 256

// A Bucket is a bucket on S3. It is safe for concurrent use; Close it after use.
type Bucket struct {
	client *s3.Client
	http   s3.HTTPClient
	name   string
	prefix string // "", or with a slash at its end
	region string
	creds  *aws.CredentialsCache

	custom   bool // not AWS
	flat     bool // a directory bucket
	sorted   bool
	anyKeys  bool
	attempts int
	pause    time.Duration // 0: the defaults
	limit    time.Duration
	maxEmpty int
	maxBody  int64

	renewals atomic.Int64 // how often credentials were dropped because they had expired
	batches  atomic.Int32 // the first batchMode that may work
	unquoted atomic.Bool  // see token
}

var _ bucket.Objects = (*Bucket)(nil)

// New returns the bucket called name. It sends no request, and the bucket is never created.
func New(name string, opts *Options) (*Bucket, error) {
	if opts == nil {
		opts = &Options{}
	}
	b := &Bucket{
		name: name, anyKeys: opts.AnyKeys, attempts: opts.Attempts, pause: opts.Pause, limit: opts.LongPause,
		maxEmpty: remote.MaxEmptyPages, maxBody: maxBody, flat: strings.HasSuffix(name, "--x-s3"),
	}
	if b.attempts <= 0 {
		b.attempts = 5
	}
	if b.limit <= 0 {
		b.limit = 5 * time.Second
	}
	var err error
	if b.prefix, err = cleanPrefix(opts.Prefix); err != nil {
		return nil, fmt.Errorf("opening S3 bucket %q: %w", name, err)
	}
	cfg, err := config(name, opts)
	if err != nil {
		return nil, fmt.Errorf("opening S3 bucket %q: %w", name, err)
	}
	b.creds, b.http = cfg.Credentials.(*aws.CredentialsCache), cfg.HTTPClient
	cfg.HTTPClient = plainBodies{b.http}
	b.client = s3.NewFromConfig(cfg, func(o *s3.Options) {
		if opts.Endpoint != "" {
			o.BaseEndpoint = aws.String(opts.Endpoint)
		}
		b.custom = o.BaseEndpoint != nil // by the options, or where package config looks
		if b.custom && o.Region == "" {
			o.Region = "us-east-1"
		}
		o.UsePathStyle = b.custom && !opts.VirtualHost
		o.Retryer, o.RetryMaxAttempts = aws.NopRetryer{}, 0 // Bucket.try retries: it must know what was ambiguous
		o.DisableLogOutputChecksumValidationSkipped = true
		if b.custom {
			o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
			o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		} else if o.RequestChecksumCalculation == 0 { // package config would have said so
			o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenSupported
			o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenSupported
		}
	})
	b.region = b.client.Options().Region
	if b.region == "" {
		return nil, fmt.Errorf("opening S3 bucket %q: no region is configured; set AWS_REGION, or name the region of the bucket", name)
	}
	b.sorted = opts.Sorted || !b.custom && !b.flat
	b.unquoted.Store(opts.UnquotedIfMatch)
	return b, nil
}

// Close closes idle connections, also those of an HTTP client that was given and can do that. Calls after it open new ones.
func (b *Bucket) Close() error {
	if c, ok := b.http.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
	return nil
}

// config merges the options into their Config, and refuses what no request should be tried with.
func config(name string, opts *Options) (aws.Config, error) {
	cfg := opts.Config.Copy()
	if name == "" || strings.ContainsAny(name, "/?#%\\ ") {
		return cfg, errors.New("this is no name of a bucket")
	}
	if opts.Region != "" {
		cfg.Region = opts.Region
	}
	if opts.Endpoint != "" {
		u, err := url.Parse(opts.Endpoint)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			return cfg, errors.New("the endpoint must be a URL with http or https")
		case u.User != nil || u.RawQuery != "" || u.Fragment != "":
			return cfg, errors.New("the endpoint must be a bare URL; credentials do not belong into it")
		}
	}
	if opts.Credentials != nil {
		cfg.Credentials = opts.Credentials
	}
	if cfg.Credentials == nil {
		return cfg, errors.New("no credentials are configured")
	}
	if _, ok := cfg.Credentials.(*aws.CredentialsCache); !ok {
		cfg.Credentials = aws.NewCredentialsCache(cfg.Credentials)
	}
	if opts.HTTPClient != nil {
		cfg.HTTPClient = opts.HTTPClient
	}
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = awshttp.NewBuildableClient()
	}
	// That of the SDK's package config is of this kind too, and may know authorities of its own.
	if c, ok := cfg.HTTPClient.(*awshttp.BuildableClient); ok {
		t := c.GetTransport()
		remote.Tune(t, connections)
		cfg.HTTPClient = &http.Client{Transport: t, Timeout: c.GetTimeout()}
	}
	if c, ok := cfg.HTTPClient.(*http.Client); ok {
		cfg.HTTPClient = straight(c)
	}
	return cfg, nil
}

// straight is the client without following redirects: they lead to another key or bucket, and the SDK's own client follows
// them round in a circle for ever.
func straight(c *http.Client) *http.Client {
	kept := *c
	kept.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &kept
}

// plainBodies hides from net/http that the SDK's request bodies are io.WriterTo. That of a closed one answers io.EOF as an
// error, so that a store that answers before the transport has looked for the end of the body loses its connection, in
// the middle of the answer.
type plainBodies struct{ s3.HTTPClient }

func (c plainBodies) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return c.HTTPClient.Do(r)
}

// Head tells about the object. To a HEAD a store cannot say whether it is the object or the whole bucket that is missing.
func (b *Bucket) Head(ctx context.Context, key bucket.Key) (bucket.Object, error) {
	full, err := b.usable(ctx, key)
	if err != nil {
		return bucket.Object{}, fmt.Errorf("heading %q: %w", key, err)
	}
	var out *s3.HeadObjectOutput
	err = b.try(ctx, reading, b.attempts, func() error {
		out, err = b.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &b.name, Key: &full})
		return err
	})
	if err != nil {
		return bucket.Object{}, fmt.Errorf("heading %q: %w", key, err)
	}
	return bucket.Object{Key: key, Size: aws.ToInt64(out.ContentLength), StoreTime: aws.ToTime(out.LastModified)}, nil
}
