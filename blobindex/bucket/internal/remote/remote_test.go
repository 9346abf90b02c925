package remote_test

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket/internal/remote"
)

// TestEach: every index once, as many at a time as are allowed, and all have returned when it does.
func TestEach(t *testing.T) {
	for _, tt := range []struct{ limit, n, most int }{{3, 0, 0}, {3, 2, 2}, {3, 50, 3}, {1, 5, 1}} {
		var mu sync.Mutex // guards all below
		var seen []int
		now, most := 0, 0
		full := make(chan struct{}) // closed when as many are under way as may be
		remote.Each(tt.limit, tt.n, func(i int) {
			mu.Lock()
			seen = append(seen, i)
			now++
			most = max(most, now)
			if now == tt.most && len(seen) == tt.most {
				close(full)
			}
			mu.Unlock()
			<-full
			mu.Lock()
			now--
			mu.Unlock()
		})
		slices.Sort(seen)
		for i, got := range seen {
			if got != i {
				t.Fatalf("%+v: called with %v", tt, seen)
			}
		}
		if len(seen) != tt.n || most != tt.most || now != 0 {
			t.Errorf("%+v: %d calls, %d at a time, %d are left", tt, len(seen), most, now)
		}
	}
}

// TestTune: a request ends by itself, and connections are kept.
func TestTune(t *testing.T) {
	tr := &http.Transport{}
	remote.Tune(tr, 7)
	if tr.ResponseHeaderTimeout <= 0 || tr.MaxIdleConns != 7 || tr.MaxIdleConnsPerHost != 7 {
		t.Errorf("%v to begin an answer, %d and %d connections", tr.ResponseHeaderTimeout, tr.MaxIdleConns, tr.MaxIdleConnsPerHost)
	}
}

// TestSleep: a context that is over ends the longest wait.
func TestSleep(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := remote.Sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("Sleep under a cancelled context: %v", err)
	}
	if err := remote.Sleep(t.Context(), 0); err != nil {
		t.Errorf("Sleep of nothing: %v", err)
	}
}

// TestWithEnd: it is said once that the context is over, and never while it is not.
func TestWithEnd(t *testing.T) {
	own := errors.New("own")
	if err := remote.WithEnd(t.Context(), own); err != own {
		t.Errorf("under a living context: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := remote.WithEnd(ctx, own); !errors.Is(err, own) || !errors.Is(err, context.Canceled) {
		t.Errorf("under a cancelled context: %v", err)
	}
	if err := remote.WithEnd(ctx, context.Canceled); err != context.Canceled {
		t.Errorf("it says so twice: %v", err)
	}
}

// TestRedact: what is left of a message.
func TestRedact(t *testing.T) {
	signed, long := regexp.MustCompile(`(?i)authorization`), regexp.MustCompile(`[a-z]{32,}`)
	for message, want := range map[string]string{
		"":                                  "",
		"Access  denied.\n":                 "Access denied.",
		"AUTHORIZATION: secret":             "",
		"a " + strings.Repeat("x", 32):      "a …",
		"a " + strings.Repeat("x", 31):      "a " + strings.Repeat("x", 31),
		strings.Repeat("ab ", 100):          strings.Repeat("ab ", 66) + "ab…",
		strings.Repeat("a ", 99) + "éé x y": strings.Repeat("a ", 99) + "é…",
	} {
		if got := remote.Redact(message, signed, long); got != want {
			t.Errorf("Redact(%q) = %q, want %q", message, got, want)
		}
	}
}
