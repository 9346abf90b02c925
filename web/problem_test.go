package web_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/blobindex/live"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/fakes"
	"github.com/blobindex/indexd/web"
	"github.com/blobindex/indexd/web/api"
)

// A refusal is a request and the problem that it meets.
type refusal struct {
	code   string
	status int
	ask    func(s *site) answer
}

func refusals() []refusal {
	const labels = `{"a":"b"}`
	big := `{"a":"` + strings.Repeat("b", 1100) + `"}`
	item := func(s *site) string { return ns + "/items/" + s.id("x") }
	put := func(body string, header ...string) func(*site) answer {
		return func(s *site) answer { return s.do("PUT", item(s), body, header...) }
	}
	get := func(path string) func(*site) answer { return func(s *site) answer { return s.get(path) } }
	struck := func(op fakes.Op, kind fakes.Kind, ask func(*site) answer) func(*site) answer {
		return func(s *site) answer {
			s.faults.Plan(fakes.Fault{Op: op, Every: true, Kind: kind})
			return ask(s)
		}
	}
	secret := errors.New("secret: 10.1.2.3/bucket")
	add := func(s *site) answer { return s.upload("PUT", models+"/x", create, file("f", "body")) }
	// stored puts a list of that payload into the store; see package cas for the envelope.
	stored := func(format, payload string) func(*site) answer {
		return func(s *site) answer {
			s.put(string(listKey), `{"format":"`+format+`","created":{"nonce":"N","at":"2026-03-01T12:00:00Z"},"seq":1,"nonce":"N",`+
				`"recent":[],"payload":`+payload+`}`)
			return s.get(models)
		}
	}
	// pointed puts a pointer of that payload into the store, and publishes or reads.
	pointed := func(format, payload string, ask func(*site) answer) func(*site) answer {
		return func(s *site) answer {
			s.put(string(pointerKey), `{"format":"`+format+`","created":{"nonce":"N","at":"2026-03-01T12:00:00Z"},"seq":1,"nonce":"N",`+
				`"recent":[],"payload":`+payload+`}`)
			return ask(s)
		}
	}
	first := func(s *site) answer { return s.publish(twoRows, "If-None-Match", "*") }
	rows := get(listings + "/rows")
	// published publishes first, and asks after something has been done to the part that there is then.
	published := func(do func(s *site, part string), ask func(*site) answer) func(*site) answer {
		return func(s *site) answer {
			id := decode[api.SnapshotPublication](first(s).want(http.StatusCreated)).Current.Id
			do(s, generationsKey+id+"_000000")
			return ask(s)
		}
	}
	const blobs = `[{"key":"K","name":"f","size":1,"digest":"sha256:x\\r"}]`
	one := func(blobs string) string {
		return `{"grace_ms":86400000,"reaping":[],"entries":[{"id":"x","dedupe_key":"","blobs":` + blobs + `,"size":1,"digest":"",` +
			`"added_at":"2026-03-01T12:00:00Z","meta":{}}]}`
	}
	loading := func(err error, ask func(*site) answer) func(*site) answer {
		return func(s *site) answer { s.docs.hooks(func() error { return err }, nil, nil); return ask(s) }
	}
	saving := func(err error, ask func(*site) answer) func(*site) answer {
		return func(s *site) answer { s.docs.hooks(nil, func() error { return err }, nil); return ask(s) }
	}
	return []refusal{
		{"bad_request", 400, get(ns + "/cards?limits=3")},
		{"bad_request", 400, get(ns + "/cards?limit=201")},
		{"bad_request", 400, get(ns + "/cards?a=%zz")},
		{"bad_request", 400, get(ns + "/items?cursor=!")},
		{"bad_request", 400, get(ns + "/items?cursor=YWJj")},
		{"bad_request", 400, get(ns + "/recent?cursor=YWJj")},
		{"bad_request", 400, put(`{"a":null}`)},
		{"bad_request", 400, put(`{"a":1}`)},
		{"bad_request", 400, put(`{"a":"b","a":"c"}`)},
		{"bad_request", 400, put(`{"a":"\ud800"}`)},
		{"bad_request", 400, put("{\"a\":\"\xff\"}")},
		{"bad_request", 400, put(`{"a":"b"} x`)},
		{"bad_request", 400, put(`{"a":"b"`)},
		{"bad_request", 400, put(`[]`)},
		{"bad_request", 400, put(`null`)},
		{"bad_request", 400, func(s *site) answer { return s.do("POST", ns+"/items", `{"subkey":"a","x":"b"}`) }},
		{"bad_request", 400, func(s *site) answer { return s.do("POST", ns+"/items", `{"SubKey":"a"}`) }},
		{"invalid_id", 400, func(s *site) answer { return s.do("PUT", ns+"/items/nothing", "") }},
		{"invalid_id", 400, get(ns + "/items/nothing/explain")},
		{"invalid_id", 400, func(s *site) answer { return s.do("POST", ns+"/items", "") }},
		{"invalid_key", 400, struck(fakes.Put, fakes.NotApplied(bucket.ErrInvalidKey), put(""))},
		{"store_unavailable", 503, struck(fakes.List, fakes.NotApplied(bucket.ErrInvalidKey), get(ns+"/cards"))},
		{"store_unavailable", 503, struck(fakes.List, fakes.NotApplied(bucket.ErrInvalidKey), get("/readyz"))},
		{"invalid_name", 400, get("/v1/indexes/running/_/cards")},
		{"invalid_name", 400, get("/v1/indexes/flat/team/cards")},
		{"invalid_name", 400, get("/v1/indexes/-/team/cards")},
		{"labels", 400, put(`{"a":"\u0001"}`)},
		{"labels", 400, put(`{"":"b"}`)},
		{"outcome", 400, func(s *site) answer { return s.do("DELETE", item(s)+"?outcome=gone", "") }},
		{"host", 403, func(s *site) answer { return s.do("GET", "/v1/indexes", "", "Host", "evil.example") }},
		{"origin", 403, put("", "Origin", "http://evil.example")},
		{"not_found", 404, get("/v1/indexes/other/team/cards")},
		{"not_found", 404, get("/v1/nothing")},
		{"not_found", 404, get("/ui/page.html")},
		{"method", 405, func(s *site) answer { return s.do("PATCH", item(s), "") }},
		{"method", 405, func(s *site) answer { return s.do("POST", "/", "") }},
		{"finished", 409, func(s *site) answer {
			s.do("DELETE", item(s), "").want(http.StatusNoContent)
			return s.do("POST", item(s)+"/heartbeat", "")
		}},
		{"too_large", 413, put(big)},
		{"too_large", 413, func(s *site) answer { return s.do("POST", ns+"/items", `{"subkey":"a","labels":`+big+`}`) }},
		{"too_large", 413, put(strings.Repeat(" ", 8<<10+1))},
		{"media_type", 415, put(labels, "Content-Type", "text/plain")},
		{"media_type", 415, put(labels, "Content-Type", "")},
		{"clock", 422, func(s *site) answer {
			s.get(ns + "/cards").want(http.StatusOK) // so that the store's clock is known
			s.count.Reset()
			a := s.do("PUT", ns+"/items/x_1772366521", "") // 121 s ahead
			s.wantRequests(fakes.Counts{})
			return a
		}},
		{"clock", 422, func(s *site) answer { return s.do("PUT", ns+"/items/x_1772366521", "") }},
		{"clock", 422, func(s *site) answer { return s.do("PUT", ns+"/items/x_1772359199", "") }}, // past the TTL
		{"idempotency", 422, func(s *site) answer {
			s.do("POST", ns+"/items", `{"subkey":"a"}`, "Idempotency-Key", "k").want(http.StatusCreated)
			return s.do("POST", ns+"/items", `{"subkey":"b"}`, "Idempotency-Key", "k")
		}},
		{"store_denied", 503, struck(fakes.List, fakes.NotApplied(bucket.ErrDenied), get(ns+"/cards"))},
		{"store_denied", 503, struck(fakes.Put, fakes.NotApplied(bucket.ErrDenied), put(""))},
		{"store_denied", 503, struck(fakes.List, fakes.NotApplied(bucket.ErrDenied), get("/readyz"))},
		{"store_unavailable", 503, struck(fakes.List, fakes.NotApplied(secret), get(ns+"/cards"))},
		{"store_unavailable", 503, struck(fakes.List, fakes.NotApplied(secret), get(ns+"/items"))},
		{"store_unavailable", 503, struck(fakes.List, fakes.NotApplied(secret), get(ns+"/recent"))},
		{"store_unavailable", 503, struck(fakes.List, fakes.NotApplied(secret), get("/v1/indexes/running/namespaces"))},
		{"store_unavailable", 503, struck(fakes.List, fakes.NotApplied(secret), get(ns+"/items/x_1772366400/explain"))},
		{"store_unavailable", 503, struck(fakes.List, fakes.NotApplied(secret), get("/readyz"))},
		{"store_unavailable", 503, struck(fakes.List, fakes.NotApplied(bucket.ErrNotExist), get("/readyz"))},
		{"store_unavailable", 503, struck(fakes.Put, fakes.NotApplied(bucket.ErrNotExist), put(""))},
		{"throttled", 503, struck(fakes.List, fakes.NotApplied(bucket.ErrThrottled), get(ns+"/cards"))},
		{"throttled", 503, struck(fakes.Put, fakes.NotApplied(bucket.ErrThrottled), put(""))},
		{"invalid_name", 400, get("/v1/manifests/_/models/entries")},
		{"invalid_name", 400, get("/v1/manifests/team/_indexd/entries")},
		{"invalid_id", 400, get(models + "/.x")},
		{"invalid_id", 400, get(models + "/x/blobs/-")},
		{"not_found", 404, get(models)},
		{"entry_exists", 409, func(s *site) answer {
			s.entry("x", "a")
			return s.upload("PUT", models+"/x", anyway, file("f", "b"))
		}},
		{"changed", 412, func(s *site) answer { s.entry("x", "a"); return add(s) }},
		{"precondition", 428, func(s *site) answer { return s.do("DELETE", models+"/x", "") }},
		{"media_type", 415, func(s *site) answer { return s.do("PUT", models+"/x", "{}", create...) }},
		{"blob_missing", 500, func(s *site) answer {
			e := s.entry("x", "body")
			s.mem.Delete(s.t.Context(), []bucket.Key{blobsKey + bucket.Key(e.Blobs[0].Key)})
			return s.get(blobPath(e, 0))
		}},
		{"blob_corrupt", 500, func(s *site) answer {
			e := s.entry("x", "body")
			s.put(blobsKey+e.Blobs[0].Key, "secret")
			return s.get(blobPath(e, 0))
		}},
		{"unsupported", 501, loading(cas.ErrUnsupported, get(models))},
		{"unsupported", 501, loading(cas.ErrNoVersion, get(models))},
		{"manifest_corrupt", 503, func(s *site) answer { s.put(string(listKey), "secret"); return s.get(models) }},
		{"manifest_corrupt", 503, func(s *site) answer { s.put(string(listKey), ""); return add(s) }},
		{"manifest_corrupt", 503, stored("manifest/1", `{"secret":1}`)},
		{"manifest_corrupt", 503, func(s *site) answer {
			stored("manifest/1", one(blobs))(s)
			return s.get(models + "/x/blobs/K")
		}},
		{"manifest_format", 503, stored("manifest/2", `{"secret":1}`)},
		{"manifest_format", 503, func(s *site) answer { stored("lease/1", `{}`)(s); return add(s) }},
		{"store_denied", 503, loading(bucket.ErrDenied, get(models))},
		{"store_denied", 503, struck(fakes.Put, fakes.NotApplied(bucket.ErrDenied), add)},
		{"store_denied", 503, saving(bucket.ErrDenied, add)},
		{"store_unavailable", 503, loading(secret, get(models))},
		{"store_unavailable", 503, loading(cas.ErrBackwards, get(models))},
		{"store_unavailable", 503, loading(secret, add)},
		{"store_unavailable", 503, saving(secret, add)},
		{"store_unavailable", 503, struck(fakes.Head, fakes.NotApplied(secret), add)},
		{"store_unavailable", 503, func(s *site) answer {
			e := s.entry("x", "body")
			s.faults.Plan(fakes.Fault{Op: fakes.Open, Kind: fakes.NotApplied(secret)})
			return s.get(blobPath(e, 0))
		}},
		{"throttled", 503, loading(bucket.ErrThrottled, get(models))},
		{"throttled", 503, struck(fakes.Put, fakes.NotApplied(bucket.ErrThrottled), add)},
		{"too_large", 413, struck(fakes.Put, fakes.NotApplied(bucket.ErrUnsupported), add)},
		{"too_large", 413, func(s *site) answer {
			return s.upload("PUT", models+"/x", create, field("meta", strings.Repeat(" ", 8<<10+1)), file("f", ""))
		}},
		{"upload_failed", 503, struck(fakes.Put, fakes.NotApplied(secret), add)},
		{"upload_failed", 503, func(s *site) answer {
			s.entry("x", "a")
			s.faults.Plan(fakes.Fault{Op: fakes.Put, Kind: fakes.NotApplied(bucket.ErrNotExist)})
			return s.upload("PUT", models+"/y", anyway, file("f", "b"))
		}},
		{"upload_failed", 503, struck(fakes.Put, fakes.AppliedThenLost(bucket.ErrUnknown), add)},
		{"unknown", 503, func(s *site) answer {
			s.docs.hooks(nil, func() error {
				s.docs.hooks(func() error { return bucket.ErrDenied }, nil, nil)
				return bucket.ErrUnknown
			}, nil)
			return add(s)
		}},
		{"invalid_name", 400, get("/v1/snapshots/_/models")},
		{"invalid_name", 400, get("/v1/snapshots/team/_indexd/rows")},
		{"not_found", 404, get(listings)},
		{"not_found", 404, rows},
		{"bad_request", 400, get(listings + "/rows?cursor=YWJj")},
		{"bad_request", 400, get(listings + "/rows?prefix=%ff")},
		{"bad_request", 400, get(listings + "/rows?limit=1001")},
		{"bad_request", 400, func(s *site) answer { return s.publish(twoRows, "If-Match", "*") }},
		{"bad_request", 400, func(s *site) answer { return s.publish(twoRows, "If-Match", `W/"a"`) }},
		{"bad_request", 400, func(s *site) answer { return s.publish(twoRows, "If-Match", `"none"`) }},
		{"bad_request", 400, func(s *site) answer { return s.publish(twoRows, "If-Match", `"a", "b"`) }},
		{"bad_request", 400, func(s *site) answer { return s.publish(twoRows, "If-None-Match", `"a"`) }},
		{"bad_request", 400, func(s *site) answer { return s.publish(twoRows, "If-None-Match", "*", "If-Match", `"a"`) }},
		{"bad_request", 400, func(s *site) answer { return s.publish(row("b")+row("a"), "If-None-Match", "*") }},
		{"bad_request", 400, func(s *site) answer { return s.publish(row("../secret"), "If-None-Match", "*") }},
		{"bad_request", 400, func(s *site) answer { return s.publish("{", "If-None-Match", "*") }},
		{"bad_request", 400, func(s *site) answer {
			return s.do("POST", listings+"/rows?allow_empty=1", twoRows, rowsHeader("If-None-Match", "*")...)
		}},
		{"precondition", 428, func(s *site) answer { return s.publish(twoRows) }},
		{"media_type", 415, func(s *site) answer { return s.do("POST", listings+"/rows", twoRows, "If-None-Match", "*") }},
		{"superseded", 409, func(s *site) answer { first(s); return first(s) }},
		{"superseded", 409, func(s *site) answer { return s.publish(twoRows, "If-Match", `"N.1"`) }},
		{"empty", 422, func(s *site) answer {
			return s.publish("\n", "If-Match", first(s).header.Get("Etag"))
		}},
		{"swept", 410, func(s *site) answer {
			first(s)
			next := decode[api.SnapshotRows](s.get(listings + "/rows?limit=1")).Next
			s.replace(row("c"))
			s.clock.advance(time.Hour)
			s.replace(row("d"))
			return s.get(listings + "/rows?limit=1&cursor=" + *next)
		}},
		{"part_missing", 500, published(func(s *site, part string) {
			s.mem.Delete(s.t.Context(), []bucket.Key{bucket.Key(part)})
		}, rows)},
		{"part_corrupt", 500, published(func(s *site, part string) { s.put(part, "secret") }, rows)},
		{"snapshot_lost", 503, func(s *site) answer {
			first(s)
			s.replace(row("c"))
			s.mem.Delete(s.t.Context(), []bucket.Key{pointerKey})
			return s.get(listings)
		}},
		{"snapshot_lost", 503, func(s *site) answer {
			s.put(generationsKey+"00000000000000000007-A-B.6_claim", "{}")
			return first(s)
		}},
		{"snapshot_corrupt", 503, func(s *site) answer { s.put(string(pointerKey), "secret"); return first(s) }},
		{"snapshot_corrupt", 503, pointed("snapshot/1", `{"secret":1}`, get(listings))},
		{"snapshot_format", 503, pointed("snapshot/2", `{"secret":1}`, get(listings))},
		{"snapshot_format", 503, pointed("manifest/1", `{}`, first)},
		{"unsupported", 501, loading(cas.ErrUnsupported, get(listings))},
		{"store_denied", 503, loading(bucket.ErrDenied, get(listings))},
		{"store_denied", 503, loading(bucket.ErrDenied, first)},
		{"store_denied", 503, struck(fakes.Put, fakes.NotApplied(bucket.ErrDenied), first)},
		{"store_denied", 503, saving(bucket.ErrDenied, first)},
		{"store_unavailable", 503, loading(secret, get(listings))},
		{"store_unavailable", 503, struck(fakes.List, fakes.NotApplied(secret), get(listings))},
		{"store_unavailable", 503, struck(fakes.List, fakes.NotApplied(bucket.ErrNotExist), get(listings))},
		{"store_unavailable", 503, struck(fakes.List, fakes.NotApplied(secret), first)},
		{"throttled", 503, struck(fakes.Put, fakes.NotApplied(bucket.ErrThrottled), first)},
		{"upload_failed", 503, struck(fakes.Put, fakes.NotApplied(secret), first)},
		{"upload_failed", 503, saving(secret, first)},
		{"unknown", 503, func(s *site) answer {
			saves := 0
			s.docs.hooks(nil, func() error {
				if saves++; saves == 1 {
					return nil // the claim
				}
				s.docs.hooks(func() error { return bucket.ErrDenied }, nil, nil)
				return bucket.ErrUnknown
			}, nil)
			return first(s)
		}},
		{"unknown", 503, struck(fakes.Put, fakes.NotApplied(secret), put(""))},
		{"unknown", 503, struck(fakes.Put, fakes.AppliedThenLost(bucket.ErrUnknown), put(""))},
		{"unknown", 503, struck(fakes.Put, fakes.AppliedThenLost(secret), func(s *site) answer {
			return s.do("POST", item(s)+"/heartbeat", "")
		})},
		{"unknown", 503, struck(fakes.Put, fakes.AppliedThenLost(secret), func(s *site) answer {
			return s.do("DELETE", item(s), "")
		})},
	}
}

