package web_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket/membucket"
)

// TestCase_C49_NotReadingAtShutdown: a client that does not read takes from a shutdown no more than the 5 s that it has when
// somebody watched it drain.
func TestCase_C49_NotReadingAtShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(start))
		var server *http.Server
		p := overPipes(t, membucket.New(nil), func(s *http.Server) { server = s })
		server.RegisterOnShutdown(p.handler.EndStreams)
		tr := p.transport(t, false)
		f := open(t, tr, p.url+"/events")
		f.next()
		id := fmt.Sprintf("a_%d", time.Now().UnixMilli())
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, p.url+"/items/"+id, nil)
		if err != nil {
			t.Fatal(err)
		}
		other := p.transport(t, false)
		res, err := other.RoundTrip(req)
		if err != nil || res.StatusCode != http.StatusCreated {
			t.Fatal(res, err)
		}
		res.Body.Close()
		other.CloseIdleConnections()
		synctest.Wait() // the event is on its way into the pipe, which holds nothing
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Errorf("the shutdown: %v", err)
		}
		f.close()
		tr.CloseIdleConnections()
	})
}
