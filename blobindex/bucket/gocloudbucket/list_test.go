package gocloudbucket_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gocloud.dev/blob/driver"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/gocloudbucket"
)

func objects(keys ...string) []*driver.ListObject {
	var list []*driver.ListObject
	for _, key := range keys {
		list = append(list, &driver.ListObject{Key: key, ModTime: time.Unix(1_800_000_000, 0)})
	}
	return list
}

// TestListLies: what a driver may answer, and what its listing is then worth.
func TestListLies(t *testing.T) {
	type answer = func(ctx context.Context, opts *driver.ListOptions, nth int) (*driver.ListPage, error)
	same := func(objects []*driver.ListObject, tokens ...string) answer {
		return func(_ context.Context, _ *driver.ListOptions, nth int) (*driver.ListPage, error) {
			return &driver.ListPage{Objects: objects, NextPageToken: []byte(tokens[(nth-1)%len(tokens)])}, nil
		}
	}
	fresh := func(objects []*driver.ListObject) answer {
		return func(_ context.Context, _ *driver.ListOptions, nth int) (*driver.ListPage, error) {
			return &driver.ListPage{Objects: objects, NextPageToken: fmt.Append(nil, nth)}, nil
		}
	}
	for _, tt := range []struct {
		name   string
		page   answer
		opts   gocloudbucket.Options
		want   []string // if the listing is complete
		atMost int      // requests, if it is not
	}{
		{"the same token with every page", same(objects("m/a"), "t"), gocloudbucket.Options{PageSize: 1}, nil, 2},
		{"two tokens in turn", same(objects("m/a"), "t", "u"), gocloudbucket.Options{PageSize: 1}, nil, 3},
		{"three tokens in turn, pages not filled at once", same(objects("m/a"), "t", "u", "v"), gocloudbucket.Options{PageSize: 2}, nil, 8},
		{"the mark of the first page as a token", same(objects("m/a"), "first page"), gocloudbucket.Options{PageSize: 1}, nil, 1},
		{"empty pages with the same token", same(nil, "t"), gocloudbucket.Options{}, nil, 10_001},
		{"empty pages with ever new tokens", fresh(nil), gocloudbucket.Options{}, nil, 10_001},
		{"only foreign keys, with the same token", same(objects("n/a"), "t"), gocloudbucket.Options{PageSize: 10}, nil, 20},
		{"an object that is nil", same([]*driver.ListObject{nil}, ""), gocloudbucket.Options{}, nil, 1},
		{"no page at all", func(context.Context, *driver.ListOptions, int) (*driver.ListPage, error) { return nil, nil },
			gocloudbucket.Options{}, nil, 1},
		{"a directory", same([]*driver.ListObject{{Key: "m/d/", IsDir: true}}, ""), gocloudbucket.Options{}, nil, 1},
		{"out of order", same(objects("m/b", "m/a"), ""), gocloudbucket.Options{Sorted: true}, nil, 1},
		{"twice, and declared sorted", same(objects("m/a", "m/a"), ""), gocloudbucket.Options{Sorted: true}, nil, 1},

		{"keys from elsewhere", same(objects("", "/", "m", "m/a", "m2/b", "n/c", "M/d"), ""), gocloudbucket.Options{}, []string{"m/a"}, 0},
		{"empty pages before the last one", func(_ context.Context, _ *driver.ListOptions, nth int) (*driver.ListPage, error) {
			if nth < 50 {
				return &driver.ListPage{NextPageToken: fmt.Append(nil, nth)}, nil
			}
			return &driver.ListPage{Objects: objects("m/a")}, nil
		}, gocloudbucket.Options{}, []string{"m/a"}, 0},
		{"more on a page than was asked for", same(objects("m/a", "m/b", "m/c"), ""), gocloudbucket.Options{PageSize: 1},
			[]string{"m/a", "m/b", "m/c"}, 0},
		{"an escape that somebody wrote", same(objects("m/__0x2f__a"), ""), gocloudbucket.Options{}, []string{"m/__0x2f__a"}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := &liar{page: tt.page}
			b := start(t, l, tt.opts)
			keys, err := listed(t, b, "m/")
			if tt.atMost > 0 {
				wantErr(t, "List", err, bucket.ErrIncomplete)
				if n := l.count("list"); n > tt.atMost {
					t.Errorf("%d requests, want at most %d", n, tt.atMost)
				}
			} else if err != nil || !slices.Equal(keys, tt.want) {
				t.Errorf("List: %q, %v, want %q", keys, err, tt.want)
			}
		})
	}
}

