package live

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/blobindex/indexd/blobindex"
)

// snapshot lists. A panic, such as of a driver, is an error: here nobody else recovers from it, and it would end the process for
// all that it serves.
func (v *view) snapshot(ctx context.Context) (s *blobindex.Snapshot, err error) {
	defer func() {
		if r := recover(); r != nil {
			v.h.opt.Log.Error("panic", "index", v.n.Index().Name(), "value", r, "stack", string(debug.Stack()))
			s, err = nil, fmt.Errorf("the listing panicked: %v", r)
		}
	}()
	return v.n.Snapshot(ctx)
}
