package manifest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/manifest"
)

func uploadOf(name, body string) manifest.Source {
	return manifest.Source{Name: name, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil }}
}

// vaguePuts answers puts as if their answers had been lost.
type vaguePuts struct {
	manifest.Store
	puts int
	end  func()
}

func (v *vaguePuts) Put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	v.puts++
	_, err := v.Store.Put(ctx, key, body)
	v.end()
	return time.Time{}, errors.Join(fmt.Errorf("putting %q: %w", key, bucket.ErrUnknown), err)
}

// TestAdd_UploadUnknown: whether a blob came to be is no question of what became of the list.
func TestAdd_UploadUnknown(t *testing.T) {
	for _, interrupted := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		store := &vaguePuts{Store: membucket.New(nil), end: func() {}}
		if interrupted {
			store.end = cancel
		}
		m, err := manifest.New(store, "team", "models", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Add(ctx, manifest.AddRequest{Sources: []manifest.Source{uploadOf("a", "x")}, Create: true})
		if !errors.Is(err, manifest.ErrUpload) || errors.Is(err, cas.ErrUnknown) || errors.Is(err, context.Canceled) != interrupted {
			t.Errorf("interrupted %v: %v, want ErrUpload alone", interrupted, err)
		}
		if _, err := m.Load(t.Context()); !errors.Is(err, cas.ErrNotExist) || store.puts != 1 {
			t.Errorf("afterwards %v, %d puts", err, store.puts)
		}
	}
}

// TestAddRequest_Check: what is refused before anything is asked of the store.
func TestAddRequest_Check(t *testing.T) {
	sources := []manifest.Source{uploadOf("a", "x")}
	store := &vaguePuts{Store: membucket.New(nil), end: func() {}}
	m, err := manifest.New(store, "team", "models", &manifest.Options{Usable: func(context.Context) error {
		t.Error("the store was asked")
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []manifest.AddRequest{
		{ID: "a/b", Sources: sources}, {ID: ".a", Sources: sources}, {ID: "a\n", Sources: sources}, {ID: "\xff", Sources: sources},
		{ID: strings.Repeat("a", 201), Sources: sources}, {DedupeKey: strings.Repeat("a", 1001), Sources: sources},
		{DedupeKey: "\xff", Sources: sources}, {Meta: map[string]string{"a": "\xff"}, Sources: sources},
		{Meta: map[string]string{"\xff": "a"}, Sources: sources}, {},
	} {
		if err := r.Check(); err == nil || errors.Is(err, manifest.ErrID) != (r.Sources != nil) {
			t.Errorf("%+v: %v", r, err)
		}
		if _, err := m.Add(t.Context(), r); err == nil {
			t.Errorf("%+v was added", r)
		}
	}
	for _, r := range []manifest.AddRequest{
		{Sources: sources}, {ID: strings.Repeat("a", 200), DedupeKey: strings.Repeat("a", 1000), Sources: sources,
			Meta: map[string]string{"": "", "ключ": "значение"}},
	} {
		if err := r.Check(); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if store.puts > 0 {
		t.Errorf("%d puts", store.puts)
	}
}

// TestAdd_More: sources that are told one by one, each asked for when the one before has been uploaded.
func TestAdd_More(t *testing.T) {
	store := membucket.New(nil)
	blobs := func() (n int) {
		err := store.List(t.Context(), bucket.ListRequest{Prefix: manifest.Root + "team/models/blobs/"}, func(p bucket.Page) error {
			n += len(p.Objects)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	m, err := manifest.New(store, "team", "models", nil)
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	more := func(names []string, end error) func() (manifest.Source, error) {
		return func() (manifest.Source, error) {
			if len(names) == 0 {
				return manifest.Source{}, end
			}
			if n := blobs(); n != told {
				t.Errorf("%d are uploaded when number %d is asked for", n, told+1)
			}
			s := uploadOf(names[0], names[0]+names[0])
			names, told = names[1:], told+1
			return s, nil
		}
	}
	told = 1
	first := []manifest.Source{uploadOf("a", "a")}
	c, err := m.Add(t.Context(), manifest.AddRequest{Sources: first, More: more([]string{"b", "c"}, io.EOF), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if e := c.Entry; len(e.Blobs) != 3 || e.Blobs[1].Name != "b" || e.Size != 5 {
		t.Errorf("%+v", e)
	}
	cut := fmt.Errorf("cut: %w", io.EOF)
	for _, end := range []error{cut, io.ErrUnexpectedEOF} {
		told = blobs()
		_, err = m.Add(t.Context(), manifest.AddRequest{More: more([]string{"d"}, end)})
		if !errors.Is(err, manifest.ErrUpload) || !errors.Is(err, end) {
			t.Errorf("cut off by %v: %v", end, err)
		}
	}
	if _, err = m.Add(t.Context(), manifest.AddRequest{More: more(nil, io.EOF)}); err == nil {
		t.Error("an entry without a blob was added")
	}
	if s, err := m.Load(t.Context()); err != nil || len(s.Entries) != 1 {
		t.Errorf("afterwards %+v, %v", s, err)
	}
}

// TestAdd_Absent: a manifest that must not be there yet, nor come to be meanwhile.
func TestAdd_Absent(t *testing.T) {
	m, err := manifest.New(membucket.New(nil), "team", "models", nil)
	if err != nil {
		t.Fatal(err)
	}
	add := func(id string, meanwhile func()) error {
		s := manifest.Source{Name: "a", Open: func() (io.ReadCloser, error) {
			meanwhile()
			return io.NopCloser(strings.NewReader(id)), nil
		}}
		_, err := m.Add(t.Context(), manifest.AddRequest{ID: id, Sources: []manifest.Source{s}, Create: true, Absent: true})
		return err
	}
	err = add("slow", func() {
		if err := add("quick", func() {}); err != nil {
			t.Error(err)
		}
	})
	if !errors.Is(err, manifest.ErrState) {
		t.Errorf("it came to be meanwhile: %v", err)
	}
	if err := add("late", func() {}); !errors.Is(err, manifest.ErrState) {
		t.Errorf("it is there: %v", err)
	}
	if s, err := m.Load(t.Context()); err != nil || len(s.Entries) != 1 || s.Entries[0].ID != "quick" {
		t.Errorf("%+v, %v", s, err)
	}
}
