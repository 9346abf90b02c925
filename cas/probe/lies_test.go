package probe_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/blobindex/indexd/cas/probe"
	"github.com/blobindex/indexd/fakes/gcsd"
	"github.com/blobindex/indexd/fakes/s3d"
)

// told is what the probe says of one lie: what must be no, what may be (races by chance, and what rests on the same), and
// what cannot be tried any more. All else must be as it is of an honest server.
type told struct {
	no, may, unsure []probe.ID
	disables        []probe.Feature
	why             string // there is no finding: who copes with it
}

var (
	everyList = []probe.ID{probe.ListPrefix, probe.ByteOrder, probe.StartAfter, probe.PageCap, probe.URLEncoding}
	noList    = told{
		no: []probe.ID{probe.ListAfterWrite}, disables: []probe.Feature{probe.Markers, probe.Pruning},
		unsure: slices.Concat(everyList, []probe.ID{probe.PermissionReader, probe.PermissionProducer, probe.PermissionJanitor,
			probe.Date, probe.Clock, probe.StoreTime, probe.LastModified, probe.IDKeys, probe.ControlKeys, probe.PathAliases}),
	}
	circle = told{
		no: []probe.ID{probe.ListAfterWrite}, unsure: everyList, disables: []probe.Feature{probe.Markers, probe.Pruning},
	}
	onVersions = []probe.ID{probe.VersionKind, probe.CreateOnly, probe.CreateAfter, probe.CreateOverMarker, probe.IfMatchQuoted,
		probe.IfMatchUnquoted, probe.IfMatch, probe.IfMatchStale, probe.IfMatchAbsent, probe.Impossible, probe.RacingCreates,
		probe.RacingIncrements, probe.ContendedLatency, probe.TornReads, probe.AbsentReads, probe.OvertakenUpload,
		probe.ReadCondition, probe.MetadataCondition, probe.DeleteCondition, probe.BatchDeleteCondition}
	noVersions = told{no: []probe.ID{probe.Versions}, unsure: onVersions, disables: []probe.Feature{probe.CAS}}
	racing     = told{no: []probe.ID{probe.RacingCreates}, may: []probe.ID{probe.RacingIncrements, probe.OvertakenUpload},
		disables: []probe.Feature{probe.CAS}}
	overwrites = told{no: []probe.ID{probe.CreateOnly, probe.RacingCreates, probe.OvertakenUpload}, disables: []probe.Feature{probe.CAS}}
	onPut      = []probe.ID{probe.PermissionProducer, probe.PermissionJanitor, probe.EmptyPut, probe.ReadAfterWrite, probe.Date,
		probe.Clock, probe.StoreTime, probe.LastModified, probe.ListAfterWrite, probe.ListPrefix, probe.ByteOrder, probe.StartAfter,
		probe.PageCap, probe.URLEncoding, probe.IDKeys, probe.ControlKeys, probe.PathAliases, probe.Delete, probe.BatchDelete}
)

// only is one finding that disables nothing.
func only(ids ...probe.ID) told { return told{no: ids} }

// casIs is one finding that disables documents, with what may follow by chance.
func casIs(id probe.ID, may ...probe.ID) told {
	return told{no: []probe.ID{id}, may: may, disables: []probe.Feature{probe.CAS}}
}

func copes(why string) told { return told{why: why} }

// An s3Case is one lie, with the lies and options without which it does not show.
type s3Case struct {
	told
	set       func(*s3d.Lies)
	versioned bool
	objects   int
}

