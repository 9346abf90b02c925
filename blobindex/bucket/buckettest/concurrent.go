package buckettest

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// concurrent puts, deletes, lists and reads one set of keys at once. Every body read is one that somebody put, whole;
// every listed size is the size of one; keys that nobody deletes are in every listing. Who reads goes on for as long as
// somebody writes, so that no order in which they come to run separates them.
func concurrent(e *env) {
	const rounds = 60
	shared := []string{"s0", "s1", "d/s2", "d/s3"}
	kept := []string{"k0", "d/k1"}
	for i, name := range kept {
		e.put(name, wholeBody(i))
	}
	var readers, writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range rounds {
				e.tryPut(shared[(i+w)%len(shared)], wholeBody(w+i))
				e.tryPut(kept[i%len(kept)], wholeBody(w+i))
			}
		})
	}
	writers.Go(func() {
		for i := range rounds {
			if errs := e.o.Delete(e.Context(), e.keys(shared[i%len(shared)])); errs != nil {
				e.Errorf("Delete: %v", errs[0])
			}
		}
	})
	written := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-written:
					return
				default:
					e.checkWhole(shared, kept)
				}
			}
		})
	}
	writers.Wait()
	close(written)
	readers.Wait()
	e.checkWhole(shared, kept)
}

// wholeBody has a length and a letter that belong together; every fourth is empty.
func wholeBody(i int) string {
	return strings.Repeat(string(rune('a'+i%4)), i%4*3000)
}

func (e *env) tryPut(name, body string) {
	if _, err := e.o.Put(e.Context(), e.key(name), strings.NewReader(body)); err != nil {
		e.Errorf("Put(%q): %v", name, err)
	}
}

func (e *env) checkWhole(shared, kept []string) {
	seen := map[string]int{}
	err := e.o.List(e.Context(), bucket.ListRequest{Prefix: e.prefix}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			seen[strings.TrimPrefix(string(o.Key), e.prefix)]++
			if o.Size%3000 != 0 || o.Size > 9000 {
				return fmt.Errorf("listed size %d of %q is nobody's", o.Size, o.Key)
			}
		}
		return nil
	})
	if err != nil {
		e.Errorf("List: %v", err)
	}
	for _, name := range kept {
		// An object that is overwritten meanwhile may be left out, but is never listed twice.
		if seen[name] > 1 {
			e.Errorf("%q was listed %d times", name, seen[name])
		}
	}
	for _, name := range append(shared, kept...) {
		if err := e.readWhole(name); err != nil {
			e.Error(err)
		}
	}
}

func (e *env) readWhole(name string) error {
	body, ok := e.body(name)
	if !ok && strings.Contains(name, "k") {
		return errors.New("a key that nobody deletes is gone: " + name)
	}
	if body != wholeBody(len(body)/3000) {
		return fmt.Errorf("body of %q is torn: %d bytes %.20q", name, len(body), body)
	}
	return nil
}
