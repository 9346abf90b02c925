package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
	"github.com/blobindex/indexd/blobindex/resolve"
)

// The whole of the README's Go snippet, errors handled.
func Example() {
	dir, err := os.MkdirTemp("", "indexd-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := show(context.Background(), filepath.Join(dir, "bucket")); err != nil {
		log.Fatal(err)
	}
	// Output: Train, EU is running
}

func show(ctx context.Context, dir string) (err error) {
	objects, err := dirbucket.Create(dir, nil)
	if err != nil {
		return err
	}
	defer objects.Close()
	index, err := blobindex.New(objects, blobindex.Config{}, &blobindex.Options{Resolver: resolve.NewMarker(objects)})
	if err != nil {
		return err
	}
	team, err := index.Namespace("team")
	if err != nil {
		return err
	}
	id, err := index.Mint("train-eu")
	if err != nil {
		return err
	}
	if _, err := team.Register(ctx, id, blobindex.Labels{"title": "Train, EU"}); err != nil {
		return err
	}
	view, err := team.Cards(ctx, blobindex.CardsRequest{})
	if err != nil {
		return err
	}
	for _, card := range view.Cards {
		fmt.Println(card.Title, "is", card.State)
	}
	return nil
}
