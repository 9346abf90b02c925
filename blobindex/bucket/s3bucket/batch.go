package s3bucket

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// How a batch is sent; a store takes one of the ways, and which one is tried in this order.
const (
	batchCRC  = iota // with x-amz-checksum-crc32, as AWS and the SDK want it
	batchMD5         // with Content-MD5, as S3 once wanted it and some servers do
	batchNone        // one by one
)

// batch deletes up to 1,000 keys. Keys whose own error may pass are sent again, with the pauses of any retry.
func (d *deletion) batch(ctx context.Context, keys []string) {
	mode := int(d.b.batches.Load())
	for ; mode < batchNone; mode++ {
		refused := d.send(ctx, mode, keys)
		if refused == nil {
			d.b.learn(mode)
			return
		}
		if mode == batchMD5 && refused.status != http.StatusBadRequest {
			d.b.learn(batchNone) // not for a 400: that may be about these very keys
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = append(d.left, keys...)
}

// learn remembers what a batch of this store needs.
func (b *Bucket) learn(mode int) {
	if mode > int(b.batches.Load()) {
		b.batches.Store(int32(mode))
	}
}

// errSomeKeys: some of a batch's keys had errors of their own that may pass.
var errSomeKeys = errors.New("s3bucket: some keys of a batch failed")

// send sends a batch until it is settled, and returns the answer of a store that does not take batches sent in this way.
func (d *deletion) send(ctx context.Context, mode int, keys []string) (refused *failure) {
	b := d.b
	left := keys
	err := b.try(ctx, writing, b.attempts, func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		out, err := b.client.DeleteObjects(ctx, b.batchInput(left), withDigest(mode))
		if err != nil {
			if f := b.translate(err, writing); b.refusesBatch(f) {
				refused = &f
				return nil
			}
			return err
		}
		if left = d.settle(left, out); len(left) > 0 {
			return errSomeKeys
		}
		return nil
	})
	if err != nil && !errors.Is(err, errSomeKeys) {
		for _, key := range left {
			d.set(key, err)
		}
	}
	return refused
}

func (b *Bucket) batchInput(keys []string) *s3.DeleteObjectsInput {
	ids := make([]types.ObjectIdentifier, len(keys))
	for i := range keys {
		ids[i].Key = &keys[i]
	}
	return &s3.DeleteObjectsInput{Bucket: &b.name, Delete: &types.Delete{Objects: ids, Quiet: aws.Bool(false)}}
}

// settle notes what the answer says of each key, and returns those that are worth another attempt.
func (d *deletion) settle(keys []string, out *s3.DeleteObjectsOutput) (again []string) {
	gone := make(map[string]bool, len(out.Deleted))
	for _, o := range out.Deleted {
		gone[aws.ToString(o.Key)] = true
	}
	failed := make(map[string]types.Error, len(out.Errors))
	for _, e := range out.Errors {
		failed[aws.ToString(e.Key)] = e
	}
	for _, key := range keys {
		e, bad := failed[key]
		switch {
		case bad && aws.ToString(e.Code) != "NoSuchKey":
			f := d.b.keyFailure(e)
			d.set(key, f.err)
			if f.again {
				again = append(again, key)
			}
		case bad || gone[key]:
			d.set(key, nil)
		default:
			d.set(key, fmt.Errorf("S3 did not say what became of the key: %w", bucket.ErrUnknown))
		}
	}
	return again
}

// keyFailure is for an error of one key in an answer that is otherwise well.
func (b *Bucket) keyFailure(e types.Error) failure {
	f := failure{code: aws.ToString(e.Code)}
	meaning := meanings[f.code]
	f.throttled = meaning == bucket.ErrThrottled
	f.again = f.throttled || repeatable[f.code] || f.code == "InternalError"
	if meaning == nil && f.again {
		meaning = bucket.ErrUnknown
	}
	text := "S3 answered " + f.code
	if message := safeText(aws.ToString(e.Message)); message != "" {
		text += " (" + message + ")"
	}
	f.err = errors.New(text)
	if meaning != nil {
		f.err = fmt.Errorf("%s: %w", text, meaning)
	}
	return f
}

// refusesBatch reports whether the store does not take the operation, or not in this form: other than refusals
// of the caller, the bucket or the moment.
func (b *Bucket) refusesBatch(f failure) bool {
	switch f.status {
	case http.StatusNotImplemented, http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType, http.StatusLengthRequired:
		return true
	case http.StatusBadRequest:
		return !errors.Is(f.err, bucket.ErrDenied) && !f.again && f.code != "AuthorizationHeaderMalformed"
	}
	return false
}

// withDigest makes the SDK send the digest of the mode.
func withDigest(mode int) func(*s3.Options) {
	return func(o *s3.Options) {
		if mode != batchMD5 {
			return
		}
		o.APIOptions = append(o.APIOptions, smithyhttp.AddContentChecksumMiddleware, func(stack *middleware.Stack) error {
			_, err := stack.Finalize.Remove("AWSChecksum:ComputeInputPayloadChecksum")
			return err
		})
	}
}

func codeOf(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}
