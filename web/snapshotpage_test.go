package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas/snapshot"
	"github.com/blobindex/indexd/fakes"
)

const listingPage = "/snapshots?namespace=team&name=models"

// TestSnapshotPage_Directories: each directory shows what is in it, once, and leads to those below and above.
func TestSnapshotPage_Directories(t *testing.T) {
	s := newSite(t)
	s.publish(row("a")+row("b.txt")+row("b/c/d")+row("b/c/e")+row("b/f")+row("c"), "If-None-Match", "*").want(http.StatusCreated)
	s.clock.advance(90 * time.Minute)
	s.count.Reset()
	s.docs.reset()
	a := s.get(listingPage).want(http.StatusOK)
	s.wantAll(fakes.Counts{Open: 2}, 2, 0)
	a.says("6 files", "generation 1, published by an operator 1 h ago", "a changed 1 d ago size 4 B", "b.txt changed", "b/ c changed",
		"As of", "digest of the listing")
	found := links(t, a.body)
	for _, path := range []string{
		listings, listings + "/rows", "/snapshots?name=models&namespace=team&path=b", "/snapshots?name=models&namespace=team",
	} {
		if !found[path] {
			t.Errorf("no link to %s in %v", path, found)
		}
	}
	for path := range found {
		if strings.HasPrefix(path, "/") {
			s.get(path).want(http.StatusOK)
		}
	}
	a = s.get(listingPage + "&path=b").want(http.StatusOK)
	a.says("models / b", "c/ f changed")
	a = s.get(listingPage + "&path=b/c").want(http.StatusOK)
	a.says("models / b / c", "d changed", "e changed")
	if found := links(t, a.body); !found["/snapshots?name=models&namespace=team&path=b"] ||
		!found[listings+"/rows?prefix=b%2Fc%2F"] {
		t.Errorf("%v", found)
	}
	s.get(listingPage + "&path=nowhere").want(http.StatusOK).says("no files in this directory")
	for _, wrong := range []string{"b/", "/b", "..", "b//c"} {
		s.get(listingPage + "&path=" + url.QueryEscape(wrong)).want(http.StatusBadRequest)
	}
}

// TestSnapshotPage_NothingToShow: an empty one, none, one that cannot be read, and no name given are told apart.
func TestSnapshotPage_NothingToShow(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{"/snapshots", "/snapshots?namespace=team", "/snapshots?name=models"} {
		s.get(path).want(http.StatusOK).says("Which snapshot?")
		s.wantAll(fakes.Counts{}, 0, 0)
	}
	a := s.get(listingPage)
	a.want(http.StatusNotFound).says("404 · not_found", "There is no such snapshot.")
	if !strings.Contains(a.body, "data-final") || strings.Contains(a.body, "No files") {
		t.Error(a.body)
	}
	s.get("/snapshots?namespace=team&name=-x").want(http.StatusBadRequest).says("400 · invalid_name")
	s.publish("\n", "If-None-Match", "*").want(http.StatusCreated)
	s.get(listingPage).want(http.StatusOK).says("No files", "a listing without files was published")
	s.docs.hooks(func() error { return bucket.ErrDenied }, nil, nil)
	s.get(listingPage).want(http.StatusServiceUnavailable).says("503 · store_denied", "Nothing here says that it is empty.")
}

// TestSnapshotPage_Long: a directory with more than the page shows, and large ones below it, which are skipped.
func TestSnapshotPage_Long(t *testing.T) {
	s := newSite(t)
	var all strings.Builder
	for i := range 25_000 {
		all.WriteString(row(fmt.Sprintf("deep/%05d", i)))
	}
	for i := range 600 {
		all.WriteString(row(fmt.Sprintf("f%03d", i)))
	}
	s.publish(all.String(), "If-None-Match", "*").want(http.StatusCreated)
	s.count.Reset()
	s.docs.reset()
	a := s.get(listingPage).want(http.StatusOK)
	s.wantAll(fakes.Counts{Open: 4}, 3, 0) // not of all that is in deep
	a.says("25600 files", "Only the first 500 are shown here.", "deep/ f000 changed", "f498 changed")
	if strings.Contains(a.body, "f499") || strings.Count(a.body, ">deep<") != 1 {
		t.Error("another number of entries")
	}
}

// TestCase_C52_SnapshotPage: whatever a file is called is shown as it is called.
func TestCase_C52_SnapshotPage(t *testing.T) {
	s := newSite(t)
	hostile := []string{
		`" onmouseover="alert(1)`, "'`${1}", "<img src=x onerror=alert(1)>", "]]>--><!--", "javascript:alert(1)", "{{.}}",
		"\u202egnp.exe",
	}
	var all strings.Builder
	for _, h := range hostile {
		all.WriteString(rowOf(t, snapshot.Row{Path: h + "/" + h}))
	}
	s.publish(all.String(), "If-None-Match", "*").want(http.StatusCreated)
	a := s.get(listingPage).want(http.StatusOK)
	said := checkMarkup(t, a.body)
	for _, h := range hostile {
		if strings.Count(said, h) < 1 {
			t.Errorf("the page does not say %q as it is: %s", h, said)
		}
		below := s.get(listingPage + "&path=" + url.QueryEscape(h)).want(http.StatusOK)
		if strings.Count(checkMarkup(t, below.body), h) < 2 {
			t.Errorf("the page of %q does not say it as it is", h)
		}
	}
	for path := range links(t, a.body) {
		if strings.HasPrefix(path, "/snapshots") {
			s.get(path).want(http.StatusOK)
		}
	}
}

// TestSnapshotPage_CanBeReadAloud: one of each landmark, and names for what is typed into.
func TestSnapshotPage_CanBeReadAloud(t *testing.T) {
	s := newSite(t)
	s.publish(twoRows, "If-None-Match", "*").want(http.StatusCreated)
	checkLandmarks(t, s, listingPage, listingPage+"&path=b", "/snapshots", "/snapshots?namespace=team&name=none")
}
