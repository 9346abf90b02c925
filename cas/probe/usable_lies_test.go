package probe_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/probe"
	"github.com/blobindex/indexd/fakes/gcsd"
	"github.com/blobindex/indexd/fakes/s3d"
)

// TestCase_C03_UsableNamesTheForm: a feature that wants to start is refused with the form that the store breaks, and with
// none that it honours.
func TestCase_C03_UsableNamesTheForm(t *testing.T) {
	forms := []probe.ID{probe.CreateOnly, probe.IfMatch, probe.IfMatchStale, probe.IfMatchAbsent, probe.RacingCreates}
	for name, x := range map[string]struct {
		s3    *s3d.Lies
		gcs   *gcsd.Lies
		named []probe.ID
		may   []probe.ID // follows from it, or by chance
	}{
		"s3 honest":                       {s3: &s3d.Lies{}},
		"s3 create-only ignored":          {s3: &s3d.Lies{CreateOnlyOverwrites: true}, named: []probe.ID{probe.CreateOnly}, may: forms[4:]},
		"s3 token on a missing key":       {s3: &s3d.Lies{IfMatchCreates: true}, named: []probe.ID{probe.IfMatchAbsent}},
		"s3 stale token, missing key too": {s3: &s3d.Lies{IgnoresIfMatch: true}, named: []probe.ID{probe.IfMatchStale, probe.IfMatchAbsent}},
		"s3 races lost":                   {s3: &s3d.Lies{RaceWindow: 50 * time.Millisecond}, named: []probe.ID{probe.RacingCreates}},
		"gcs honest":                      {gcs: &gcsd.Lies{}},
		"gcs conditions ignored": {gcs: &gcsd.Lies{WriteIgnoresConditions: true, NoPace: true},
			named: []probe.ID{probe.CreateOnly, probe.IfMatchStale, probe.IfMatchAbsent, probe.RacingCreates}},
		"gcs races lost": {gcs: &gcsd.Lies{RaceWindow: 50 * time.Millisecond, NoPace: true}, named: []probe.ID{probe.RacingCreates}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &clock{}
			var b driver
			if x.s3 != nil {
				b = openS3(t, "bucket", s3Options(startS3(t, s3d.Options{Secret: secret, Now: c.now, Lies: *x.s3}, nil).url, secret))
			} else {
				s := gcsd.New(&gcsd.Options{Now: c.now, Lies: *x.gcs})
				t.Cleanup(s.Close)
				b = openGCS(t, "bucket", s.URL())
			}
			v, err := probe.Usable(t.Context(), b, b, quick(c))
			if (len(x.named) > 0) != errors.Is(err, probe.ErrNotUsable) || v.Usable != (len(x.named) == 0) {
				t.Fatalf("Usable: %+v, %v", v, err)
			}
			for _, id := range forms {
				if err == nil {
					break
				}
				says, want := strings.Contains(err.Error(), string(id)+": "), slices.Contains(x.named, id)
				if says != want && !(says && slices.Contains(x.may, id)) {
					t.Errorf("%s is named: %t: %v", id, says, err)
				}
			}
		})
	}
}

// TestUsable_Busy: a store that is busy, or fails, when it is asked for what is absent says nothing about it, and is asked
// again; what it keeps failing at is not found out, and so no verdict for a day.
func TestUsable_Busy(t *testing.T) {
	for name, x := range map[string]struct {
		err   error
		times int
		want  error
	}{
		"busy once":   {bucket.ErrThrottled, 1, nil},
		"failing":     {errors.New("500"), 3, nil},
		"busy always": {bucket.ErrThrottled, 1 << 30, probe.ErrNotUsable},
		"down":        {errors.New("500"), 1 << 30, probe.ErrNotUsable},
	} {
		d := newDated()
		left := x.times
		d.onHead = func(key bucket.Key) error {
			if !about("absent/", key) || left == 0 {
				return nil
			}
			left--
			return x.err
		}
		v, err := d.usable(t)
		if !errors.Is(err, x.want) || errors.Is(err, cas.ErrUnsupported) || v.Usable != (x.want == nil) {
			t.Errorf("%s: %+v, %v, want %v", name, v, err, x.want)
		}
		if keys := keysOf(t, d); len(keys) > 0 != (x.want == nil) {
			t.Errorf("%s: it left %q", name, keys)
		}
	}
}