// s3Cases has each switch of s3d.Lies.
var s3Cases = map[string]s3Case{
	"IgnoresEncodingType": {told: only(probe.URLEncoding, probe.ControlKeys)},
	"EncodesSilently": {told: told{no: []probe.ID{probe.URLEncoding, probe.IDKeys, probe.ControlKeys},
		disables: []probe.Feature{probe.Markers, probe.Pruning}}},
	"EncodesSpaceAs20":  {told: copes("s3bucket reads both")},
	"Unsorted":          {told: only(probe.ByteOrder, probe.StartAfter)},
	"PageSize":          {told: only(probe.PageCap), set: func(l *s3d.Lies) { l.PageSize = 3 }},
	"NoPageCap":         {told: only(probe.PageCap), objects: 1002},
	"LargePagesFail":    {told: only(probe.PageCap)},
	"TruncatedNoToken":  {told: noList},
	"RepeatsToken":      {told: circle},
	"EmptyPages":        {told: noList},
	"NoTruncated":       {told: noList},
	"EmptyList":         {told: noList},
	"IgnoresStartAfter": {told: only(probe.StartAfter)},
	"RefusesStartAfter": {told: only(probe.StartAfter)},
	"IgnoresPrefix": {told: told{no: []probe.ID{probe.ListPrefix, probe.ListAfterWrite},
		disables: []probe.Feature{probe.Markers, probe.Pruning},
		unsure: []probe.ID{probe.Date, probe.Clock, probe.StoreTime, probe.LastModified, probe.IDKeys, probe.ControlKeys,
			probe.PathAliases}}},
	"NoLastModified": {told: told{no: []probe.ID{probe.StoreTime}, unsure: []probe.ID{probe.LastModified},
		disables: []probe.Feature{probe.Pruning}}},

	"NoBatchDelete":        {told: told{no: []probe.ID{probe.BatchDelete}, may: []probe.ID{probe.BatchDeleteCondition}}},
	"BatchWantsMD5":        {told: copes("s3bucket sends Content-MD5 then")},
	"BatchForgets":         {told: told{no: []probe.ID{probe.BatchDelete}, unsure: []probe.ID{probe.BatchDeleteCondition}, disables: []probe.Feature{probe.Pruning}}},
	"BatchIgnoresETag":     {told: only(probe.BatchDeleteCondition)},
	"DeleteIgnoresIfMatch": {told: only(probe.DeleteCondition)},

	"RefusesChecksums": {told: copes("s3bucket sends none to a custom endpoint")},
	"StoresFraming":    {told: copes("s3bucket frames nothing")},
	"NoDate": {told: told{no: []probe.ID{probe.Date}, unsure: []probe.ID{probe.Clock, probe.LastModified},
		disables: []probe.Feature{probe.Pruning}}},
	"NoETag":    {told: noVersions},
	"WeakETags": {told: noVersions},

	"IgnoresIfMatch": {told: told{no: []probe.ID{probe.IfMatchStale, probe.IfMatchAbsent, probe.Impossible, probe.OvertakenUpload},
		may: []probe.ID{probe.RacingIncrements}, disables: []probe.Feature{probe.CAS}}},
	"IfMatchCreates":        {told: casIs(probe.IfMatchAbsent)},
	"IfMatchAbsent412":      {told: copes("both answers are right")},
	"QuotedIfMatchFails":    {told: only(probe.IfMatchQuoted)},
	"CreateOnlyOverwrites":  {told: overwrites},
	"VersionedOverwrites":   {told: overwrites, versioned: true},
	"MarkerBlocksCreate":    {told: only(probe.CreateOverMarker), versioned: true},
	"Demands412":            {told: told{no: []probe.ID{probe.Put}, unsure: onPut, disables: []probe.Feature{probe.Markers}}},
	"IgnoresReadConditions": {told: only(probe.ReadCondition)},
	"ConflictEvery":         {told: copes("an honest AWS may, too"), set: func(l *s3d.Lies) { l.ConflictEvery = 7 }},
	"ContentionFails": {told: copes("outcomes are unknown then, and settled by reading"),
		set: func(l *s3d.Lies) { l.ContentionFails, l.RaceWindow = true, 5*time.Millisecond }},
	"RaceWindow": {told: racing, set: func(l *s3d.Lies) { l.RaceWindow = 50 * time.Millisecond }},

	"OldBodyNewETag":       {told: casIs(probe.TornReads, probe.RacingIncrements)},
	"CutAfterOverwrite":    {told: copes("s3bucket reads again")},
	"AbsentAfterOverwrite": {told: casIs(probe.AbsentReads, probe.RacingIncrements)},
	"CachesReads":          {told: only(probe.ReadAfterWrite)},

	"ManglesControl": {told: told{no: []probe.ID{probe.ControlKeys, probe.URLEncoding}},
		set: func(l *s3d.Lies) { l.ManglesControl, l.IgnoresEncodingType = true, true }},
	"CleansPaths":     {told: only(probe.PathAliases)},
	"RefusesOddPaths": {told: copes("what is refused does no harm")},
	"Pace":            {told: told{unsure: []probe.ID{probe.ContendedLatency}}, set: func(l *s3d.Lies) { l.Pace = time.Second }},
	"PaceIs429": {told: told{unsure: []probe.ID{probe.ContendedLatency}},
		set: func(l *s3d.Lies) { l.Pace, l.PaceIs429 = time.Second, true }},
}

