package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
	"github.com/blobindex/indexd/blobindex/resolve"
	"github.com/blobindex/indexd/web"
)

// A settled is what servedIndexd is told.
type settled struct {
	Dir   string // of its bucket, which it makes
	Items int    // registered in the namespace "team" before it begins
}

// servedIndexd is our handler as serve has it: on a directory, with the labels of its items, and a line in a log for each
// request.
func servedIndexd(ctx context.Context, in *json.Decoder) (http.Handler, func() error, error) {
	var told settled
	if err := in.Decode(&told); err != nil {
		return nil, nil, err
	}
	d, err := dirbucket.Create(told.Dir, nil)
	if err != nil {
		return nil, nil, err
	}
	x, err := blobindex.New(d, blobindex.Config{}, &blobindex.Options{Resolver: resolve.NewMarker(d)})
	if err != nil {
		return nil, nil, err
	}
	n, err := x.Namespace("team")
	if err != nil {
		return nil, nil, err
	}
	for i := range told.Items {
		id, err := x.Mint(fmt.Sprintf("cfg%04d", i))
		if err != nil {
			return nil, nil, err
		}
		labels := blobindex.Labels{"title": fmt.Sprintf("Training run %d of the nightly sweep", i), "owner": "ana"}
		if _, err := n.Register(ctx, id, labels); err != nil {
			return nil, nil, err
		}
	}
	// The lines are made and written, and go nowhere: how fast a log takes them is the log's.
	sink, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	handler, err := web.New([]*blobindex.Index{x}, func(context.Context) error { return nil }, &web.Options{
		Log: slog.New(slog.NewTextHandler(sink, nil)),
	})
	if err != nil {
		return nil, nil, err
	}
	return handler, func() error {
		handler.Close()
		return d.Close()
	}, nil
}

// newServer is the http.Server of a role: ours has the limits that serve sets, the others are as net/http comes.
func newServer(ctx context.Context, role string, h http.Handler) *http.Server {
	if role == "indexd" {
		return web.NewHTTPServer(ctx, h, nil)
	}
	return &http.Server{Handler: h}
}
