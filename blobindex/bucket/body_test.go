package bucket_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/blobindex/indexd/blobindex/bucket"
)

func TestReadBody(t *testing.T) {
	for what, body := range map[string]io.Reader{"nil": nil, "empty": strings.NewReader("")} {
		if data, err := io.ReadAll(bucket.ReadBody(t.Context(), body)); len(data) != 0 || err != nil {
			t.Errorf("%s body: %q, %v, want nothing", what, data, err)
		}
	}
	broken := io.MultiReader(strings.NewReader("half"), iotest.ErrReader(os.ErrNotExist))
	data, err := io.ReadAll(bucket.ReadBody(t.Context(), broken))
	var of *bucket.BodyError
	if string(data) != "half" || !errors.As(err, &of) || of.Err != os.ErrNotExist || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("broken body: %q, %v, want half of it and a BodyError that wraps the body's", data, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := bucket.ReadBody(ctx, strings.NewReader("body"))
	if _, err := r.Read(make([]byte, 2)); err != nil {
		t.Errorf("first read: %v", err)
	}
	cancel()
	if n, err := r.Read(make([]byte, 2)); n != 0 || err != context.Canceled {
		t.Errorf("read after the context ended: %d bytes, %v, want context.Canceled as it is", n, err)
	}
}