// TestCase_C03_S3: each lie of S3 is found out by its own finding, and nothing else changes.
func TestCase_C03_S3(t *testing.T) {
	eachSwitch(t, reflect.TypeFor[s3d.Lies](), s3Cases)
	honest := map[bool]map[probe.ID]probe.Answer{}
	for _, versioned := range []bool{false, true} {
		c := &clock{}
		r := probeS3(t, startS3(t, s3d.Options{Secret: secret, Now: c.now, Versioned: versioned}, nil), c, 20)
		honest[versioned] = verdicts(r)
		want := map[probe.ID]probe.Answer{}
		if versioned {
			want = map[probe.ID]probe.Answer{probe.Versioning: probe.No, probe.CreateAfter: probe.Unsure}
		}
		allYes(t, r, want)
	}
	for name, x := range s3Cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, lies := &clock{}, s3d.Lies{}
			if x.set != nil {
				x.set(&lies)
			} else {
				reflect.ValueOf(&lies).Elem().FieldByName(name).SetBool(true)
			}
			s := startS3(t, s3d.Options{Secret: secret, Now: c.now, Versioned: x.versioned, Lies: lies}, nil)
			r := probeS3(t, s, c, max(x.objects, 20))
			compare(t, r, honest[x.versioned], x.told)
			if left := s.Keys("bucket"); len(left) > 1 || len(left) == 1 && left[0] != string(probe.VerdictKey) {
				t.Errorf("it left %q", left)
			}
		})
	}
}

// A gcsCase is one lie of gcsd.
type gcsCase struct {
	told
	set     func(*gcsd.Lies)
	objects int
	leaves  bool // the server refuses to delete what it has stored
}

// gcsCases has each switch of gcsd.Lies.
var gcsCases = map[string]gcsCase{
	"DeleteIgnoresConditions": {told: only(probe.DeleteCondition)},
	"WriteIgnoresConditions": {told: told{no: []probe.ID{probe.CreateOnly, probe.IfMatchStale, probe.IfMatchAbsent, probe.Impossible,
		probe.RacingCreates, probe.OvertakenUpload, probe.MetadataCondition}, may: []probe.ID{probe.RacingIncrements, probe.ContendedLatency},
		disables: []probe.Feature{probe.CAS}}, set: func(l *gcsd.Lies) { l.WriteIgnoresConditions, l.NoPace = true, true }},
	"ReadIgnoresConditions": {told: only(probe.ReadCondition)},
	"IgnoresMetageneration": {told: only(probe.MetadataCondition)},
	"NoPace":                {told: told{may: []probe.ID{probe.ContendedLatency}, why: "no harm"}},
	"ConflictEvery":         {told: copes("nothing was done, and it is sent again"), set: func(l *gcsd.Lies) { l.ConflictEvery = 7 }},
	"RaceWindow": {told: told{no: []probe.ID{probe.RacingCreates}, may: []probe.ID{probe.RacingIncrements, probe.ContendedLatency,
		probe.OvertakenUpload}, disables: []probe.Feature{probe.CAS}},
		set: func(l *gcsd.Lies) { l.RaceWindow, l.NoPace = 50*time.Millisecond, true }},
	"ContentionFails": {told: told{may: []probe.ID{probe.ContendedLatency}, why: "outcomes are unknown then, and settled by reading"},
		set: func(l *gcsd.Lies) { l.ContentionFails, l.RaceWindow, l.NoPace = true, 5*time.Millisecond, true }},
	"OldBodyNewGeneration": {told: casIs(probe.TornReads, probe.RacingIncrements)},
	"CachesReads":          {told: copes("gcsbucket stores no-store")},

	"IgnoresOffsets": {told: only(probe.StartAfter)},
	"IgnoresPrefix":  {told: only(probe.ListPrefix)},
	"Unsorted":       {told: only(probe.ByteOrder)},
	"NoPageCap":      {told: only(probe.PageCap), objects: 1002},
	"IgnoresMax":     {told: only(probe.PageCap)},
	"PageCap":        {told: only(probe.PageCap), set: func(l *gcsd.Lies) { l.PageCap = 3 }},
	"EmptyPages":     {told: copes("the service may, too")},
	"RepeatToken":    {told: circle},
	"LostToken":      {told: told{no: []probe.ID{probe.ListAfterWrite}, disables: []probe.Feature{probe.Markers, probe.Pruning}}},
	"NullForDeleted": {told: told{no: []probe.ID{probe.ListAfterWrite}, disables: []probe.Feature{probe.Markers, probe.Pruning},
		unsure: []probe.ID{probe.Date, probe.Clock, probe.StoreTime, probe.LastModified, probe.IDKeys, probe.ControlKeys,
			probe.PathAliases}}},
	"RedirectsPaths": {told: only(probe.PathAliases), leaves: true},
	"GoesByBoundary": {told: copes("gcsbucket breaks its bodies off without a boundary")},

	"AbsentIsDenied": {told: told{no: []probe.ID{probe.AbsentObject}, disables: []probe.Feature{probe.CAS},
		unsure: []probe.ID{probe.CreateAfter, probe.IfMatchAbsent, probe.PathAliases, probe.Delete}}},
	"AutoCreateBucket": {told: only(probe.AbsentBucket)},
	"BareErrors":       {told: copes("the status says enough")},

	"NoUpdated": {told: told{no: []probe.ID{probe.StoreTime}, unsure: []probe.ID{probe.LastModified},
		disables: []probe.Feature{probe.Pruning}}},
	"NoDate":       {told: told{no: []probe.ID{probe.Date}, unsure: []probe.ID{probe.LastModified}}},
	"NoChecksum":   {told: copes("gcsbucket checks what it is told")},
	"NoGeneration": {told: noVersions},
	"BadChecksum": {told: told{no: []probe.ID{probe.Put}, disables: []probe.Feature{probe.Markers},
		unsure: slices.Concat(onPut, onVersions, []probe.ID{probe.Versions})}},
	"ClockAhead": {told: only(probe.Clock), set: func(l *gcsd.Lies) { l.ClockAhead = 90 * time.Second }},
}

