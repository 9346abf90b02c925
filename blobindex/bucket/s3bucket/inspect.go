package s3bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// What is here lets a prober see what the store does by itself, past what the driver guards against.

// UnquotedIfMatch says whether ETags go back to the store without their quotes, from the next save on.
func (b *Bucket) UnquotedIfMatch(on bool) { b.unquoted.Store(on) }

// token is a version as the store wants it back.
func (b *Bucket) token(v cas.Version) string {
	if b.unquoted.Load() {
		return strings.Trim(string(v), `"`)
	}
	return string(v)
}

// Unguarded is the same bucket, but takes the keys that are otherwise refused for what servers were seen to make of them.
func (b *Bucket) Unguarded() bucket.Objects {
	u := &Bucket{
		client: b.client, name: b.name, prefix: b.prefix, region: b.region, creds: b.creds, custom: b.custom, flat: b.flat,
		sorted: b.sorted, anyKeys: true, attempts: b.attempts, pause: b.pause, limit: b.limit, maxEmpty: b.maxEmpty,
		maxBody: b.maxBody,
	}
	u.batches.Store(b.batches.Load())
	return u
}

// ListPage asks for one page of at most max keys and returns what was answered, unchecked. form is "url" where the answer
// says that its keys are encoded, and "plain" otherwise; keys are decoded. bucket.ErrIncomplete: the answer does not say
// whether there is more, or not how to get it.
func (b *Bucket) ListPage(ctx context.Context, prefix, after, token string, max int) (keys []string, next, form string, err error) {
	in := &s3.ListObjectsV2Input{
		Bucket: &b.name, Prefix: aws.String(b.prefix + prefix), EncodingType: types.EncodingTypeUrl, MaxKeys: aws.Int32(int32(max)),
	}
	switch {
	case token != "":
		in.ContinuationToken = &token
	case after != "":
		in.StartAfter = aws.String(b.prefix + after)
	}
	out, err := b.answer(ctx, in)
	if err != nil {
		return nil, "", "", fmt.Errorf("listing a page of %q: %w", prefix, err)
	}
	form = "plain"
	if strings.EqualFold(string(out.EncodingType), string(types.EncodingTypeUrl)) {
		form = "url"
	}
	for _, o := range out.Contents {
		key := aws.ToString(o.Key)
		if form == "url" {
			if key, err = url.QueryUnescape(key); err != nil {
				return nil, "", "", fmt.Errorf("listing a page of %q: %w: %w", prefix, bucket.ErrIncomplete, err)
			}
		}
		keys = append(keys, strings.TrimPrefix(key, b.prefix))
	}
	if next, err = nextToken(out); err != nil {
		return nil, "", "", fmt.Errorf("listing a page of %q: %w", prefix, err)
	}
	return keys, next, form, nil
}

func nextToken(out *s3.ListObjectsV2Output) (string, error) { return next(out, map[string]bool{}) }

// Conditional sends a "read", a "delete" or a "batch-delete" on the condition that the object is still of that version. The
// error is nil if it was carried out, and cas.ErrConflict if it was refused.
func (b *Bucket) Conditional(ctx context.Context, request string, key bucket.Key, v cas.Version) error {
	full, err := b.usable(ctx, key)
	if err != nil {
		return fmt.Errorf("%s of %q: %w", request, key, err)
	}
	send := map[string]func() error{
		"read": func() error {
			out, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: &full, IfMatch: aws.String(b.token(v))})
			if err == nil {
				out.Body.Close()
			}
			return err
		},
		"delete": func() error {
			_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: &full, IfMatch: aws.String(b.token(v))})
			return err
		},
		"batch-delete": func() error { return b.batchIf(ctx, full, v) },
	}[request]
	if send == nil {
		return fmt.Errorf("%s of %q: %w", request, key, bucket.ErrUnsupported)
	}
	if err := send(); err != nil {
		if f := b.translate(err, writing); f.status == http.StatusPreconditionFailed {
			err = cas.ErrConflict
		} else if !errors.Is(err, cas.ErrConflict) {
			err = f.err
		}
		return fmt.Errorf("%s of %q if it is still %s: %w", request, key, v, err)
	}
	return nil
}

