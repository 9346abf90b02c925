// Package remote is what the drivers of stores on the network share: how they wait, how they make many calls at once, and
// what they may repeat of what a store answered. It owns no protocol and no retry: which answers are worth a repetition,
// and which leave open what was done, is for each driver to say.
package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

// MaxEmptyPages is how many pages without an object a listing may have in a row. Pages may honestly be empty where a store
// hides delete markers; that many are a listing that does not end by itself.
const MaxEmptyPages = 10_000

// answerTimeout is how long a store may take to begin its answer, once it has the request whole; the slowest seen needed
// 25 s under load.
const answerTimeout = time.Minute

// Tune sets what a client of a store needs: so many idle connections, that calls made at once do not dial anew each time,
// and an end for requests that are never answered, where the caller has set none.
func Tune(t *http.Transport, connections int) {
	t.MaxIdleConns, t.MaxIdleConnsPerHost = connections, connections
	t.ResponseHeaderTimeout = answerTimeout
}

// Sleep waits for d, or returns the error of ctx if that ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Each calls do with 0 to n-1, at most limit of them at a time, and returns when all have returned.
func Each(limit, n int, do func(i int)) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(limit, n) {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// WithEnd adds that ctx is over to an error that does not say so.
func WithEnd(ctx context.Context, err error) error {
	if end := ctx.Err(); end != nil && !errors.Is(err, end) {
		return fmt.Errorf("%w: %w", end, err)
	}
	return err
}

// Redact cuts a store's message to a short line that holds no credential: a message that matches signed repeats what was
// sent, and nothing is left of it; of others every word that matches long, which is longer than an error needs, is left out.
func Redact(message string, signed, long *regexp.Regexp) string {
	if signed.MatchString(message) {
		return ""
	}
	message = long.ReplaceAllString(strings.Join(strings.Fields(message), " "), "…")
	if len(message) > 200 {
		message = strings.ToValidUTF8(message[:200], "") + "…"
	}
	return message
}
