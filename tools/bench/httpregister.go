package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket/s3bucket"
	"github.com/blobindex/indexd/fakes/s3d"
	"github.com/blobindex/indexd/web"
	"github.com/blobindex/indexd/web/auth"
)

// registrations is of how many each measurement is the median.
const registrations = 30

// benchHTTPRegister registers over HTTP at a server that asks for tokens and has its bucket 20 ms away, against a bare
// PutObject of the same bucket.
func benchHTTPRegister(ctx context.Context, _ string) ([]row, error) {
	return onS3(20*time.Millisecond, func(_ *s3d.Server, driver *s3bucket.Bucket, sdk *s3.Client) ([]row, error) {
		x, err := blobindex.New(driver, blobindex.Config{}, nil)
		if err != nil {
			return nil, err
		}
		token, gate, err := gateway()
		if err != nil {
			return nil, err
		}
		defer gate.Close()
		url, end, err := listen(ctx, x, gate)
		if err != nil {
			return nil, err
		}
		defer end()
		ours := func() error { return registerHTTP(ctx, x, url, token) }
		bare := func() error {
			_, err := sdk.PutObject(ctx, &s3.PutObjectInput{
				Bucket: aws.String("bucket"), Key: aws.String(fmt.Sprintf("bare/x_%d", rand.Int64())), Body: bytes.NewReader(nil),
			})
			return err
		}
		if err := errors.Join(ours(), bare()); err != nil { // neither pays for its connection
			return nil, err
		}
		t, err := taken(medianOf(ours), medianOf(bare))
		if err != nil {
			return nil, err
		}
		above := spreadOf(differences(t.ours, t.bare))
		return []row{t.row(row{
			fmt.Sprintf("S3, server delayed by 20 ms: registering over HTTP with one of 100 tokens, against the bare SDK's PutObject (medians of %d, %d pairs)",
				registrations, turns),
			fmt.Sprintf("%s above: %s, %s", above.in("ms"), spreadOf(t.ours).in("ms"), spreadOf(t.bare).in("ms")),
			"≤ 2 ms above", above.median / 2,
		})}, nil
	})
}

// medianOf measures f in milliseconds, many times.
func medianOf(f func() error) func() (float64, error) {
	return func() (float64, error) {
		var all []float64
		for range registrations {
			began := wall()
			if err := f(); err != nil {
				return 0, err
			}
			all = append(all, wall()-began)
		}
		return median(all), nil
	}
}

// gateway lets in who shows the token, as one of a hundred.
func gateway() (token string, gate *auth.Gate, err error) {
	var cfg auth.Config
	for i := range 100 {
		token = auth.Mint()
		cfg.Tokens = append(cfg.Tokens, auth.Token{
			Name: fmt.Sprint("ci", i), Hash: auth.HashOf(token),
			Grants: []auth.Grant{{Role: auth.Producer, Index: "running", Namespace: "team"}},
		})
	}
	gate, err = auth.New(cfg, nil)
	return token, gate, err
}

// listen serves an index, in this process.
func listen(ctx context.Context, x *blobindex.Index, gate *auth.Gate) (url string, end func(), err error) {
	handler, err := web.New([]*blobindex.Index{x}, func(context.Context) error { return nil }, &web.Options{Auth: gate})
	if err != nil {
		return "", nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := web.NewHTTPServer(ctx, handler, nil)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	return "http://" + l.Addr().String(), func() {
		server.Close()
		<-done
	}, nil
}

func registerHTTP(ctx context.Context, x *blobindex.Index, url, token string) error {
	id, err := x.Mint("cfg")
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url+"/v1/indexes/running/team/items/"+id.String(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusCreated {
		return fmt.Errorf("registering: status %s", res.Status)
	}
	return nil
}