// batchIf deletes one key by a batch. Its error is in the answer.
func (b *Bucket) batchIf(ctx context.Context, full string, v cas.Version) error {
	ids := []types.ObjectIdentifier{{Key: &full, ETag: aws.String(b.token(v))}}
	out, err := b.client.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: &b.name, Delete: &types.Delete{Objects: ids}},
		withDigest(int(b.batches.Load())))
	switch {
	case err != nil:
		return err
	case len(out.Errors)+len(out.Deleted) == 0:
		return fmt.Errorf("S3 did not say what became of the key: %w", bucket.ErrUnknown)
	case len(out.Errors) == 0:
		return nil
	case aws.ToString(out.Errors[0].Code) == "PreconditionFailed":
		return cas.ErrConflict
	}
	return b.keyFailure(out.Errors[0]).err
}

// MetadataVersion returns the version that HEAD tells.
func (b *Bucket) MetadataVersion(ctx context.Context, key bucket.Key) (cas.Version, error) {
	full, err := b.usable(ctx, key)
	var out *s3.HeadObjectOutput
	if err == nil {
		err = b.try(ctx, reading, b.attempts, func() error {
			out, err = b.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &b.name, Key: &full})
			return err
		})
	}
	if err != nil {
		return "", fmt.Errorf("heading %q: %w", key, err)
	}
	tag := aws.ToString(out.ETag)
	if tag == "" || plainTag(tag) != tag {
		return "", fmt.Errorf("heading %q: %w", key, errVersion)
	}
	return cas.Version(tag), nil
}

// DeleteMode says how many keys are deleted, as far as the store's answers have taught it.
func (b *Bucket) DeleteMode() string {
	switch b.batches.Load() {
	case batchCRC:
		return "batch"
	case batchMD5:
		return "batch with Content-MD5"
	}
	return "one by one"
}

// SaveSlowly is Save, but calls midway when half of the body has been sent, and sends the rest when that returns.
func (b *Bucket) SaveSlowly(
	ctx context.Context, key bucket.Key, body []byte, p cas.Precondition, midway func(),
) (cas.Version, error) {
	err := p.Check()
	full := ""
	if err == nil {
		full, err = b.usable(ctx, key)
	}
	var v cas.Version
	if err == nil {
		v, err = b.saveOnce(ctx, full, body, p, func(o *s3.Options) {
			o.HTTPClient = pausing{o.HTTPClient, len(body) / 2, midway}
		})
	}
	if err != nil {
		return "", fmt.Errorf("saving %q slowly %v: %w", key, p, err)
	}
	return v, nil
}

// A pausing client stops in the middle of each body that it sends.
type pausing struct {
	s3.HTTPClient
	at     int
	midway func()
}

func (c pausing) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &pausingBody{ReadCloser: r.Body, left: c.at, midway: sync.OnceFunc(c.midway)}
	}
	return c.HTTPClient.Do(r)
}

type pausingBody struct {
	io.ReadCloser
	left   int
	midway func()
}

func (b *pausingBody) Read(p []byte) (int, error) {
	if b.left > 0 {
		p = p[:min(len(p), b.left)]
	} else {
		b.midway()
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= n
	return n, err
}

// Sibling is another bucket at the same place, with the same credentials. It may not exist.
func (b *Bucket) Sibling(name string) bucket.Objects {
	s := b.Unguarded().(*Bucket)
	s.name, s.anyKeys = name, b.anyKeys
	return s
}

// WithWrongSecret is the same bucket, asked with a secret that does not belong to the access key.
func (b *Bucket) WithWrongSecret() bucket.Objects {
	s := b.Sibling(b.name).(*Bucket)
	o := b.client.Options()
	s.creds = aws.NewCredentialsCache(wrongSecret{b.creds})
	o.Credentials = s.creds
	o.HTTPSignerV4, o.AuthSchemes = nil, nil // a signer keeps its keys by access key and day, whatever the secret
	s.client = s3.New(o)
	return s
}

type wrongSecret struct{ aws.CredentialsProvider }

func (w wrongSecret) Retrieve(ctx context.Context) (aws.Credentials, error) {
	c, err := w.CredentialsProvider.Retrieve(ctx)
	c.SecretAccessKey += "-wrong"
	return c, err
}
