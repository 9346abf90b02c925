package cas_test

import (
	"context"
	"fmt"
	"log"

	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas"
)

// A counter is what the document of the example holds.
type counter struct {
	Runs int `json:"runs"`
}

// Many processes may do this at once: each run is counted once. An error that matches cas.ErrUnknown says that this one may
// have been counted; it is not counted twice by itself.
func ExampleDoc_Update() {
	ctx := context.Background()
	objects := membucket.New(nil) // or any driver that is a cas.Store
	doc := cas.NewDoc[counter](objects, "counters/nightly", "counter/1", nil)
	for range 3 {
		state, err := doc.Update(ctx, func(next *counter, _ cas.State[counter]) error {
			next.Runs++
			return nil
		}, &cas.UpdateOptions{Create: true})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(state.Value.Runs, "at seq", state.Seq)
	}
	// Output:
	// 1 at seq 1
	// 2 at seq 2
	// 3 at seq 3
}
