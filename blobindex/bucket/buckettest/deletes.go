package buckettest

import (
	"context"
	"errors"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// deletes takes what is there, what is not, and the same twice; neighbours stay.
func deletes(e *env) {
	e.fill([]string{"item", "item2", "item~1", "ite", "dir/item"})
	e.delete()
	e.delete("absent", "no/such/dir/item")
	e.delete("item", "item", "absent")
	e.wantNames("", []string{"item2", "item~1", "ite", "dir/item"})
	e.delete("item")
	e.delete("dir/item", "ite")
	e.wantNames("", []string{"item2", "item~1"})
	e.put("item", "back")
	e.wantBody("item", "back")

	over, cancel := context.WithCancel(e.Context())
	cancel()
	for _, none := range [][]bucket.Key{nil, {}} {
		if errs := e.o.Delete(over, none); errs != nil {
			e.Errorf("Delete of no keys: %v, want nil: there is nothing to ask the store", errs)
		}
	}
}

// deleteErrors has one key that cannot be deleted between two that can.
func deleteErrors(e *env) {
	e.fill([]string{"first", "last"})
	errs := e.o.Delete(e.Context(), []bucket.Key{e.key("first"), "", e.key("last"), e.key("absent")})
	if len(errs) != 4 {
		e.Fatalf("Delete of 4 keys, one of them bad: %d errors", len(errs))
	}
	for i, err := range errs {
		if i == 1 && !errors.Is(err, bucket.ErrInvalidKey) {
			e.Errorf("Delete, error of the empty key: %v, want ErrInvalidKey", err)
		}
		if i != 1 && err != nil {
			e.Errorf("Delete, error %d: %v, want nil", i, err)
		}
	}
	e.wantNames("", nil)
}

// deleteMany needs more than one batch where batches are of a page's size.
func deleteMany(e *env) {
	names := numbered(bucket.PageSize + 3)
	e.fill(names)
	e.delete(names[1 : len(names)-1]...)
	e.wantNames("", []string{names[0], names[len(names)-1]})
}
