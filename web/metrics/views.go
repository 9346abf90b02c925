package metrics

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/blobindex/indexd/blobindex/live"
)

// A View is what a shared view shows at the moment: of one snapshot, at one instant, the same that the API answers.
type View struct {
	live.Stats
	Cards int // that it shows where nobody says how many
}

// MaxViews is how many views have series of their own: the first by name. The others are counted.
const MaxViews = 500

// A viewCollector asks for the views when it is scraped: a view that is closed leaves no series behind.
type viewCollector struct{ views func() []View }

var viewLabels = []string{"index", "namespace"}

func viewDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, viewLabels, nil)
}

var (
	viewAge        = viewDesc("indexd_view_listing_age_seconds", "Time since the last complete listing of a namespace that is watched.")
	viewIncomplete = viewDesc("indexd_view_incomplete", "1 while listings of the namespace fail, and the last good view is shown if there is one, else 0.")
	viewCards      = viewDesc("indexd_view_cards", "Cards that the view shows where nobody says how many: the live items, as far as there is room.")
	viewLive       = viewDesc("indexd_view_live_items", "Live items that nothing supersedes.")
	viewStale      = viewDesc("indexd_view_stale_items", "Items past their TTL whose keys are still there.")
	viewForeign    = viewDesc("indexd_view_foreign_keys", "Keys that are no item's.")
	viewBornLate   = viewDesc("indexd_view_born_late_items", "Live items that were stored long after the time in their id.")
	viewStreams    = viewDesc("indexd_view_streams", "Streams that are open on the view.")

	viewsOpen    = prometheus.NewDesc("indexd_views_open", "Shared views that are open, also those beyond the series.", nil, nil)
	streamsOpen  = prometheus.NewDesc("indexd_sse_clients", "Streams of events that are open.", nil, nil)
	viewMeasures = []*prometheus.Desc{
		viewAge, viewIncomplete, viewCards, viewLive, viewStale, viewForeign, viewBornLate, viewStreams, viewsOpen, streamsOpen,
	}
)

func (c viewCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range viewMeasures {
		descs <- d
	}
}

func (c viewCollector) Collect(into chan<- prometheus.Metric) {
	views := slices.Clone(c.views())
	slices.SortFunc(views, func(a, b View) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Namespace, b.Namespace))
	})
	streams := 0
	for _, v := range views {
		streams += v.Streams
	}
	into <- prometheus.MustNewConstMetric(viewsOpen, prometheus.GaugeValue, float64(len(views)))
	into <- prometheus.MustNewConstMetric(streamsOpen, prometheus.GaugeValue, float64(streams))
	for _, v := range views[:min(len(views), MaxViews)] {
		tell := func(d *prometheus.Desc, value float64) {
			into <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, v.Index, v.Namespace)
		}
		incomplete := 0.0
		if v.AsOf.IsZero() || !v.StaleSince.IsZero() {
			incomplete = 1
		}
		tell(viewIncomplete, incomplete)
		tell(viewStreams, float64(v.Streams))
		if v.AsOf.IsZero() {
			continue // it has shown nothing yet, which is not that nothing is there
		}
		tell(viewAge, v.Age.Seconds())
		tell(viewCards, float64(v.Cards))
		tell(viewLive, float64(v.Counts.Live))
		tell(viewStale, float64(v.Counts.Stale))
		tell(viewForeign, float64(v.Counts.Foreign))
		tell(viewBornLate, float64(v.Counts.BornLate))
	}
}
