package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/s3bucket"
	"github.com/blobindex/indexd/fakes/s3d"
)

// A harness is what a fake server asks of a test.
type harness struct{ ends []func() }

func (h *harness) Helper()           {}
func (h *harness) Cleanup(fn func()) { h.ends = append(h.ends, fn) }
func (h *harness) Errorf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}
func (h *harness) Fatalf(format string, args ...any) { h.Errorf(format, args...) }
func (h *harness) close() {
	for _, end := range h.ends {
		end()
	}
}

// onS3 runs fn with a server that is delayed, the driver on it, and the bare SDK, set up as its documentation has it.
func onS3(latency time.Duration, fn func(*s3d.Server, *s3bucket.Bucket, *s3.Client) ([]row, error)) ([]row, error) {
	h := &harness{}
	defer h.close()
	server := s3d.New(h, &s3d.Options{Latency: latency})
	driver, sdk, err := s3Clients(server, nil)
	if err != nil {
		return nil, err
	}
	return fn(server, driver, sdk)
}

// s3Clients are the driver and the bare SDK on a server; with a nil client each has the one that it makes.
func s3Clients(server *s3d.Server, client s3.HTTPClient) (*s3bucket.Bucket, *s3.Client, error) {
	keys := credentials.NewStaticCredentialsProvider("AK", "secret", "")
	driver, err := s3bucket.New("bucket", &s3bucket.Options{
		Endpoint: server.URL, Credentials: keys, Sorted: true, HTTPClient: client,
	})
	sdk := s3.New(s3.Options{
		BaseEndpoint: &server.URL, UsePathStyle: true, Region: "us-east-1", Credentials: keys, HTTPClient: client,
	})
	return driver, sdk, err
}

// benchS3Register registers by the whole path of an index, 20 ms away, against a bare PutObject.
func benchS3Register(ctx context.Context, _ string) ([]row, error) {
	return onS3(20*time.Millisecond, func(_ *s3d.Server, driver *s3bucket.Bucket, sdk *s3.Client) ([]row, error) {
		register, err := registrar(ctx, driver)
		if err != nil {
			return nil, err
		}
		bare := func() error {
			_, err := sdk.PutObject(ctx, &s3.PutObjectInput{
				Bucket: aws.String("bucket"), Key: aws.String(fmt.Sprintf("bare/x_%d", rand.Int64())), Body: bytes.NewReader(nil),
			})
			return err
		}
		const pairs = 200
		ours, theirs, err := interleave(pairs, wall, register, bare)
		if err != nil {
			return nil, err
		}
		o, b := spreadOf(ours), spreadOf(theirs)
		above := o.median - b.median
		return []row{{
			fmt.Sprintf("S3, server delayed by 20 ms: registering, against the bare SDK's PutObject (%d pairs)", pairs),
			fmt.Sprintf("%.2f ms above: %s, %s", above, o.in("ms"), b.in("ms")), "≤ 2 ms above", above / 2,
		}}, nil
	})
}

// registrar returns what registers one new item of an index on the store.
func registrar(ctx context.Context, store bucket.Objects) (func() error, error) {
	x, err := blobindex.New(store, blobindex.Config{}, nil)
	if err != nil {
		return nil, err
	}
	n, err := x.Namespace("team")
	if err != nil {
		return nil, err
	}
	return func() error {
		id, err := x.Mint("cfg")
		if err != nil {
			return err
		}
		_, err = n.Register(ctx, id, nil)
		return err
	}, nil
}

// fillS3 stores the markers of one namespace, past the wire.
func fillS3(server *s3d.Server) []bucket.Key {
	keys := make([]bucket.Key, markers)
	for i := range keys {
		keys[i] = bucket.Key(fmt.Sprintf("%s/cfg%06d_%019d", markerDir, i, 1_800_000_000_000_000_000+int64(i)))
		server.Store("bucket", string(keys[i]), "")
	}
	return keys
}