func TestProblems(t *testing.T) {
	tested := []string{
		"internal", "timeout", "rules", // below, in TestCase_C58_Bodies, and in TestRules_Unreadable
		"unauthenticated", "forbidden", "rate_limited", "issuer_unavailable", // in guard_test.go and signin_test.go
		"not_ready", "stopping", // in TestReadiness and TestReadiness_Draining
		"lease_held", "lease_lost", "lease_corrupt", // in TestPrune_Held and TestPrune_Problems
		"busy", // in TestEvents_Busy
	}
	for _, r := range refusals() {
		tested = append(tested, r.code)
		t.Run(r.code, func(t *testing.T) {
			var log lockedText
			s := newSite(t, logTo(&log))
			a := r.ask(s)
			a.problem(r.status, r.code)
			for _, inner := range []string{"secret", "blobindex", "bucket:", "itemid", "manifest:", "snapshot:", "cas:"} {
				if strings.Contains(a.body, inner) {
					t.Errorf("the text of an error got out: %s", a.body)
				}
			}
			retry := slices.Contains([]string{"store_unavailable", "throttled", "upload_failed"}, r.code)
			if got := a.header.Get("Retry-After"); (got != "") != retry && r.code != "unknown" {
				t.Errorf("Retry-After is %q", got)
			}
			if r.status >= 500 && !strings.Contains(log.String(), "request failed") && !strings.Contains(log.String(), "check failed") {
				t.Errorf("the error is not in the log: %s", log.String())
			}
		})
	}
	described := regexp.MustCompile(`(?s)Codes by status.*?content:`).FindString(string(api.Description))
	for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(described, -1) {
		if !slices.Contains(tested, m[1]) {
			t.Errorf("the code %s is described and not tested", m[1])
		}
	}
	for _, code := range tested {
		if !strings.Contains(described, "`"+code+"`") {
			t.Errorf("the code %s is not described", code)
		}
	}
}

