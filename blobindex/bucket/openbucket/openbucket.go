package openbucket

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/logging"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
	"github.com/blobindex/indexd/blobindex/bucket/gcsbucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/blobindex/bucket/s3bucket"
)

// Errors of this package. Nothing was asked of any bucket then.
var (
	// ErrAddress: the address cannot be right.
	ErrAddress = errors.New("openbucket: wrong address")
	// ErrConfig: what the address leaves to the environment, such as region and credentials, is not there or not right.
	ErrConfig = errors.New("openbucket: not configured")
)

// A Bucket is what a driver offers, and whatever else it is: assert for more.
type Bucket interface {
	bucket.Objects
	io.Closer
}

// Open parses the address and opens the bucket, which must be there.
func Open(ctx context.Context, address string) (Bucket, error) {
	l, err := Parse(address)
	if err != nil {
		return nil, err
	}
	return l.Open(ctx)
}

// Open opens the bucket. A directory must be there; a remote bucket is not asked for anything yet, so that its absence
// shows at the first request. Credentials are looked for now, and for those of Google that there are some at all. ctx is
// for the opening only.
func (l *Location) Open(ctx context.Context) (Bucket, error) { return l.open(ctx, dirbucket.Open) }

// Create is Open, but makes a directory that is not there. Remote buckets are never created.
func (l *Location) Create(ctx context.Context) (Bucket, error) { return l.open(ctx, dirbucket.Create) }

func (l *Location) open(ctx context.Context, dir func(string, *dirbucket.Options) (*dirbucket.Bucket, error)) (Bucket, error) {
	switch l.scheme {
	case "file":
		b, err := dir(l.path, nil)
		if err != nil {
			return nil, err // not b, which would be an interface that is not nil
		}
		return b, nil
	case "mem":
		return memory{membucket.New(nil)}, nil
	case "s3":
		return l.openS3(ctx)
	case "gs":
		return l.openGCS(ctx)
	}
	return nil, fmt.Errorf("%w: %q", ErrAddress, l)
}

func (l *Location) openS3(ctx context.Context) (Bucket, error) {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithLogger(logging.Nop{})) // errors are enough
	if err != nil {
		return nil, fmt.Errorf("%w: reading the configuration of the AWS tools: %w", ErrConfig, err)
	}
	b, err := s3bucket.New(l.bucket, &s3bucket.Options{
		Config: cfg, Prefix: l.path, Endpoint: l.endpoint, Region: l.region, VirtualHost: l.virtualHost,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return b, nil
}

func (l *Location) openGCS(ctx context.Context) (Bucket, error) {
	// The client renews its access tokens under this context for as long as it lives.
	b, err := gcsbucket.New(context.WithoutCancel(ctx), gcsbucket.Options{Bucket: l.bucket, Prefix: l.path, Endpoint: l.endpoint})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return b, nil
}

// A memory needs no closing.
type memory struct{ *membucket.Bucket }

func (memory) Close() error { return nil }
