package lease

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
)

// List returns what is to be seen of all leases, in the order of their names. 1 LIST for 1,000 leases, 1 GET each. Leases that
// cannot be read are left out, and the error names them.
func List(ctx context.Context, objects bucket.Objects, store cas.Store) ([]Status, error) {
	var names []string
	err := objects.List(ctx, bucket.ListRequest{Prefix: Prefix}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			names = append(names, strings.TrimPrefix(string(o.Key), Prefix))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var all []Status
	var errs []error
	for _, name := range names {
		l, err := New(store, name, Operator, nil)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		st, err := l.Status(ctx)
		switch {
		case err != nil:
			errs = append(errs, err)
		case st.Term > 0: // it was not deleted meanwhile
			all = append(all, st)
		}
	}
	return all, errors.Join(errs...)
}