// A write that may have been carried out is told as unknown, whatever else its error is.
func TestUnknownOutcomesComeFirst(t *testing.T) {
	for _, also := range []error{
		bucket.ErrNotExist, bucket.ErrDenied, bucket.ErrThrottled, bucket.ErrInvalidKey, blobindex.ErrFinished,
		context.DeadlineExceeded,
	} {
		for _, err := range []error{
			fmt.Errorf("syncing: %w: %w", bucket.ErrUnknown, also), fmt.Errorf("%w, then %w", also, bucket.ErrUnknown),
		} {
			s := newSite(t)
			s.faults.Plan(fakes.Fault{Op: fakes.Put, Every: true, Kind: fakes.AppliedThenLost(err)})
			item := ns + "/items/" + s.id("x")
			for i, a := range []answer{
				s.do("PUT", item, ""), s.do("POST", ns+"/items", `{"subkey":"x"}`), s.do("POST", item+"/heartbeat", ""),
				s.do("DELETE", item, ""),
			} {
				if again := a.header.Get("Retry-After") != ""; again != (i != 1) { // which would make another item
					t.Errorf("%v, %d: to be sent again: %t", err, i, again)
				}
				if p := a.problem(http.StatusServiceUnavailable, "unknown"); !strings.Contains(p.Detail, "did not say") {
					t.Errorf("%v: %q", err, p.Detail)
				}
			}
		}
	}
	s := newSite(t)
	s.faults.Plan(fakes.Fault{Op: fakes.Put, Every: true, Kind: fakes.AppliedThenLost(nil)})
	for _, key := range [][]string{nil, {"Idempotency-Key", "k"}} {
		p := s.do("POST", ns+"/items", `{"subkey":"x"}`, key...).problem(http.StatusServiceUnavailable, "unknown")
		if again := strings.Contains(p.Action, "may be repeated as it is"); again != (key != nil) {
			t.Errorf("with the key %q: %s", key, p.Action)
		}
	}
}

