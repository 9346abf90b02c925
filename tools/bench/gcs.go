package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"runtime"
	"sync/atomic"

	"cloud.google.com/go/storage"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/gcsbucket"
	"github.com/blobindex/indexd/fakes/gcsd"
)

// onGCS runs fn with a server, the driver on it, and the bare client.
func onGCS(ctx context.Context, fn func(*gcsd.Server, *gcsbucket.Bucket, *storage.Client) ([]row, error)) ([]row, error) {
	server := gcsd.New(nil)
	defer server.Close()
	driver, client, err := gcsClients(ctx, server, nil)
	if err != nil {
		return nil, err
	}
	defer driver.Close()
	defer client.Close()
	return fn(server, driver, client)
}

// gcsClients are the driver and the bare client on a server; without an HTTP client each has the one that it makes.
func gcsClients(ctx context.Context, server *gcsd.Server, hc *http.Client) (*gcsbucket.Bucket, *storage.Client, error) {
	driver, err := gcsbucket.New(ctx, gcsbucket.Options{
		Bucket: "bucket", Endpoint: server.URL(), Sorted: true, HTTPClient: hc,
	})
	if err != nil {
		return nil, nil, err
	}
	opts := []option.ClientOption{option.WithEndpoint(server.URL() + "/storage/v1/"), option.WithoutAuthentication()}
	if hc != nil {
		opts = append(opts, option.WithHTTPClient(hc))
	}
	client, err := storage.NewClient(ctx, opts...)
	return driver, client, err
}

// benchGCSRegister counts what one registration allocates.
func benchGCSRegister(ctx context.Context, _ string) ([]row, error) {
	return onGCS(ctx, func(server *gcsd.Server, driver *gcsbucket.Bucket, client *storage.Client) ([]row, error) {
		register, err := registrar(ctx, driver)
		if err != nil {
			return nil, err
		}
		// Cloud Storage takes one write a second for one name, and so does the server.
		var serial atomic.Int64
		name := func() string { return fmt.Sprintf("%s/x_%d", markerDir, 1_800_000_000+serial.Add(1)) }
		put := func() error {
			_, err := driver.Put(ctx, bucket.Key(name()), nil)
			return err
		}
		bare := func() error { return client.Bucket("bucket").Object(name()).NewWriter(ctx).Close() }
		var kb [4]spread
		for i, fn := range []func() error{register, put, bare, plainUpload(server.URL(), name)} {
			if kb[i], err = allocated(fn); err != nil {
				return nil, err
			}
		}
		told := func(i int) string { return kb[i].in("kB") }
		return []row{
			{"GCS: bytes allocated by one registration, the server's share included (7 times 200)", told(0), "< 500 kB", kb[0].median / 500},
			{"the same, by the driver's Put alone", told(1), "< 500 kB", kb[1].median / 500},
			{"the same, by the official client's Writer as it comes", told(2), "", 0},
			{"the same, by the server and a plain HTTP request: so much of the rows above is theirs", told(3), "", 0},
		}, nil
	})
}

// plainUpload stores empty objects by net/http alone.
func plainUpload(server string, name func() string) func() error {
	return func() error {
		var body bytes.Buffer
		parts := multipart.NewWriter(&body)
		w, err := parts.CreatePart(textproto.MIMEHeader{"Content-Type": {"application/json"}})
		if err != nil {
			return err
		}
		fmt.Fprintf(w, `{"name":%q}`, name())
		if _, err := parts.CreatePart(textproto.MIMEHeader{"Content-Type": {"application/octet-stream"}}); err != nil {
			return err
		}
		if err := parts.Close(); err != nil {
			return err
		}
		resp, err := http.Post(server+"/upload/storage/v1/b/bucket/o?uploadType=multipart",
			"multipart/related; boundary="+parts.Boundary(), &body)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
}

// allocated is the kilobytes that this process allocates for each call of fn.
func allocated(fn func() error) (spread, error) {
	var all []float64
	for range 7 {
		const calls = 200
		if err := fn(); err != nil {
			return spread{}, err
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range calls {
			if err := fn(); err != nil {
				return spread{}, err
			}
		}
		runtime.ReadMemStats(&after)
		all = append(all, float64(after.TotalAlloc-before.TotalAlloc)/calls/1e3)
	}
	return spreadOf(all), nil
}

// benchGCSPages lists 100,000 markers, against the client's iterator over the same attributes.
func benchGCSPages(ctx context.Context, _ string) ([]row, error) {
	return onGCS(ctx, func(server *gcsd.Server, driver *gcsbucket.Bucket, client *storage.Client) ([]row, error) {
		if err := fillGCS(ctx, driver); err != nil {
			return nil, err
		}
		wire, err := comparePages("GCS: listing 100,000 markers, against the bare client's iterator over the same attributes",
			wall, listAll(ctx, driver), iterate(ctx, client))
		if err != nil {
			return nil, err
		}
		driver, client, err = gcsClients(ctx, server, &http.Client{Transport: newReplay()})
		if err != nil {
			return nil, err
		}
		defer driver.Close()
		defer client.Close()
		alone, err := comparePages("processor time of the same, with the answers from memory: the clients alone", processor, listAll(ctx, driver), iterate(ctx, client))
		return []row{wire, alone}, err
	})
}

func iterate(ctx context.Context, client *storage.Client) func() error {
	return func() error {
		q := &storage.Query{Prefix: markerDir + "/", Projection: storage.ProjectionNoACL}
		if err := q.SetAttrSelection([]string{"Name", "Size", "Updated"}); err != nil {
			return err
		}
		n := 0
		for it := client.Bucket("bucket").Objects(ctx, q); ; n++ {
			if _, err := it.Next(); errors.Is(err, iterator.Done) {
				return want(n, nil)
			} else if err != nil {
				return err
			}
		}
	}
}

// fillGCS stores the markers of one namespace.
func fillGCS(ctx context.Context, driver *gcsbucket.Bucket) error {
	names := make(chan int, markers)
	for i := range markers {
		names <- i
	}
	return parallel(20, markers, func() error {
		i := <-names
		_, err := driver.Put(ctx, bucket.Key(fmt.Sprintf("%s/cfg%06d_%019d", markerDir, i, 1_800_000_000_000_000_000+int64(i))), nil)
		return err
	})()
}
