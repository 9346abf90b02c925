package s3bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/internal/remote"
	"github.com/blobindex/indexd/cas"
)

var _ cas.Store = (*Bucket)(nil)

// Load returns the object with its ETag as its version. The body is asked for as it is stored, since what compresses it on
// the way changes the ETag; where one comes that only stands for the object's (weak, or with a suffix), it is the one that
// HEAD tells, if that is of the same state.
func (b *Bucket) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	full, err := b.usable(ctx, key)
	if err != nil {
		return cas.Object{}, fmt.Errorf("loading %q: %w", key, err)
	}
	var o cas.Object
	err = b.try(ctx, reading, b.attempts, func() error {
		o, err = b.load(ctx, full)
		return err
	})
	if err != nil {
		return cas.Object{}, fmt.Errorf("loading %q: %w", key, err)
	}
	return o, nil
}

func (b *Bucket) load(ctx context.Context, full string) (cas.Object, error) {
	out, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: &full})
	if err != nil {
		return cas.Object{}, err
	}
	defer out.Body.Close()
	body, err := io.ReadAll(io.LimitReader(out.Body, cas.MaxSize+1))
	switch {
	case err != nil:
		return cas.Object{}, fmt.Errorf("%w: reading the body: %w", errMalformed, err)
	case len(body) > cas.MaxSize:
		return cas.Object{}, fmt.Errorf("more than %d bytes: %w", cas.MaxSize, cas.ErrTooLarge)
	}
	o := cas.Object{
		Body: body, ModTime: aws.ToTime(out.LastModified), StoreTime: serverTime(out.ResultMetadata),
	}
	o.Version, err = b.strong(ctx, full, aws.ToString(out.ETag))
	return o, err
}

// errVersion: the tag of an answer is not the object's, or is missing.
var errVersion = fmt.Errorf("the answer has no ETag that names the object's state: %w", cas.ErrNoVersion)

// strong returns the version that a tag stands for.
func (b *Bucket) strong(ctx context.Context, full, tag string) (cas.Version, error) {
	if !namesOne(tag) {
		return "", errVersion
	}
	plain := plainTag(tag)
	if plain == tag {
		return cas.Version(tag), nil
	}
	out, err := b.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &b.name, Key: &full})
	if err != nil {
		return "", err
	}
	switch got := aws.ToString(out.ETag); {
	case got == plain:
		return cas.Version(plain), nil
	case got == "" || plainTag(got) == plain:
		return "", errVersion // nobody tells the object's own
	}
	return "", fmt.Errorf("%w: %w", errMalformed, errVersion) // it was replaced meanwhile
}

// namesOne reports whether a condition on the tag, with its quotes or without, is one on a single state: * is any object, and
// what has a comma or quotes in it may be read as several.
func namesOne(tag string) bool {
	inner := strings.TrimPrefix(tag, "W/")
	if rest, quoted := strings.CutPrefix(inner, `"`); quoted {
		if inner, quoted = strings.CutSuffix(rest, `"`); !quoted {
			return false
		}
	}
	return inner != "" && inner != "*" && !strings.ContainsAny(inner, `",`)
}

// plainTag is the object's ETag in one that a proxy has made of it: W/"x", "x-gzip", "x;gzip".
func plainTag(tag string) string {
	tag = strings.TrimPrefix(tag, "W/")
	inner, ok := strings.CutSuffix(tag, `"`)
	if !ok {
		return tag
	}
	for _, how := range []string{"gzip", "br", "deflate", "zstd"} {
		for _, sep := range []string{"--", "-", ";"} {
			inner = strings.TrimSuffix(inner, sep+how)
		}
	}
	return inner + `"`
}

// Save sends one PutObject with If-None-Match or If-Match, uncached and in one part. It is sent again only after an answer
// that says that nothing was done and that a repetition may help: 409 ConditionalRequestConflict. A 5xx or 408 leaves open
// what was done, whatever code it has: a proxy may have sent the request before.
func (b *Bucket) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	v, err := b.save(ctx, key, body, p)
	if err != nil {
		return "", fmt.Errorf("saving %q %v: %w", key, p, err)
	}
	return v, nil
}

func (b *Bucket) save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	if err := p.Check(); err != nil {
		return "", err
	}
	full, err := b.usable(ctx, key)
	if err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		v, err := b.saveOnce(ctx, full, body, p)
		if !errors.Is(err, errConditionalConflict) || n >= b.attempts {
			return v, err
		}
		if over := remote.Sleep(ctx, b.wait(n, false)); over != nil {
			return "", fmt.Errorf("%w: %w", over, err)
		}
	}
}

// errConditionalConflict: the store could not decide on a condition while another write was under way; nothing was done
// (https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html).
var errConditionalConflict = fmt.Errorf("S3 answered 409 ConditionalRequestConflict: %w", bucket.ErrThrottled)

func (b *Bucket) saveOnce(
	ctx context.Context, full string, body []byte, p cas.Precondition, opts ...func(*s3.Options),
) (cas.Version, error) {
	in := &s3.PutObjectInput{
		Bucket: &b.name, Key: &full, Body: bytes.NewReader(body), ContentLength: aws.Int64(int64(len(body))),
		CacheControl: aws.String("no-store"), ContentType: aws.String("application/octet-stream"),
	}
	if p.Absent() {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = aws.String(b.token(p.Version()))
	}
	out, err := b.client.PutObject(ctx, in, append(opts, (&source{size: int64(len(body))}).plain)...)
	if err != nil {
		return "", b.saveError(ctx, err)
	}
	v, err := b.strong(ctx, full, aws.ToString(out.ETag))
	switch {
	case err == errVersion: // there is none, and asking again would not help
		return "", fmt.Errorf("saved, but %w", err)
	case err != nil:
		// The HEAD failed, or somebody has saved since. What its error means of a read, it does not mean of this write.
		said := b.translate(err, reading).err
		return "", remote.WithEnd(ctx, fmt.Errorf("saved, but asking for the version: %w: %v", bucket.ErrUnknown, said))
	}
	return v, nil
}

// saveError gives the error of a conditional write its meaning.
func (b *Bucket) saveError(ctx context.Context, err error) error {
	f := b.translate(err, writing)
	if over := ctx.Err(); over != nil && !errors.Is(f.err, over) {
		f.err = fmt.Errorf("%w: %w", over, f.err)
	}
	switch {
	case f.status == http.StatusPreconditionFailed:
		return cas.ErrConflict
	case f.status == http.StatusConflict && f.code == "ConditionalRequestConflict":
		return errConditionalConflict
	case (f.status >= 500 && f.status != http.StatusNotImplemented || f.status == http.StatusRequestTimeout) && !f.ambiguous:
		return fmt.Errorf("%w: %w", bucket.ErrUnknown, f.err)
	}
	return f.err
}