// A directory store answers so where a file or a link stands in a directory's place.
func TestBrokenDirectoriesAreNotTheIDsFault(t *testing.T) {
	s := newSite(t)
	s.faults.Plan(fakes.Fault{Op: fakes.Put, Every: true, Kind: fakes.NotApplied(
		fmt.Errorf("openat team: %w: %w", bucket.ErrInvalidKey, syscall.ENOTDIR))})
	item := ns + "/items/" + s.id("x")
	for _, a := range []answer{
		s.do("PUT", item, ""), s.do("POST", item+"/heartbeat", ""), s.do("DELETE", item, ""),
	} {
		p := a.problem(http.StatusBadRequest, "invalid_key")
		if !strings.Contains(p.Detail, "The store cannot hold") || !strings.Contains(p.Action, "look at the store") {
			t.Errorf("%+v", p)
		}
	}
}

func logTo(b *lockedText) func(*web.Options) {
	return func(o *web.Options) { o.Log = slog.New(slog.NewJSONHandler(b, nil)) }
}

func TestPanicIsAnAnswer(t *testing.T) {
	var log lockedText
	s := newSite(t, logTo(&log))
	s.faults.Plan(fakes.Fault{Op: fakes.List, Kind: fakes.Before("panic", func() { panic("secret") })})
	if a := s.get("/readyz"); strings.Contains(a.body, "secret") {
		t.Error(a.body)
	} else {
		a.problem(http.StatusInternalServerError, "internal")
	}
	if !strings.Contains(log.String(), "secret") || !strings.Contains(log.String(), "problem_test.go") {
		t.Errorf("the log does not say where: %s", log.String())
	}
	s.get("/healthz").want(http.StatusOK)
}

