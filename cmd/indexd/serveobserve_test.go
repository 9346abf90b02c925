package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/blobindex/indexd/web/api"
)

// launchLogged is launch, with a log that may be read while the program runs.
func launchLogged(t *testing.T, args ...string) (*program, *lockedBuffer) {
	t.Helper()
	p, log := &program{t: t, cmd: child(t, "indexd", args...)}, &lockedBuffer{}
	p.cmd.Stderr = log
	p.launch()
	return p, log
}

var metricsURL = regexp.MustCompile(`http://127\.0\.0\.1:\d+/metrics`)

// numbers are the samples of a scrape, by name and labels.
func numbers(t *testing.T, url string) map[string]float64 {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%d, %v", res.StatusCode, err)
	}
	all := map[string]float64{}
	for name, f := range families {
		for _, m := range f.GetMetric() {
			all[sample(name, m)] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

func sample(name string, m *dto.Metric) string {
	for _, l := range m.GetLabel() {
		name += " " + l.GetValue()
	}
	return name
}

// TestServe_Metrics: what a server has counted is what was asked of it, on its own listener and on the main one; and nothing that
// a client has chosen is in it.
func TestServe_Metrics(t *testing.T) {
	p, log := launchLogged(t, "serve", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--bucket", "./data",
		"--prune-every", "0")
	own := metricsURL.FindString(log.String())
	if own == "" {
		t.Fatalf("no address of metrics: %s", log)
	}
	before := numbers(t, own)
	// One that is foreign, one that is over, one that was registered late: as any client may put them.
	for _, key := range []string{"nothing", fmt.Sprintf("old_%d", time.Now().Add(-3*time.Hour).Unix()),
		fmt.Sprintf("late_%d", time.Now().Add(-10*time.Minute).Unix())} {
		dir := filepath.Join(p.cmd.Dir, "data", "_active_runs", "default")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, key), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		status, body := p.do(http.MethodPost, "/v1/indexes/running/default/items", fmt.Sprintf(`{"subkey":"hush%d"}`, i))
		if status != http.StatusCreated {
			t.Fatalf("%d: %s", status, body)
		}
	}
	var cards api.Cards
	p.get("/v1/indexes/running/default/cards", &cards)
	events := follow(t, p.url+"/v1/indexes/running/default/events")
	p.do(http.MethodGet, "/hush/hush", "")
	p.do(http.MethodPut, "/v1/indexes/hush/hush/items/hush", "")
	if status, body := p.do(http.MethodPost, "/v1/indexes/running/prune", ""); status != http.StatusOK {
		t.Fatalf("pruning: %d: %s", status, body)
	}
	const items = "POST /v1/indexes/:index/:namespace/items"
	for _, url := range []string{own, p.url + "/metrics"} {
		after := numbers(t, url)
		for name, want := range map[string]float64{
			"indexd_http_requests_total 2xx " + items: 5, "indexd_http_request_duration_seconds " + items: 5,
			"indexd_http_requests_total 4xx GET -": 1,
			"indexd_passes_total running done":     1, "indexd_lease_outcomes_total acquired": 1,
			"indexd_http_requests_total 4xx PUT /v1/indexes/:index/:namespace/items/:id": 1,
		} {
			if got := after[name] - before[name]; got != want {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
		}
		// Beside the five, whether conditions are kept may still be tried.
		if got := after["indexd_store_requests_total put ok"] - before["indexd_store_requests_total put ok"]; got < 5 {
			t.Errorf("%v PUTs for five items", got)
		}
		// A listing may come between the two looks.
		eventually(t, "metrics that agree with JSON at "+url, func() bool {
			p.get("/v1/indexes/running/default/cards", &cards)
			after = numbers(t, url)
			const view = " running default"
			for name, want := range map[string]int{
				"indexd_view_live_items": cards.Counts.Live, "indexd_view_cards": cards.Counts.Shown,
				"indexd_view_foreign_keys": cards.Counts.Foreign, "indexd_view_stale_items": cards.Counts.Stale,
				"indexd_view_born_late_items": cards.Counts.BornLate, "indexd_view_incomplete": 0, "indexd_view_streams": 1,
			} {
				if got, ok := after[name+view]; !ok || got != float64(want) {
					return false
				}
			}
			return cards.Counts.Live == 6 && cards.Counts.Foreign == 1 && cards.Counts.BornLate == 1
		})
		if after["indexd_sse_clients"] != 1 || after["indexd_views_open"] != 1 || after["indexd_view_listings_total ok"] == 0 {
			t.Errorf("at %s: %v streams on %v views, %v listings", url, after["indexd_sse_clients"], after["indexd_views_open"],
				after["indexd_view_listings_total ok"])
		}
		if after["indexd_pass_last_success_timestamp_seconds running"] == 0 || after["process_open_fds"] == 0 || after["go_goroutines"] == 0 {
			t.Errorf("no pass, process or goroutines at %s", url)
		}
		for name := range after {
			if strings.Contains(name, "hush") {
				t.Errorf("a client chose %s", name)
			}
		}
	}
	if _, status := p.stop(syscall.SIGTERM); status != exitDone {
		t.Errorf("status %d: %s", status, log)
	}
	<-events.done
}

// TestServe_Drains: while somebody watches /readyz, a server that is told to stop goes on serving and says that it is stopping.
func TestServe_Drains(t *testing.T) {
	p, log := launchLogged(t, "serve", "--listen", "127.0.0.1:0", "--bucket", "mem://", "--log-format", "json", "--log-level", "debug")
	if status, body := p.do(http.MethodGet, "/readyz", ""); status != http.StatusOK {
		t.Fatalf("%d: %s", status, body)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "that it is stopping", func() bool {
		status, body := p.do(http.MethodGet, "/readyz", "")
		return status == http.StatusServiceUnavailable && strings.Contains(body, `"stopping"`)
	})
	if status, body := p.do(http.MethodPost, "/v1/indexes/running/default/items", `{"subkey":"late"}`); status != http.StatusCreated {
		t.Errorf("registering meanwhile: %d: %s", status, body)
	}
	if _, status := p.wait(); status != exitDone {
		t.Errorf("status %d: %s", status, log)
	}
	for line := range strings.Lines(log.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil || fields["msg"] == nil {
			t.Errorf("%v: %s", err, line)
		}
	}
}

// TestServe_SecondSignal: who does not want to wait for what is under way tells so by another signal.
func TestServe_SecondSignal(t *testing.T) {
	p, log := launchLogged(t, "serve", "--listen", "127.0.0.1:0", "--bucket", "mem://", "--log-level", "error")
	p.do(http.MethodGet, "/readyz", "") // so that it waits
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "that it is stopping", func() bool {
		status, _ := p.do(http.MethodGet, "/readyz", "")
		return status == http.StatusServiceUnavailable
	})
	if _, status := p.stop(syscall.SIGTERM); status != -1 {
		t.Errorf("status %d, want the end by the signal: %s", status, log)
	}
}
