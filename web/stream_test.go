package web

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/labstack/echo/v4"
)

// A route that is registered by itself is neither held until its answer is whole nor ended by a deadline.
func TestStreamsGoThrough(t *testing.T) {
	x, err := blobindex.New(membucket.New(nil), blobindex.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New([]*blobindex.Index{x}, func(context.Context) error { return nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	more := make(chan string)
	s.echo.GET("/stream", func(c echo.Context) error {
		if _, ok := c.Request().Context().Deadline(); ok {
			t.Error("the stream has a deadline")
		}
		if err := http.NewResponseController(c.Response()).SetWriteDeadline(time.Time{}); err != nil {
			t.Error(err)
		}
		for line := range more {
			if _, err := c.Response().Write([]byte(line + "\n")); err != nil {
				return err
			}
			c.Response().Flush()
		}
		return nil
	})
	server := httptest.NewServer(s)
	defer server.Close()
	defer close(more)
	go func() { more <- "one" }()
	res, err := server.Client().Get(server.URL + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	if !lines.Scan() || lines.Text() != "one" {
		t.Fatalf("%q, %v", lines.Text(), lines.Err())
	}
	more <- "two" // after the first one came
	if !lines.Scan() || lines.Text() != "two" {
		t.Fatalf("%q, %v", lines.Text(), lines.Err())
	}
	if res.Header.Get("Etag") != "" || res.Header.Get("Content-Security-Policy") == "" {
		t.Errorf("%v", res.Header)
	}
}