func TestRequestsHaveADeadline(t *testing.T) {
	s := newSite(t, func(o *web.Options) { o.Timeout = time.Millisecond })
	s.faults.Plan(fakes.Fault{Op: fakes.List, Kind: fakes.Hang()}, fakes.Fault{Op: fakes.Put, Every: true, Kind: fakes.Hang()})
	s.get(ns+"/cards").problem(http.StatusServiceUnavailable, "store_unavailable")
	item := ns + "/items/" + s.id("x")
	for _, a := range []answer{
		s.do("PUT", item, ""), s.do("POST", ns+"/items", `{"subkey":"x"}`), s.do("POST", item+"/heartbeat", ""),
		s.do("DELETE", item, ""),
	} {
		a.problem(http.StatusServiceUnavailable, "unknown")
	}
}

func TestLogHasRoutesOnly(t *testing.T) {
	var log lockedText
	s := newSite(t, logTo(&log))
	s.do("PUT", ns+"/items/"+s.id("hush"), "").want(http.StatusCreated)
	s.get(ns + "/cards?owner=hush").want(http.StatusOK)
	s.get(ns + "/cards?token=hush").want(http.StatusBadRequest)
	s.get("/hush").want(http.StatusNotFound)
	s.do("HUSH", "/", "").want(http.StatusMethodNotAllowed)
	if out := log.String(); strings.Contains(strings.ToLower(out), "hush") || strings.Contains(out, "token") {
		t.Errorf("the log repeats what was asked: %s", out)
	}
	for _, want := range []string{
		`"method":"PUT","route":"/v1/indexes/:index/:namespace/items/:id","status":201,"duration":0}`,
		`"route":"/v1/indexes/:index/:namespace/cards","status":400`, `"status":404`, `"method":"other"`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in %s", want, log.String())
		}
	}
}

