package s3d_test

import (
	"errors"
	"fmt"
	"io"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

func text(r io.ReadCloser) string {
	defer r.Close()
	body, err := io.ReadAll(r)
	if err != nil {
		return string(body) + " " + err.Error()
	}
	return string(body)
}

// get reads an object and words the outcome: the status, and the body of a success.
func (b *stepper) get(in *s3.GetObjectInput) (string, *s3.GetObjectOutput) {
	in.Bucket = &b.bucket
	out, err := b.c.GetObject(b.ctx, in)
	var answer *awshttp.ResponseError
	switch {
	case errors.As(err, &answer):
		return fmt.Sprint(answer.HTTPStatusCode()), nil
	case err != nil:
		return err.Error(), nil
	case out.ContentRange != nil:
		return "206 " + text(out.Body), out
	}
	return "200 " + text(out.Body), out
}