// TestListPanic: s3blob panics at an object without a time. It is asked once, and the caller lives on.
func TestListPanic(t *testing.T) {
	l := &liar{}
	l.strike = func(op, _ string) error {
		var missing *time.Time
		_ = *missing
		return nil
	}
	b := start(t, l, gocloudbucket.Options{})
	_, err := listed(t, b, "")
	wantErr(t, "List", err, bucket.ErrIncomplete)
	if n := l.count("list"); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// TestListCallbackPanic: a panic in the callback is the caller's own.
func TestListCallbackPanic(t *testing.T) {
	b := start(t, &liar{}, gocloudbucket.Options{})
	defer func() {
		if v := recover(); v != "mine" {
			t.Errorf("recovered %v, want the callback's panic", v)
		}
	}()
	b.List(t.Context(), bucket.ListRequest{}, func(bucket.Page) error { panic("mine") })
}

// TestListHangs: a driver that does not come back until its context ends, and one that goes on within it.
func TestListHangs(t *testing.T) {
	for what, page := range map[string]func(context.Context, *driver.ListOptions, int) (*driver.ListPage, error){
		"hanging": func(ctx context.Context, _ *driver.ListOptions, _ int) (*driver.ListPage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"going on": func(ctx context.Context, _ *driver.ListOptions, _ int) (*driver.ListPage, error) {
			<-time.After(time.Second)
			return &driver.ListPage{NextPageToken: []byte("t")}, ctx.Err()
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := start(t, &liar{page: page}, gocloudbucket.Options{PageTimeout: time.Minute})
				began := time.Now()
				_, err := listed(t, b, "")
				wantErr(t, "List", err, bucket.ErrIncomplete)
				if took := time.Since(began); took < time.Minute || took > time.Minute+time.Second {
					t.Errorf("it took %v, want a minute and no second attempt", took)
				}

				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err = b.List(ctx, bucket.ListRequest{}, func(bucket.Page) error { return nil })
				if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, bucket.ErrIncomplete) {
					t.Errorf("List with a second to go: error %v, want context.DeadlineExceeded", err)
				}
			})
		})
	}
}

// TestCase_C04_FailedPage: page 2 of 3 fails, once and for good.
func TestCase_C04_FailedPage(t *testing.T) {
	for fails, want := range map[int]bool{1: true, 1000: false} {
		l := &liar{}
		b := start(t, l, gocloudbucket.Options{PageSize: 2})
		l.fill("a", "b", "c", "d", "e")
		l.strike = func(string, string) error {
			if n := l.count("list"); n >= 2 && n < 2+fails {
				return errors.New("the connection broke")
			}
			return nil
		}
		keys, err := listed(t, b, "")
		if want && (err != nil || len(keys) != 5) {
			t.Errorf("a page that fails once: %q, %v, want all 5", keys, err)
		}
		if !want {
			wantErr(t, "a page that fails for good", err, nil)
			if n := l.count("list"); n != 4 {
				t.Errorf("%d requests, want the first page and three tries of the second", n)
			}
		}
	}
}

// TestListPrefixes asks for what no store can be asked for, and sorts it out here.
func TestListPrefixes(t *testing.T) {
	l := &liar{}
	b := start(t, l, gocloudbucket.Options{})
	l.fill("a", "a/b", "a//b", "a/./b", "a/../c", "a\x01b", "a%2Fb", "a__0x2f__b", "a.", "a./b", "/a")
	for prefix, want := range map[string]struct {
		asked string
		keys  []string
	}{
		"a/":         {"a/", []string{"a/../c", "a/./b", "a//b", "a/b"}},
		"a//":        {"a/", []string{"a//b"}},
		"a/./":       {"a/", []string{"a/./b"}},
		"a/../":      {"a/", []string{"a/../c"}},
		"a\x01":      {"a", []string{"a\x01b"}},
		"a%2F":       {"a", []string{"a%2Fb"}},
		"a__0x2f__b": {"a", []string{"a__0x2f__b"}},
		"a./":        {"", []string{"a./b"}},
		"/":          {"", []string{"/a"}},
		"a\xff":      {"a", nil},
		"\xff":       {"", nil},
	} {
		asked := "not at all"
		l.strike = func(_, prefix string) error { asked = prefix; return nil }
		if keys := list(t, b, prefix); !slices.Equal(keys, want.keys) || asked != want.asked {
			t.Errorf("List(%q): %q, asked for %q, want %q, asked for %q", prefix, keys, asked, want.keys, want.asked)
		}
	}
}