func TestLateRegistrationsAreTold(t *testing.T) {
	s := newSite(t)
	late := decode[api.Registered](s.do("PUT", ns+"/items/x_1772366220", "").want(http.StatusCreated)) // 3 min behind
	if !late.BornLate {
		t.Error("not told")
	}
	p := s.do("PUT", ns+"/items/x_1772377200", "").problem(http.StatusUnprocessableEntity, "clock") // 3 h ahead
	if !strings.Contains(p.Detail, "3h0m0s ahead") || !strings.Contains(p.Detail, "nothing was written") {
		t.Error(p.Detail)
	}
	s = newSite(t)
	p = s.do("PUT", ns+"/items/x_1772355600", "").problem(http.StatusUnprocessableEntity, "clock") // 3 h behind
	if !strings.Contains(p.Detail, "3h0m0s behind") || !strings.Contains(p.Detail, "it was written") {
		t.Error(p.Detail)
	}
}

func TestStaleViewsAreAnswers(t *testing.T) {
	s := newSite(t)
	s.do("PUT", ns+"/items/"+s.id("x"), "").want(http.StatusCreated)
	good := decode[api.Cards](s.get(ns + "/cards").want(http.StatusOK))
	s.faults.Plan(fakes.Fault{Op: fakes.List, Every: true, Kind: fakes.NotApplied(errors.New("secret"))})
	s.clock.advance(time.Minute)
	a := s.get(ns + "/cards").want(http.StatusOK)
	got := decode[api.Cards](a)
	if got.Complete || got.StaleSince == nil || !got.StaleSince.Equal(start.Add(time.Minute)) || len(got.Cards) != 1 ||
		got.Counts != good.Counts || a.header.Get("Indexd-As-Of") != "2026-03-01T12:00:00Z" {
		t.Errorf("%+v, %v", got, a.header)
	}
	if strings.Contains(a.body, "secret") {
		t.Error(a.body)
	}
	// The last good listing answers whatever may be asked of it, and never as if it were one of now.
	for query, want := range map[string]int{"?limit=3": 1, "?limit=9": 1, "?subkey=x": 1, "?subkey=y": 0, "?owner=mara": 0} {
		got := decode[api.Cards](s.get(ns + "/cards" + query).want(http.StatusOK))
		if got.Complete || got.StaleSince == nil || len(got.Cards) != want {
			t.Errorf("%s: %+v", query, got)
		}
	}
	s.get(ns+"/items").problem(http.StatusServiceUnavailable, "store_unavailable")
	s.get(ns+"/recent").problem(http.StatusServiceUnavailable, "store_unavailable")
}