// TestCase_C03_GCS: each lie of Cloud Storage is found out by its own finding, and nothing else changes.
func TestCase_C03_GCS(t *testing.T) {
	eachSwitch(t, reflect.TypeFor[gcsd.Lies](), gcsCases)
	r, _ := probeGCS(t, gcsd.Options{}, &clock{}, 20)
	allYes(t, r, map[probe.ID]probe.Answer{probe.ContendedLatency: probe.Unsure}) // one write of an object a second
	honest := verdicts(r)
	for name, x := range gcsCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lies := gcsd.Lies{}
			if x.set != nil {
				x.set(&lies)
			} else {
				reflect.ValueOf(&lies).Elem().FieldByName(name).SetBool(true)
			}
			r, _ := probeGCS(t, gcsd.Options{Lies: lies}, &clock{}, max(x.objects, 20))
			compare(t, r, honest, x.told)
			if x.leaves != (len(r.Left) > 0) {
				t.Errorf("it left %q", r.Left)
			}
		})
	}
}

// eachSwitch holds a table to the switches that there are.
func eachSwitch[C any](t *testing.T, lies reflect.Type, cases map[string]C) {
	t.Helper()
	for i := range lies.NumField() {
		if _, ok := cases[lies.Field(i).Name]; !ok {
			t.Errorf("nothing is said about the lie %s", lies.Field(i).Name)
		}
	}
	for name := range cases {
		if _, ok := lies.FieldByName(name); !ok {
			t.Errorf("there is no lie %s", name)
		}
	}
}

// allYes holds a report to yes, but for the questions that are named.
func allYes(t *testing.T, r *probe.Report, but map[probe.ID]probe.Answer) {
	t.Helper()
	for _, f := range r.Findings {
		want := probe.Yes
		if a, ok := but[f.ID]; ok {
			want = a
		} else if f.ID == probe.ContendedLatency && f.Verdict == probe.No {
			continue // that is of this machine: it may be busy
		}
		if f.Verdict != want {
			t.Errorf("%s: %s (%s), want %s", f.ID, f.Verdict, f.Seen, want)
		}
	}
	if len(r.Left) > 0 {
		t.Errorf("it left %q", r.Left)
	}
}

// compare holds a report to what an honest server's would be, but for what the lie changes.
func compare(t *testing.T, r *probe.Report, honest map[probe.ID]probe.Answer, x told) {
	t.Helper()
	got := verdicts(r)
	for id, was := range honest {
		want := []probe.Answer{was}
		switch {
		case slices.Contains(x.no, id):
			want = []probe.Answer{probe.No}
		case slices.Contains(x.unsure, id):
			want = []probe.Answer{probe.Unsure, ""} // or not asked at all
		case slices.Contains(x.may, id):
			want = []probe.Answer{probe.Yes, probe.Unsure, probe.No, ""}
		}
		if !slices.Contains(want, got[id]) {
			seen := ""
			if f := r.Find(id); f != nil {
				seen = f.Seen
			}
			t.Errorf("%s: %q (%s), want %q", id, got[id], seen, want)
		}
	}
	for id, a := range got {
		if _, ok := honest[id]; !ok && !slices.Contains(x.unsure, id) && !slices.Contains(x.may, id) {
			t.Errorf("%s: %s, which nobody asked about", id, a)
		}
	}
	if !slices.Equal(r.Disabled, append([]probe.Feature{}, x.disables...)) {
		t.Errorf("it disables %v, want %v", r.Disabled, x.disables)
	}
	if len(x.no) == 0 && len(x.unsure) == 0 && x.why == "" {
		t.Error(fmt.Sprint("the table says nothing of it: ", x))
	}
}
