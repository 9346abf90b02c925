package gocloudbucket_test

import (
	"context"
	"fmt"
	"log"

	"gocloud.dev/blob/memblob"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket/gocloudbucket"
)

// Any *blob.Bucket will do: for Azure, that of azureblob.OpenBucket.
func Example() {
	ctx := context.Background()
	b := memblob.OpenBucket(nil)
	defer b.Close()
	objects, err := gocloudbucket.New(b, nil)
	if err != nil {
		log.Fatal(err)
	}
	index, err := blobindex.New(objects, blobindex.Config{}, nil)
	if err != nil {
		log.Fatal(err)
	}
	team, err := index.Namespace("team")
	if err != nil {
		log.Fatal(err)
	}
	id, err := index.Mint("cfg42")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := team.Register(ctx, id, nil); err != nil {
		log.Fatal(err)
	}
	view, err := team.Cards(ctx, blobindex.CardsRequest{})
	if err != nil {
		log.Fatal(err)
	}
	for _, card := range view.Cards {
		fmt.Println(card.Subkey, card.State)
	}
	// Output: cfg42 running
}