// TestMarkersHaveAShortDeadline: a store that hangs holds who registers, beats or finishes for 10 s, and who reads for longer.
func TestMarkersHaveAShortDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(start)) // synctest's
		faulty := fakes.NewFaulty(t, membucket.New(nil))
		h := indexOn(t, faulty, func(o *web.Options) { o.Now = time.Now })
		defer h.Close()
		faulty.Plan(fakes.Fault{Every: true, Kind: fakes.Hang()})
		item := fmt.Sprintf("%s/items/x_%d", ns, start.UnixMilli())
		for _, tc := range []struct {
			method, path, body string
			takes              time.Duration
		}{
			{"PUT", item, "", 10 * time.Second}, {"POST", ns + "/items", `{"subkey":"x"}`, 10 * time.Second},
			{"POST", item + "/heartbeat", "", 10 * time.Second}, {"DELETE", item, "", 10 * time.Second},
			{"GET", ns + "/items", "", live.DefaultListTimeout},
		} {
			r := localRequest(t, tc.method, tc.path)
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(tc.body)), int64(len(tc.body))
			r.Header.Set("Content-Type", "application/json")
			w, began := httptest.NewRecorder(), time.Now()
			h.ServeHTTP(w, r)
			if took := time.Since(began); w.Code != http.StatusServiceUnavailable || took != tc.takes {
				t.Errorf("%s %s: %d after %v: %s", tc.method, tc.path, w.Code, took, w.Body)
			}
		}
	})
}
