package web_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/prune"
	"github.com/blobindex/indexd/web"
	"github.com/blobindex/indexd/web/api"
)

// sharing serves the default index by rules that are saved in the site's store.
func (s *site) sharing(opt *web.Options) {
	s.t.Helper()
	x, err := blobindex.New(s.mem, blobindex.Config{}, &blobindex.Options{
		Now: s.clock.now, Shared: &blobindex.Sharing{Store: s.mem},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	h, err := web.New([]*blobindex.Index{x}, always, opt)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(h.Close)
	s.serve(h)
}

// TestRules_Unreadable: damaged rules are a problem of their own, which does not pass by itself; registering works.
func TestRules_Unreadable(t *testing.T) {
	s := newSite(t)
	s.mem.Put(t.Context(), "_indexd/index/_active_runs", strings.NewReader("secret"))
	var log lockedText
	s.sharing(&web.Options{Now: s.clock.now, Log: slog.New(slog.NewTextHandler(&log, nil))})
	for _, path := range []string{"/cards", "/items", "/recent", "/items/x_1772366400/explain"} {
		a := s.get(ns + path)
		a.problem(http.StatusServiceUnavailable, "rules")
		if a.header.Get("Retry-After") != "" || strings.Contains(a.body, "secret") || strings.Contains(a.body, "_indexd") {
			t.Errorf("%s: %v %s", path, a.header, a.body)
		}
	}
	if page := s.get("/"); page.status != http.StatusServiceUnavailable || strings.Contains(page.body, "Nothing running") {
		t.Errorf("the page: %d %s", page.status, page.body)
	}
	if !strings.Contains(log.String(), "_indexd/index/_active_runs") {
		t.Errorf("the log names no object: %s", &log)
	}
	s.do("PUT", ns+"/items/x_1772366400", "").want(http.StatusCreated)
}

// TestRules_Saved: what the server tells of its indexes, of their items and of single ids is by the saved rules.
func TestRules_Saved(t *testing.T) {
	s := newSite(t)
	saved := prune.Rules{Grammar: itemid.ULID, TTL: time.Hour}
	writer, err := blobindex.New(s.mem, blobindex.Config{Rules: saved}, &blobindex.Options{
		Now: s.clock.now, Shared: &blobindex.Sharing{Store: s.mem, Save: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writer.ReadRules(t.Context()); err != nil {
		t.Fatal(err)
	}
	id, err := writer.Mint("")
	if err != nil {
		t.Fatal(err)
	}
	team, err := writer.Namespace("team")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := team.Register(t.Context(), id, nil); err != nil {
		t.Fatal(err)
	}
	s.sharing(&web.Options{Now: s.clock.now})
	path := "/v1/indexes/running/team"
	explained := s.get(path + "/items/" + id.String() + "/explain").want(http.StatusOK)
	if e := decode[api.Explanation](explained); !e.Shown {
		t.Errorf("%+v", e)
	}
	if cost := explained.header.Get("Indexd-Cost"); !strings.HasPrefix(cost, "list=1, get=0") {
		t.Errorf("the rules were read for the id before: %s", cost)
	}
	if items := decode[api.Items](s.get(path + "/items").want(http.StatusOK)); len(items.Items) != 1 {
		t.Errorf("%+v", items)
	}
	x := decode[api.Indexes](s.get("/v1/indexes").want(http.StatusOK)).Indexes[0]
	if x.Grammar != "ulid" || x.TtlSeconds != 3600 {
		t.Errorf("%+v", x)
	}
	s.do("POST", path+"/items/"+id.String()+"/heartbeat", "").want(http.StatusNoContent)
}
