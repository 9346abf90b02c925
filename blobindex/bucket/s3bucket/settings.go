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
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// Setting tells one of the bucket's settings: "versioning" and "object-lock", each "off" or a text for people; of a lock
// without a default "off", since objects are then not held unless who writes them asks for it. bucket.ErrDenied if it may
// not be seen, bucket.ErrUnsupported if the store does not know of it.
func (b *Bucket) Setting(ctx context.Context, name string) (string, error) {
	ask := map[string]func(context.Context) (string, error){"versioning": b.versioning, "object-lock": b.objectLock}[name]
	if ask == nil {
		return "", fmt.Errorf("looking at the bucket's %s: %w", name, bucket.ErrUnsupported)
	}
	text := ""
	err := b.try(ctx, reading, b.attempts, func() (err error) {
		text, err = ask(ctx)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("looking at the bucket's %s: %w", name, err)
	}
	return text, nil
}

func (b *Bucket) versioning(ctx context.Context) (string, error) {
	out, err := b.client.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &b.name}, about("VersioningConfiguration"))
	switch {
	case err != nil:
		return "", err
	case out.Status == types.BucketVersioningStatusEnabled:
		return "it keeps every version, and a delete marker for each delete", nil
	case out.Status == types.BucketVersioningStatusSuspended:
		return "suspended", nil
	}
	return "off", nil
}

func (b *Bucket) objectLock(ctx context.Context) (string, error) {
	out, err := b.client.GetObjectLockConfiguration(ctx, &s3.GetObjectLockConfigurationInput{Bucket: &b.name},
		about("ObjectLockConfiguration"))
	if codeOf(err) == "ObjectLockConfigurationNotFoundError" {
		return "off", nil
	}
	if err != nil || out.ObjectLockConfiguration == nil || out.ObjectLockConfiguration.Rule == nil ||
		out.ObjectLockConfiguration.Rule.DefaultRetention == nil {
		return "off", err
	}
	d := out.ObjectLockConfiguration.Rule.DefaultRetention
	return fmt.Sprintf("versions are locked for %d days and %d years (%s)", aws.ToInt32(d.Days), aws.ToInt32(d.Years), d.Mode), nil
}

// Expirations calls rule for each lifecycle rule that takes current objects away: what it begins with ("" is everything
// here), and what is done when. Rules for objects with tags are left out: ours have none.
func (b *Bucket) Expirations(ctx context.Context, rule func(prefix, what string)) error {
	var out *s3.GetBucketLifecycleConfigurationOutput
	err := b.try(ctx, reading, b.attempts, func() (err error) {
		out, err = b.client.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: &b.name},
			about("LifecycleConfiguration"))
		if codeOf(err) == "NoSuchLifecycleConfiguration" {
			out, err = &s3.GetBucketLifecycleConfigurationOutput{}, nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("looking at the bucket's lifecycle rules: %w", err)
	}
	for _, r := range out.Rules {
		prefix, tagged := scope(r)
		here, touches := b.below(prefix)
		if r.Status != types.ExpirationStatusEnabled || tagged || !touches {
			continue
		}
		if e := r.Expiration; e != nil && (aws.ToInt32(e.Days) > 0 || e.Date != nil) {
			rule(here, "deletes objects"+since(aws.ToInt32(e.Days)))
		}
		for _, t := range r.Transitions {
			if t.StorageClass == types.TransitionStorageClassGlacier || t.StorageClass == types.TransitionStorageClassDeepArchive {
				rule(here, fmt.Sprintf("moves objects to %s, where they cannot be read,%s", t.StorageClass, since(aws.ToInt32(t.Days))))
			}
		}
	}
	return nil
}

func since(days int32) string {
	if days == 0 {
		return " at a date"
	}
	return fmt.Sprintf(" after %d days", days)
}

// scope is which objects a rule is for.
func scope(r types.LifecycleRule) (prefix string, tagged bool) {
	//lint:ignore SA1019 rules that were made in the old form are still in use
	prefix = aws.ToString(r.Prefix)
	if f := r.Filter; f != nil {
		prefix, tagged = prefix+aws.ToString(f.Prefix), f.Tag != nil
		if f.And != nil {
			prefix, tagged = prefix+aws.ToString(f.And.Prefix), len(f.And.Tags) > 0
		}
	}
	return prefix, tagged
}

// below is a prefix of the whole bucket as one of keys below Options.Prefix, if it has any of them.
func (b *Bucket) below(prefix string) (here string, touches bool) {
	if rest, ok := strings.CutPrefix(prefix, b.prefix); ok {
		return rest, true
	}
	return "", strings.HasPrefix(b.prefix, prefix)
}

// about holds a good answer to the element that it must be about: servers that do not know a subresource were seen to
// answer with a listing, in which the SDK finds nothing, and so takes it for a setting that is off.
func about(element string) func(*s3.Options) {
	return func(o *s3.Options) { o.HTTPClient = aboutClient{o.HTTPClient, "<" + element} }
}

type aboutClient struct {
	s3.HTTPClient
	open string
}

func (c aboutClient) Do(r *http.Request) (*http.Response, error) {
	resp, err := c.HTTPClient.Do(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if !bytes.Contains(body[:min(len(body), 512)], []byte(c.open)) {
		resp.StatusCode, resp.Status = http.StatusNotImplemented, "501 Not Implemented"
		resp.Body = io.NopCloser(strings.NewReader(
			"<Error><Code>NotImplemented</Code><Message>another answer than was asked for</Message></Error>"))
	}
	return resp, nil
}
