package main

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/cas/probe"
	"github.com/blobindex/indexd/fakes/gcsd"
	"github.com/blobindex/indexd/fakes/s3d"
	"github.com/blobindex/indexd/web"
)

// TestDoctor runs the command on sound stores and on ones that lie.
func TestDoctor(t *testing.T) {
	gcs := gcsd.New(&gcsd.Options{Lies: gcsd.Lies{NoPace: true}})
	t.Cleanup(gcs.Close)
	s3 := s3d.New(t, &s3d.Options{Secret: "the-secret"})
	lying := s3d.New(t, &s3d.Options{Lies: s3d.Lies{CreateOnlyOverwrites: true}})
	unlisted := s3d.New(t, &s3d.Options{Lies: s3d.Lies{NoTruncated: true}})
	endpoint := func(s string) string { return "?endpoint=" + url.QueryEscape(s) }
	runScripts(t, testscript.Params{Dir: "testdata/doctor"},
		"S3=s3://bucket/some/path"+endpoint(s3.URL), "ENDPOINT="+s3.URL, "NO_ENDPOINT=s3://bucket/some/path",
		"LYING=s3://bucket"+endpoint(lying.URL), "UNLISTED=s3://bucket"+endpoint(unlisted.URL),
		"ABSENT=s3://absent"+endpoint(s3.URL), "GS=gs://bucket"+endpoint(gcs.URL()),
		"AWS_ACCESS_KEY_ID=AK", "AWS_SECRET_ACCESS_KEY=the-secret", "AWS_EC2_METADATA_DISABLED=true",
		"AWS_CONFIG_FILE=/none", "AWS_SHARED_CREDENTIALS_FILE=/none")
	for _, key := range s3.Keys("bucket") {
		if key != "some/path/"+string(probe.VerdictKey) {
			t.Errorf("the doctor left %q", key)
		}
	}
}

// TestDoctor_Sites: which ways to the bucket are used.
func TestDoctor_Sites(t *testing.T) {
	for _, x := range []struct {
		address   string
		endpoints []string
		want      []string
	}{
		{"s3://b/p", nil, []string{"s3://b/p"}},
		{"s3://b/p?region=x", []string{"http://h:1"}, []string{"s3://b/p?endpoint=http%3A%2F%2Fh%3A1&region=x"}},
		{"s3://b?endpoint=http://h:0", []string{"http://h:1", "http://h:2"},
			[]string{"s3://b?endpoint=http://h:0", "s3://b?endpoint=http%3A%2F%2Fh%3A1", "s3://b?endpoint=http%3A%2F%2Fh%3A2"}},
		{"gs://b", []string{"http://h:1"}, []string{"gs://b?endpoint=http%3A%2F%2Fh%3A1"}},
	} {
		got, err := sitesOf(x.address, strings.SplitN(x.address, ":", 2)[0], x.endpoints)
		if err != nil || !slices.Equal(got, x.want) {
			t.Errorf("%s, %q: %q, %v, want %q", x.address, x.endpoints, got, err, x.want)
		}
	}
	for _, bad := range []string{"", "h:1", "ftp://h", "http://u:p@h"} {
		if got, err := sitesOf("s3://b", "s3", []string{bad}); exitStatus(err) != exitUsage {
			t.Errorf("the endpoint %q: %q, %v", bad, got, err)
		}
	}
	if got, err := sitesOf("/dir", "file", []string{"http://h"}); exitStatus(err) != exitUsage {
		t.Errorf("an endpoint of a directory: %q, %v", got, err)
	}
	if got, err := sitesOf("/dir", "file", nil); err != nil || len(got) != 2 {
		t.Errorf("a directory: %q, %v", got, err)
	}
}

// TestDoctor_Cost: the figures of one dashboard (DESIGN §13): about $6.5 a month per page, and $4 for eight cards.
func TestDoctor_Cost(t *testing.T) {
	cloud := web.Prices{ListPer1000: 0.005, GetPer1000: 0.0004}
	for _, x := range []struct {
		keys map[string]int
		p    web.Prices
		want costJSON
	}{
		{nil, cloud, costJSON{Lists: 43_200, USD: 0.216}},
		{map[string]int{"a": 3, "b": 1000, "c": 1000}, cloud,
			costJSON{Namespace: "b", Keys: 1000, Lists: 43_200, Gets: 345_600, USD: 0.35424}},
		{map[string]int{"a": 1001}, cloud, costJSON{Namespace: "a", Keys: 1001, Lists: 86_400, Gets: 345_600, USD: 0.57024}},
		{map[string]int{"a": 3}, web.Prices{}, costJSON{Namespace: "a", Keys: 3, Lists: 43_200, Gets: 129_600}},
	} {
		got := costOf("", x.keys, x.p)
		if d := got.USD - x.want.USD; d > 1e-9 || d < -1e-9 {
			t.Errorf("%v: $%v, want $%v", x.keys, got.USD, x.want.USD)
		}
		if got.USD = x.want.USD; got != x.want {
			t.Errorf("%v: %+v, want %+v", x.keys, got, x.want)
		}
	}
	if blobindex.DefaultCards != 8 {
		t.Errorf("%d cards", blobindex.DefaultCards)
	}
}

// TestDoctor_Text: what a person is told of each kind of finding.
func TestDoctor_Text(t *testing.T) {
	d := doctorJSON{Report: &probe.Report{Complete: true, Disabled: []probe.Feature{probe.Markers, probe.Pruning, probe.CAS},
		Left: []string{"_indexd/probe/x"}, Findings: []probe.Finding{
			{ID: "a", Question: "A?", Verdict: probe.Yes, Seen: "seen-a"},
			{ID: "b", Question: "B?", Verdict: probe.No, Seen: "seen-b\x1b[31m", Disables: []probe.Feature{probe.CAS}, Mend: "one\ntwo"},
			{ID: "c", Question: "C?", Verdict: probe.No, Seen: "seen-c", Mend: "leave it"},
			{ID: "d", Question: "D?", Verdict: probe.Unsure, Seen: "seen-d"},
			{ID: "e", Question: "E?", Verdict: probe.Yes, Seen: "seen-e", Remark: "remarked"},
		}},
		Foreign: []foreignJSON{{Index: "running", Count: 30, Keys: nil}}}
	text := d.text()
	for _, want := range []string{"✓  a  A?\n", "✗  b  B?\n", "?  d  D?\n", "✗ b: seen-b\uFFFD[31m\n", "disables: documents on conditional writes",
		"mend: one\n        two\n", "disables: nothing that indexd relies on", "? d: seen-d", "remark: remarked",
		"2 yes, 2 no, 1 not to be found out", "not to be used here: markers, pruning and documents on conditional writes",
		"could not be deleted again: _indexd/probe/x", "30 foreign keys"} {
		if !strings.Contains(text, want) {
			t.Errorf("it says nothing of %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "seen-a") {
		t.Errorf("a plain yes has details:\n%s", text)
	}
}

// TestDoctor_JSON: the answer is the report, and what is in the indexes beside it.
func TestDoctor_JSON(t *testing.T) {
	d := doctorJSON{Bucket: "b", Report: &probe.Report{Format: probe.ReportFormat, Sites: []string{}, Disabled: []probe.Feature{},
		Findings: []probe.Finding{}, Left: []string{}}, Foreign: []foreignJSON{}, Costs: []costJSON{}}
	text, err := json.Marshal(d)
	want := `{"bucket":"b","format":"indexd-doctor/1","sites":[],"began":"0001-01-01T00:00:00Z","seconds":0,"complete":false,` +
		`"disabled":[],"findings":[],"left":[],"foreign":[],"costs":[]}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
}
