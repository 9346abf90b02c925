package gcsd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"

	"github.com/blobindex/indexd/fakes/gcsd"
)

// start returns a server and the official client's handle of its bucket. No write is too early for its clock, unless it
// has one of its own.
func start(t testing.TB, opts *gcsd.Options) (*gcsd.Server, *storage.BucketHandle) {
	t.Helper()
	var o gcsd.Options
	if opts != nil {
		o = *opts
	}
	if o.Now == nil {
		o.Now = gcsd.Ticking(time.Unix(1_800_000_000, 0), time.Second)
	}
	s := gcsd.New(&o)
	t.Cleanup(s.Close)
	return s, client(t, s.URL()).Bucket("bucket")
}

func client(t testing.TB, url string, opts ...option.ClientOption) *storage.Client {
	t.Helper()
	opts = append(opts, option.WithEndpoint(url+"/storage/v1/"), option.WithoutAuthentication(), option.WithHTTPClient(&http.Client{}))
	c, err := storage.NewClient(t.Context(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetRetry(storage.WithPolicy(storage.RetryNever))
	return c
}

// save uploads and returns the generation; chunk 0 is one multipart request.
func save(ctx context.Context, o *storage.ObjectHandle, body []byte, chunk int) (int64, error) {
	w := o.NewWriter(ctx)
	w.ChunkSize = chunk
	w.DisableAutoChecksum = chunk == 0
	if _, err := io.Copy(w, bytes.NewReader(body)); err != nil {
		w.Close()
		return 0, err
	}
	if err := w.Close(); err != nil {
		return 0, err
	}
	return w.Attrs().Generation, nil
}

func mustSave(t testing.TB, o *storage.ObjectHandle, body string) int64 {
	t.Helper()
	g, err := save(t.Context(), o, []byte(body), 0)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func read(ctx context.Context, o *storage.ObjectHandle) (string, error) {
	r, err := o.NewReader(ctx)
	if err != nil {
		return "", err
	}
	defer r.Close()
	body, err := io.ReadAll(r)
	return string(body), err
}

// code words an outcome: "ok", or the status.
func code(err error) string {
	var api *googleapi.Error
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &api):
		return fmt.Sprint(api.Code)
	}
	return err.Error()
}

func names(t testing.TB, b *storage.BucketHandle, q *storage.Query) []string {
	t.Helper()
	it := b.Objects(t.Context(), q)
	var all []string
	for {
		o, err := it.Next()
		if errors.Is(err, iterator.Done) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o.Name)
	}
}

func decode(t testing.TB, r *http.Response, v any) {
	t.Helper()
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(v); err != nil {
		t.Fatal(err)
	}
}
