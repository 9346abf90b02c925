package main

import (
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/blobindex/indexd/cas/lease"
	"github.com/blobindex/indexd/fakes/s3d"
)

// liars are stores that take conditions and do not keep them.
var liars = map[string]s3d.Lies{"create-only": {CreateOnlyOverwrites: true}, "if-match": {IgnoresIfMatch: true}}

// TestCase_C03_LeaseRefusesToStart: on a store that does not keep its conditions leases are neither listed nor broken, and
// prune works without one, and says so.
func TestCase_C03_LeaseRefusesToStart(t *testing.T) {
	for name, lies := range liars {
		t.Run(name, func(t *testing.T) {
			s := s3d.New(t, &s3d.Options{Lies: lies})
			runScripts(t, testscript.Params{Files: []string{"testdata/case/C03_lease.txtar"}}, s3Vars(s)...)
			wantNoLease(t, s)
		})
	}
}

// TestCase_C03_ServedPasses: the same over HTTP.
func TestCase_C03_ServedPasses(t *testing.T) {
	for name, lies := range liars {
		s := s3d.New(t, &s3d.Options{Lies: lies})
		p := launchOn(t, s)
		if status, body := p.do(http.MethodPost, "/v1/indexes/running/prune", ""); status != http.StatusOK ||
			!strings.Contains(body, `"unguarded":"lease_unavailable"`) || !strings.Contains(body, `"withheld":""`) {
			t.Errorf("%s: %d: %s", name, status, body)
		}
		if _, status := p.stop(syscall.SIGTERM); status != exitDone || !strings.Contains(p.stderr.String(), "msg=lease_unavailable") {
			t.Errorf("%s: status %d: %s", name, status, p.stderr)
		}
		wantNoLease(t, s)
	}
}

func wantNoLease(t *testing.T, s *s3d.Server) {
	t.Helper()
	for _, key := range s.Keys("bucket") {
		if strings.HasPrefix(key, lease.Prefix) || strings.HasPrefix(key, "_indexd/janitor/") {
			t.Errorf("it left %q", key)
		}
	}
}

// TestRetention_NoOverwrites: in a bucket whose retention refuses every overwrite no lease can be renewed. Passes are not
// guarded there, and say so; the rules are not saved, and items work.
func TestRetention_NoOverwrites(t *testing.T) {
	for name, deletes := range map[string]bool{"overwrites": true, "overwrites and deletes of documents": false} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			stored := map[string]bool{}
			s := s3d.New(t, &s3d.Options{Refuse: func(op s3d.Op, key string) string {
				mu.Lock()
				defer mu.Unlock()
				document := strings.HasPrefix(key, "_indexd/")
				switch {
				case op == s3d.PutObject && stored[key], !deletes && document && (op == s3d.DeleteObject || op == s3d.DeleteObjects):
					return "AccessDenied"
				case op == s3d.PutObject:
					stored[key] = true
				}
				return ""
			}})
			w := &wire{t, s, t.TempDir()}
			w.must("finish", strings.TrimSpace(w.must("register", "--subkey", "job")))
			for range 2 {
				status, stdout, stderr := w.run("prune", "--json")
				if status != exitDone || !strings.Contains(stdout, `"unguarded":"lease_unavailable"`) ||
					!strings.Contains(stderr, "indexd: note: lease_unavailable: this pass was not guarded against others: ") {
					t.Errorf("exit status %d: %s %s", status, stdout, stderr)
				}
			}
			if out := w.must("lease", "ls"); !strings.Contains(out, "no leases") {
				t.Errorf("%s", out)
			}
			wantNoLease(t, s)
		})
	}
}