// benchS3Delete deletes 100,000 keys, 50 ms away, against single deletes of the bare SDK, of which a sample is timed.
func benchS3Delete(ctx context.Context, _ string) ([]row, error) {
	return onS3(50*time.Millisecond, func(server *s3d.Server, driver *s3bucket.Bucket, sdk *s3.Client) ([]row, error) {
		keys := fillS3(server)
		single := func(key bucket.Key) error {
			_, err := sdk.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: aws.String("bucket"), Key: aws.String(string(key))})
			return err
		}
		const alone, together, atOnce = 40, 1600, 16
		requests := 0
		var ours, one, many []float64 // seconds for all keys
		for range 3 {
			began := time.Now()
			for _, key := range keys[:alone] {
				if err := single(key); err != nil {
					return nil, err
				}
			}
			one = append(one, time.Since(began).Seconds()/alone*markers)
			next := make(chan bucket.Key, together)
			for _, key := range keys[alone : alone+together] {
				next <- key
			}
			began = time.Now()
			if err := parallel(atOnce, together, func() error { return single(<-next) })(); err != nil {
				return nil, err
			}
			many = append(many, time.Since(began).Seconds()/together*markers)

			fillS3(server)
			server.Reset()
			began = time.Now()
			if errs := driver.Delete(ctx, keys); errs != nil {
				return nil, errors.Join(errs...)
			}
			ours = append(ours, time.Since(began).Seconds())
			counts := server.Reset()
			requests = counts[s3d.DeleteObjects]
			if len(counts) != 1 {
				return nil, fmt.Errorf("deleting %d keys took %v, want batches only", markers, counts)
			}
			if left := server.Keys("bucket"); len(left) > 0 {
				return nil, fmt.Errorf("%d keys are left", len(left))
			}
		}
		o, a, m := spreadOf(ours), spreadOf(ratios(one, ours)), spreadOf(ratios(many, ours))
		return []row{
			{"S3, server delayed by 50 ms: requests to delete 100,000 keys", fmt.Sprint(requests), "100", float64(requests) / 100},
			{fmt.Sprintf("the same, against single deletes by the bare SDK, one at a time (3 rounds; of the singles %d were timed)", alone),
				fmt.Sprintf("%s faster: %s, %s", a.in("×"), o.in("s"), spreadOf(one).in("s")), "≥ 20 ×", 20 / a.median},
			{fmt.Sprintf("the same, against single deletes by the bare SDK, %d at a time (of which %d were timed)", atOnce, together),
				fmt.Sprintf("%s faster: %s, %s", m.in("×"), o.in("s"), spreadOf(many).in("s")), "≥ 20 ×", 20 / m.median},
		}, nil
	})
}

// benchS3Pages lists 100,000 markers, against the bare SDK's paginator.
func benchS3Pages(ctx context.Context, _ string) ([]row, error) {
	return onS3(0, func(server *s3d.Server, driver *s3bucket.Bucket, sdk *s3.Client) ([]row, error) {
		fillS3(server)
		bare := func(sdk *s3.Client) func() error {
			return func() error {
				n := 0
				pages := s3.NewListObjectsV2Paginator(sdk, &s3.ListObjectsV2Input{
					Bucket: aws.String("bucket"), Prefix: aws.String(markerDir + "/"),
				})
				for pages.HasMorePages() {
					page, err := pages.NextPage(ctx)
					if err != nil {
						return err
					}
					n += len(page.Contents)
				}
				return want(n, nil)
			}
		}
		wire, err := comparePages("S3: listing 100,000 markers, against the bare SDK's paginator", wall, listAll(ctx, driver), bare(sdk))
		if err != nil {
			return nil, err
		}
		driver, sdk, err = s3Clients(server, &http.Client{Transport: newReplay()})
		if err != nil {
			return nil, err
		}
		alone, err := comparePages("processor time of the same, with the answers from memory: the clients alone", processor, listAll(ctx, driver), bare(sdk))
		return []row{wire, alone}, err
	})
}

func listAll(ctx context.Context, store bucket.Objects) func() error {
	return func() error {
		n := 0
		err := store.List(ctx, bucket.ListRequest{Prefix: markerDir + "/"}, func(p bucket.Page) error {
			n += len(p.Objects)
			return nil
		})
		return want(n, err)
	}
}

// comparePages times listings in turn. The server, if one is asked, runs in this process and on the same cores.
func comparePages(what string, now stopwatch, ours, bare func() error) (row, error) {
	const pairs = 9
	os, bs, err := interleave(pairs, now, ours, bare)
	if err != nil {
		return row{}, err
	}
	r := spreadOf(ratios(os, bs))
	return row{
		fmt.Sprintf("%s (%d pairs)", what, pairs),
		fmt.Sprintf("%s: %s, %s", r.in("×"), spreadOf(os).in("ms"), spreadOf(bs).in("ms")), "≤ 1.15 ×", r.median / 1.15,
	}, nil
}
