package probe_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/membucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/probe"
)

// A liar is an honest store, but for what a test puts in the way of its calls. It has every interface that a driver may
// offer.
type liar struct {
	*membucket.Bucket
	onSave   func(key bucket.Key, body []byte, p cas.Precondition, honest saver) (cas.Version, error)
	onLoad   func(o cas.Object) cas.Object
	onPut    func(key bucket.Key, body string) string
	onList   func(req bucket.ListRequest, p *bucket.Page)
	onDelete func(keys []bucket.Key) ([]bucket.Key, error)
	onHead   func(key bucket.Key) error
	size     func(key bucket.Key) int64 // beyond the real one

	unquoted atomic.Bool
	settings map[string]string
	rules    map[string]string
	metadata func(v cas.Version) cas.Version
	page     func(keys []string, max int) []string
	other    func(request string) error
	early    bool // a slow save looks at its condition when it begins
	mode     string
}

type saver func(key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error)

func (l *liar) Save(ctx context.Context, key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
	honest := func(key bucket.Key, body []byte, p cas.Precondition) (cas.Version, error) {
		return l.Bucket.Save(ctx, key, body, p)
	}
	if l.onSave != nil {
		return l.onSave(key, body, p, honest)
	}
	return honest(key, body, p)
}

func (l *liar) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	o, err := l.Bucket.Load(ctx, key)
	if err == nil && l.onLoad != nil {
		o = l.onLoad(o)
	}
	return o, err
}

func (l *liar) Put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	if l.onPut == nil {
		return l.Bucket.Put(ctx, key, body)
	}
	var text []byte
	if body != nil {
		text, _ = io.ReadAll(body)
	}
	return l.Bucket.Put(ctx, key, strings.NewReader(l.onPut(key, string(text))))
}

func (l *liar) Head(ctx context.Context, key bucket.Key) (bucket.Object, error) {
	if l.onHead != nil {
		if err := l.onHead(key); err != nil {
			return bucket.Object{}, err
		}
	}
	o, err := l.Bucket.Head(ctx, key)
	if l.size != nil {
		o.Size += l.size(key)
	}
	return o, err
}

// keys are those of one step.
func (l *liar) keys(dir string) (keys []bucket.Key, err error) {
	err = l.Bucket.List(context.Background(), bucket.ListRequest{}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			if about(dir, o.Key) {
				keys = append(keys, o.Key)
			}
		}
		return nil
	})
	return keys, err
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (l *liar) List(ctx context.Context, req bucket.ListRequest, fn func(bucket.Page) error) error {
	return l.Bucket.List(ctx, req, func(p bucket.Page) error {
		if l.onList != nil {
			l.onList(req, &p)
		}
		return fn(p)
	})
}

func (l *liar) Delete(ctx context.Context, keys []bucket.Key) []error {
	if l.onDelete == nil {
		return l.Bucket.Delete(ctx, keys)
	}
	really, err := l.onDelete(keys)
	l.Bucket.Delete(ctx, really)
	if err == nil {
		return nil
	}
	return slices.Repeat([]error{err}, len(keys))
}

func (l *liar) UnquotedIfMatch(on bool)   { l.unquoted.Store(on) }
func (l *liar) Unguarded() bucket.Objects { return l.Bucket }
func (l *liar) DeleteMode() string        { return l.mode }

func (l *liar) Setting(_ context.Context, name string) (string, error) {
	text, ok := l.settings[name]
	if !ok {
		return "", bucket.ErrDenied
	}
	return text, nil
}

func (l *liar) Expirations(_ context.Context, rule func(prefix, what string)) error {
	for _, prefix := range slices.Sorted(maps.Keys(l.rules)) {
		rule(prefix, l.rules[prefix])
	}
	return nil
}

func (l *liar) MetadataVersion(ctx context.Context, key bucket.Key) (cas.Version, error) {
	o, err := l.Bucket.Load(ctx, key)
	if l.metadata != nil {
		o.Version = l.metadata(o.Version)
	}
	return o.Version, err
}

func (l *liar) Conditional(_ context.Context, request string, _ bucket.Key, _ cas.Version) error {
	if l.other != nil {
		return l.other(request)
	}
	return cas.ErrConflict
}

func (l *liar) ListPage(ctx context.Context, prefix, after, token string, max int) (keys []string, next, form string, err error) {
	from := bucket.Key(after)
	if token != "" {
		from = bucket.Key(token)
	}
	err = l.Bucket.List(ctx, bucket.ListRequest{Prefix: prefix, After: from}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			keys = append(keys, string(o.Key))
		}
		return nil
	})
	if most := min(max, bucket.PageSize); len(keys) > most {
		keys = keys[:most]
		next = keys[most-1]
	}
	if l.page != nil {
		keys = l.page(keys, max)
	}
	return keys, next, "url", err
}

func (l *liar) SaveSlowly(
	ctx context.Context, key bucket.Key, body []byte, p cas.Precondition, midway func(),
) (cas.Version, error) {
	if !l.early {
		midway()
		return l.Save(ctx, key, body, p)
	}
	o, err := l.Bucket.Load(ctx, key)
	if holds := p.Absent() == (err != nil) && o.Version == p.Version(); !holds {
		return "", cas.ErrConflict
	}
	midway()
	_, err = l.Bucket.Put(ctx, key, strings.NewReader(string(body)))
	return "late", err
}

// honestLiar tells no lies.
func honestLiar() *liar {
	return &liar{
		Bucket:   membucket.New(nil),
		settings: map[string]string{"versioning": "off", "soft-delete": "off", "retention": "off", "object-lock": "off"},
		rules:    map[string]string{}, mode: "batch",
	}
}

func absentBucket(context.Context) error { return bucket.ErrNotExist }
func denied(context.Context) error       { return bucket.ErrDenied }
func answered(context.Context) error     { return nil }

// about limits a lie to the keys of one step.
func about(dir string, key bucket.Key) bool { return strings.Contains(string(key), "/"+dir) }

// TestRun_Honest: a store that tells no lies has no for nothing.
func TestRun_Honest(t *testing.T) {
	for _, sites := range []int{1, 3} {
		l, c := honestLiar(), &clock{}
		opts := quick(c)
		opts.WrongSecret, opts.AbsentBucket = denied, absentBucket
		r := run(t, opts, slices.Repeat([]probe.Site{siteOf("a", l)}, sites)...)
		allYes(t, r, nil)
		if n := len(r.Findings); n != 48 {
			t.Errorf("%d findings", n)
		}
	}
}

// TestRun_Lies has one lie for each judgement that no wire fake can bring about, and its opposite for some that one can.
func TestRun_Lies(t *testing.T) {
	honest := quick(&clock{})
	honest.WrongSecret, honest.AbsentBucket = denied, absentBucket
	want := verdicts(run(t, honest, siteOf("a", honestLiar())))
	for name, x := range map[string]struct {
		told
		lie   func(*liar)
		opts  func(*probe.Options, *clock)
		clean bool   // there is nothing to remark
		seen  string // in the first finding that is no
	}{
		"a wrong secret is let in":  {told: only(probe.WrongSecret), opts: func(o *probe.Options, _ *clock) { o.WrongSecret = answered }},
		"an absent bucket is empty": {told: only(probe.AbsentBucket), opts: func(o *probe.Options, _ *clock) { o.AbsentBucket = answered }},
		"nobody says what became of it": {told: told{unsure: []probe.ID{probe.WrongSecret, probe.AbsentBucket}},
			opts: func(o *probe.Options, _ *clock) { o.WrongSecret, o.AbsentBucket = absentBucket, denied }},

		"versions are kept": {told: told{no: []probe.ID{probe.Versioning}, unsure: []probe.ID{probe.CreateAfter},
			may: []probe.ID{probe.CreateOverMarker}}, lie: func(l *liar) { l.settings["versioning"] = "on" }},
		"versions were kept": {told: copes("no new ones are"), lie: func(l *liar) { l.settings["versioning"] = "suspended" }},
		"soft delete":        {told: only(probe.SoftDelete), lie: func(l *liar) { l.settings["soft-delete"] = "7 days" }},
		"object lock":        {told: only(probe.Retention), lie: func(l *liar) { l.settings["object-lock"] = "7 days" }},
		"retention": {told: told{no: []probe.ID{probe.Retention}, disables: []probe.Feature{probe.Pruning, probe.CAS}},
			lie: func(l *liar) { l.settings["retention"], l.settings["object-lock"] = "7 days", "off" }},
		"settings are not to be seen": {told: told{unsure: []probe.ID{probe.Versioning, probe.SoftDelete, probe.Retention},
			may: []probe.ID{probe.CreateOverMarker}}, lie: func(l *liar) { l.settings = nil }},
		"all expires":       {told: casIs(probe.Lifecycle), lie: func(l *liar) { l.rules[""] = "deletes all" }},
		"documents expire":  {told: casIs(probe.Lifecycle), lie: func(l *liar) { l.rules["_indexd/x"] = "deletes some" }},
		"something expires": {told: copes("not ours"), lie: func(l *liar) { l.rules["_active_runs/"] = "deletes some" }},

		"bodies change": {told: told{no: []probe.ID{probe.Put}, disables: []probe.Feature{probe.Markers}},
			lie: func(l *liar) {
				l.onPut = func(key bucket.Key, body string) string {
					if about("put/plain", key) {
						return body[1:] + "x"
					}
					return body
				}
			}},
		"nothing gets a body": {told: only(probe.EmptyPut), lie: func(l *liar) {
			l.onPut = func(key bucket.Key, body string) string {
				if about("put/empty", key) {
					return "0\r\n\r\n"
				}
				return body
			}
		}},
		"the metadata tells other sizes": {told: only(probe.EmptyPut), lie: func(l *liar) {
			l.size = func(key bucket.Key) int64 {
				if about("put/empty", key) {
					return 5
				}
				return 0
			}
		}},
		"replacing does nothing": {told: only(probe.ReadAfterWrite), lie: func(l *liar) {
			l.onPut = func(key bucket.Key, body string) string {
				if about("put/replaced", key) {
					return "one"
				}
				return body
			}
		}},

		"the store is behind": {told: told{no: []probe.ID{probe.Clock}, unsure: nil, may: []probe.ID{probe.LastModified},
			disables: []probe.Feature{probe.Markers}}, lie: shift(-3*time.Minute, -3*time.Minute)},
		"the store is ahead": {told: only(probe.Clock), lie: shift(3*time.Minute, 3*time.Minute)},
		"the store is far ahead": {told: told{no: []probe.ID{probe.Clock}, disables: []probe.Feature{probe.Markers}},
			lie: shift(3*time.Hour, 3*time.Hour)},
		"the store is almost right":  {told: copes("within the skew"), lie: shift(30*time.Second, 30*time.Second)},
		"objects are from elsewhere": {told: told{no: []probe.ID{probe.LastModified}, disables: []probe.Feature{probe.Pruning}}, lie: shift(0, -time.Minute)},
		"objects are from the future": {told: told{no: []probe.ID{probe.LastModified}, disables: []probe.Feature{probe.Pruning}},
			lie: shift(0, time.Minute)},

		"what is absent is there": {told: told{no: []probe.ID{probe.AbsentObject}, disables: []probe.Feature{probe.CAS}},
			lie: func(l *liar) {
				l.onHead = func(key bucket.Key) error {
					if about("absent/", key) {
						return bucket.ErrDenied
					}
					return nil
				}
			}},
		"versions are lengths": {told: noVersions2(), lie: func(l *liar) {
			length := func(body []byte) cas.Version { return cas.Version(fmt.Sprintf(`"%d"`, len(body))) }
			l.onLoad = func(o cas.Object) cas.Object { o.Version = length(o.Body); return o }
			l.metadata = func(cas.Version) cas.Version { return `"4"` }
			l.onSave = func(key bucket.Key, body []byte, p cas.Precondition, honest saver) (cas.Version, error) {
				_, err := honest(key, body, p)
				return length(body), err
			}
		}},
		"metadata has other versions": {told: noVersions2(), lie: func(l *liar) {
			l.metadata = func(cas.Version) cas.Version { return `"other"` }
		}},
		"reads tell other versions": {told: noVersions2(), lie: func(l *liar) {
			l.onLoad = func(o cas.Object) cas.Object { o.Version += "r"; return o }
		}},
		"versions are of this or that": {told: only(probe.VersionKind), lie: func(l *liar) {
			odd := func(body []byte, v cas.Version) cas.Version {
				if len(body) == 1 && strings.HasPrefix(string(v), `"`) {
					return cas.Version(fmt.Sprintf(`"%s-%p"`, body, &body))
				}
				return v
			}
			// Of one key the versions are of writes, of the other ones of the content.
			l.onSave = func(key bucket.Key, body []byte, p cas.Precondition, honest saver) (cas.Version, error) {
				v, err := honest(key, body, p)
				if about("versions/other", key) {
					return odd(body, v), err
				}
				return v, err
			}
		}},
		"a refused create overwrites": {told: casIs(probe.CreateOnly), lie: func(l *liar) {
			l.onSave = func(key bucket.Key, body []byte, p cas.Precondition, honest saver) (cas.Version, error) {
				v, err := honest(key, body, p)
				if about("create/existing", key) && errors.Is(err, cas.ErrConflict) {
					l.Bucket.Put(context.Background(), key, strings.NewReader(string(body)))
				}
				return v, err
			}
		}},
		"a create that is acknowledged does nothing": {told: casIs(probe.CreateOnly), lie: func(l *liar) {
			l.onSave = func(key bucket.Key, body []byte, p cas.Precondition, honest saver) (cas.Version, error) {
				v, err := honest(key, body, p)
				if about("create/existing", key) && errors.Is(err, cas.ErrConflict) {
					return `"1"`, nil
				}
				return v, err
			}
		}},
		"what was deleted cannot be created": {told: only(probe.CreateAfter), lie: func(l *liar) {
			l.onSave = func(key bucket.Key, body []byte, p cas.Precondition, honest saver) (cas.Version, error) {
				if about("create/again", key) && string(body) == "two" {
					return "", cas.ErrConflict
				}
				return honest(key, body, p)
			}
		}},
		"a save that is acknowledged does nothing": {seen: "was acknowledged", told: told{no: []probe.ID{probe.IfMatch}, may: []probe.ID{probe.IfMatchQuoted,
			probe.IfMatchUnquoted}, unsure: onIfMatch(), disables: []probe.Feature{probe.CAS}}, lie: func(l *liar) {
			l.onSave = func(key bucket.Key, body []byte, p cas.Precondition, honest saver) (cas.Version, error) {
				if about("match/right", key) && !p.Absent() {
					return p.Version(), nil
				}
				return honest(key, body, p)
			}
		}},
		"the right version is refused": {told: told{no: []probe.ID{probe.IfMatch, probe.IfMatchQuoted, probe.IfMatchUnquoted},
			unsure: onIfMatch(), disables: []probe.Feature{probe.CAS}}, lie: func(l *liar) {
			l.onSave = func(key bucket.Key, body []byte, p cas.Precondition, honest saver) (cas.Version, error) {
				if about("match/right", key) && !p.Absent() {
					return "", cas.ErrConflict
				}
				return honest(key, body, p)
			}
		}},
		"quotes are required": {told: only(probe.IfMatchUnquoted), lie: func(l *liar) {
			l.onSave = func(key bucket.Key, body []byte, p cas.Precondition, honest saver) (cas.Version, error) {
				if !p.Absent() && l.unquoted.Load() {
					return "", cas.ErrConflict
				}
				return honest(key, body, p)
			}
		}},
		"a refused stale save overwrites": {told: casIs(probe.IfMatchStale), lie: overwriting("match/stale", cas.ErrConflict)},
		"the version before will do": {told: casIs(probe.IfMatchStale), lie: func(l *liar) {
			first := cas.Version("")
			l.onSave = func(key bucket.Key, body []byte, p cas.Precondition, honest saver) (cas.Version, error) {
				v, err := honest(key, body, p)
				switch {
				case !about("match/stale", key):
				case p.Absent():
					first = v
				case errors.Is(err, cas.ErrConflict) && p.Version() == first:
					return `"1"`, nil
				}
				return v, err
			}
		}},
		"a save on nothing makes something": {told: casIs(probe.IfMatchAbsent), lie: overwriting("match/absent", cas.ErrNotExist)},
		"an impossible save overwrites":     {told: casIs(probe.Impossible), lie: overwriting("match/impossible", cas.ErrConflict)},
		"any version will do": {told: casIs(probe.Impossible), lie: func(l *liar) {
			l.onSave = func(key bucket.Key, body []byte, p cas.Precondition, honest saver) (cas.Version, error) {
				if v, err := honest(key, body, p); err == nil || !about("match/impossible", key) {
					return v, err
				}
				return `"1"`, nil
			}
		}},

		"nobody wins": {told: casIs(probe.RacingCreates), lie: func(l *liar) {
			l.onSave = func(key bucket.Key, body []byte, p cas.Precondition, honest saver) (cas.Version, error) {
				v, err := honest(key, body, p)
				if about("create/race", key) {
					return "", cas.ErrConflict
				}
				return v, err
			}
		}},
		"a loser overwrites": {told: casIs(probe.RacingCreates), lie: overwriting("create/race", cas.ErrConflict)},
		"increments get lost": {told: casIs(probe.RacingIncrements), lie: func(l *liar) {
			var n atomic.Int32
			l.onSave = func(key bucket.Key, body []byte, p cas.Precondition, honest saver) (cas.Version, error) {
				if about("increment/", key) && !p.Absent() && n.Add(1) == 1 {
					return p.Version(), nil
				}
				return honest(key, body, p)
			}
		}},
		"increments are made twice": {told: casIs(probe.RacingIncrements), lie: func(l *liar) {
			var once sync.Once
			l.onSave = func(key bucket.Key, body []byte, p cas.Precondition, honest saver) (cas.Version, error) {
				v, err := honest(key, body, p)
				if about("increment/", key) && !p.Absent() && err == nil {
					once.Do(func() {
						var sum int
						fmt.Sscanf(string(body), "%d", &sum)
						_, rest, _ := strings.Cut(string(body), " ")
						v, err = honest(key, fmt.Appendf(nil, "%d %s", sum+1, rest), cas.IfMatch(v))
					})
				}
				return v, err
			}
		}},
		"increments are slow": {told: only(probe.ContendedLatency), opts: func(o *probe.Options, c *clock) {
			wait := o.Wait
			o.Wait = func(ctx context.Context, d time.Duration) error { return wait(ctx, d+time.Minute) }
		}, lie: func(l *liar) { // each loses once, and waits
			var mu sync.Mutex
			seen := map[string]bool{}
			l.onSave = func(key bucket.Key, body []byte, p cas.Precondition, honest saver) (cas.Version, error) {
				_, who, _ := strings.Cut(string(body), " by ")
				who, _, _ = strings.Cut(who, ",")
				mu.Lock()
				first := about("increment/", key) && !p.Absent() && !seen[who]
				seen[who] = true
				mu.Unlock()
				if first {
					return "", cas.ErrConflict
				}
				return honest(key, body, p)
			}
		}},

		"bodies are halves": {told: casIs(probe.TornReads), lie: torn(func(o cas.Object) cas.Object { o.Body = o.Body[:len(o.Body)/2]; return o })},
		"bodies are cut in a race": {seen: "a racer read", told: casIs(probe.TornReads), lie: func(l *liar) {
			var n atomic.Int64
			l.onLoad = func(o cas.Object) cas.Object {
				if strings.HasSuffix(string(o.Body), "\nend\n") && n.Add(1)%3 == 0 {
					o.Body = o.Body[:len(o.Body)-1]
				}
				return o
			}
		}},
		"bodies are newer": {told: copes("a save of it is refused"), lie: staleVersion()},
		"nobody overtakes anybody": {seen: "both saves", told: casIs(probe.OvertakenUpload), lie: func(l *liar) {
			l.onSave = func(key bucket.Key, body []byte, p cas.Precondition, honest saver) (cas.Version, error) {
				if about("overtaken/", key) && string(body) != "start" {
					return "", cas.ErrConflict
				}
				return honest(key, body, p)
			}
		}},
		"what has overtaken is gone": {told: casIs(probe.OvertakenUpload), lie: func(l *liar) {
			l.onSave = func(key bucket.Key, body []byte, p cas.Precondition, honest saver) (cas.Version, error) {
				v, err := honest(key, body, p)
				if about("overtaken/", key) && errors.Is(err, cas.ErrConflict) {
					l.Bucket.Put(context.Background(), key, strings.NewReader("another"))
				}
				return v, err
			}
		}},
		"answers get lost": {told: copes("they are looked up"), lie: func(l *liar) {
			var n atomic.Int32
			l.onSave = func(key bucket.Key, body []byte, p cas.Precondition, honest saver) (cas.Version, error) {
				v, err := honest(key, body, p)
				if err == nil && about("increment/", key) && n.Add(1) == 2 { // the first increment
					return "", cas.ErrUnknown
				}
				return v, err
			}
		}, opts: func(o *probe.Options, _ *clock) { o.Racers = 1 }, clean: true},
		"a slow upload is too early": {told: casIs(probe.OvertakenUpload), lie: func(l *liar) { l.early = true }},

		"reads ignore conditions":   {told: only(probe.ReadCondition), lie: carriesOut("read")},
		"metadata ignores":          {told: told{why: "S3 has none", may: []probe.ID{probe.MetadataCondition}}, lie: carriesOut("metadata")},
		"deletes ignore conditions": {told: only(probe.DeleteCondition), lie: carriesOut("delete")},
		"batches ignore conditions": {told: only(probe.BatchDeleteCondition), lie: carriesOut("batch-delete")},
		"a refused delete deletes": {told: only(probe.DeleteCondition), lie: func(l *liar) {
			l.other = func(request string) error {
				if request == "delete" {
					for _, k := range must(l.keys("other/delete")) {
						l.Bucket.Delete(context.Background(), []bucket.Key{k})
					}
				}
				return cas.ErrConflict
			}
		}},
		"conditions lead to nothing": {told: told{unsure: []probe.ID{probe.DeleteCondition}}, lie: func(l *liar) {
			l.other = func(request string) error {
				if request == "delete" {
					return errors.New("418")
				}
				return cas.ErrConflict
			}
		}},

		"a key is not listed":     {told: listLie(), lie: listed(func(p *bucket.Page) { p.Objects = p.Objects[1:] })},
		"a key is listed twice":   {told: listLie(), lie: listed(func(p *bucket.Page) { p.Objects = append(p.Objects, p.Objects[0]) })},
		"a stranger is listed":    {told: listLie(), lie: listed(func(p *bucket.Page) { p.Objects = append(p.Objects, bucket.Object{Key: "x"}) })},
		"pages are too long":      {told: only(probe.PageCap), lie: func(l *liar) { l.page = nil; longPages(l) }},
		"pages lose keys":         {told: pagesLose(), lie: func(l *liar) { l.page = func(k []string, max int) []string { return dropAt(k, max) } }},
		"pages have strange keys": {told: only(probe.ListPrefix), lie: func(l *liar) { l.page = func(k []string, max int) []string { return stranger(k, max) } }},
		"pages are not in order":  {told: only(probe.ByteOrder), lie: func(l *liar) { l.page = func(k []string, _ int) []string { slices.Reverse(k); return k } }},

		"a delete does nothing": {told: told{no: []probe.ID{probe.Delete}, disables: []probe.Feature{probe.Pruning}}, lie: func(l *liar) {
			l.onDelete = func(keys []bucket.Key) ([]bucket.Key, error) {
				if len(keys) == 1 && about("delete/one", keys[0]) {
					return nil, nil
				}
				return keys, nil
			}
		}},
		"a delete takes more": {told: told{no: []probe.ID{probe.Delete}, disables: []probe.Feature{probe.Pruning}}, lie: func(l *liar) {
			l.onDelete = func(keys []bucket.Key) ([]bucket.Key, error) {
				if len(keys) == 1 && about("delete/one", keys[0]) {
					return append(keys, keys[0]+"-more"), nil
				}
				return keys, nil
			}
		}},
		"a delete is refused": {told: told{no: []probe.ID{probe.Delete}, unsure: []probe.ID{probe.BatchDelete}, disables: []probe.Feature{probe.Pruning}},
			lie: func(l *liar) {
				l.onDelete = func(keys []bucket.Key) ([]bucket.Key, error) {
					if len(keys) == 1 && about("delete/one", keys[0]) {
						return nil, bucket.ErrUnsupported
					}
					return keys, nil
				}
			}},
		"a batch leaves some": {told: told{no: []probe.ID{probe.BatchDelete}, disables: []probe.Feature{probe.Pruning}}, lie: func(l *liar) {
			l.onDelete = func(keys []bucket.Key) ([]bucket.Key, error) {
				if len(keys) > 1 && about("list/", keys[0]) && about("list/", keys[1]) {
					return keys[:len(keys)-1], nil
				}
				return keys, nil
			}
		}},
		"there are no batches": {told: only(probe.BatchDelete), lie: func(l *liar) { l.mode = "one by one" }},
		"cases are one": {told: told{no: []probe.ID{probe.IDKeys}, disables: []probe.Feature{probe.Markers, probe.Pruning}}, lie: func(l *liar) {
			l.onPut = func(key bucket.Key, body string) string {
				if about("id/Case", key) {
					return "the body of case"
				}
				return body
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &clock{}
			l, opts := honestLiar(), quick(c)
			opts.WrongSecret, opts.AbsentBucket = denied, absentBucket
			opts.Objects = 30
			if x.lie != nil {
				x.lie(l)
			}
			if x.opts != nil {
				x.opts(opts, c)
			}
			r := run(t, opts, siteOf("a", l))
			compare(t, r, want, x.told)
			if x.seen != "" && !strings.Contains(r.Find(x.no[0]).Seen, x.seen) {
				t.Errorf("what was seen is %q, want %q in it", r.Find(x.no[0]).Seen, x.seen)
			}
			for _, f := range r.Findings {
				if x.clean && f.Remark != "" {
					t.Errorf("%s is remarked on: %s", f.ID, f.Remark)
				}
			}
		})
	}
}

// noVersions2 is noVersions of a store that goes on telling versions: conditions on them are tried no more.
func noVersions2() told { return noVersions }

// onIfMatch are the questions that need saves on conditions.
func onIfMatch() []probe.ID {
	return []probe.ID{probe.RacingIncrements, probe.ContendedLatency, probe.TornReads, probe.AbsentReads}
}

// shift moves the clock of listings, and the times of their objects.
func shift(now, objects time.Duration) func(*liar) {
	return func(l *liar) {
		l.onList = func(req bucket.ListRequest, p *bucket.Page) {
			if about("clock/", bucket.Key(req.Prefix)) {
				p.Now = p.Now.Add(now)
				p.Objects = slices.Clone(p.Objects)
				for i := range p.Objects {
					p.Objects[i].StoreTime = p.Objects[i].StoreTime.Add(objects)
				}
			}
		}
	}
}

// overwriting carries out what it refuses.
func overwriting(dir string, refusal error) func(*liar) {
	return func(l *liar) {
		l.onSave = func(key bucket.Key, body []byte, p cas.Precondition, honest saver) (cas.Version, error) {
			v, err := honest(key, body, p)
			if about(dir, key) && errors.Is(err, refusal) {
				l.Bucket.Put(context.Background(), key, strings.NewReader(string(body)))
			}
			return v, err
		}
	}
}

// torn changes what is read of the object that is replaced while it is read.
func torn(change func(cas.Object) cas.Object) func(*liar) {
	return func(l *liar) {
		l.onLoad = func(o cas.Object) cas.Object {
			if len(o.Body) > 900 && strings.Contains(string(o.Body[len(o.Body)-4:]), ",") {
				o = change(o)
			}
			return o
		}
	}
}

// staleVersion tells each body with the version of the one before it.
func staleVersion() func(*liar) {
	return func(l *liar) {
		var mu sync.Mutex
		before := map[cas.Version]cas.Version{}
		l.onSave = func(key bucket.Key, body []byte, p cas.Precondition, honest saver) (cas.Version, error) {
			v, err := honest(key, body, p)
			if err == nil && about("torn/", key) && !p.Absent() {
				mu.Lock()
				before[v] = p.Version()
				mu.Unlock()
			}
			return v, err
		}
		l.onLoad = func(o cas.Object) cas.Object {
			mu.Lock()
			defer mu.Unlock()
			if v, ok := before[o.Version]; ok {
				o.Version = v
			}
			return o
		}
	}
}

func carriesOut(what string) func(*liar) {
	return func(l *liar) {
		l.other = func(request string) error {
			if request == what {
				return nil
			}
			return cas.ErrConflict
		}
	}
}

func pagesLose() told {
	x := listLie()
	x.may = []probe.ID{probe.PageCap}
	return x
}

func listLie() told {
	return told{no: []probe.ID{probe.ListAfterWrite}, disables: []probe.Feature{probe.Markers, probe.Pruning}}
}

// listed changes the listing of many objects.
func listed(change func(*bucket.Page)) func(*liar) {
	return func(l *liar) {
		l.onList = func(req bucket.ListRequest, p *bucket.Page) {
			if about("list/", bucket.Key(req.Prefix)) && len(p.Objects) > 1 {
				p.Objects = slices.Clone(p.Objects)
				change(p)
			}
		}
	}
}

// longPages repeats keys up to more than was asked for.
func longPages(l *liar) {
	l.page = func(k []string, max int) []string {
		if max > bucket.PageSize {
			return slices.Repeat(k[:1], bucket.PageSize+1)
		}
		return k
	}
}

func dropAt(k []string, max int) []string {
	if max < 10 && len(k) == max {
		return k[1:]
	}
	return k
}

func stranger(k []string, max int) []string {
	if max == bucket.PageSize && len(k) > 10 {
		k = append([]string{"A"}, k...)
	}
	return k
}

// A slowHand is a store whose uploads without conditions can be seen on their way.
type slowHand struct {
	driver
	put func(ctx context.Context, key bucket.Key, body io.Reader) error
}

func (s *slowHand) Put(ctx context.Context, key bucket.Key, body io.Reader) (time.Time, error) {
	if !about("overtaken/", key) {
		return s.driver.Put(ctx, key, body)
	}
	return time.Now(), s.put(ctx, key, body)
}

// TestRun_HalfUploads: of a driver that has bodies whole before it looks at conditions, half a body must not show.
func TestRun_HalfUploads(t *testing.T) {
	b := membucket.New(nil)
	whole := func(ctx context.Context, key bucket.Key, body io.Reader) error {
		_, err := b.Put(ctx, key, body)
		return err
	}
	for name, x := range map[string]struct {
		put  func(ctx context.Context, key bucket.Key, body io.Reader) error
		want probe.Answer
	}{
		"whole": {whole, probe.Yes},
		"half shows": {func(ctx context.Context, key bucket.Key, body io.Reader) error {
			text, err := io.ReadAll(body)
			if string(text) == "fast" {
				text = text[:2]
			}
			return errors.Join(err, whole(ctx, key, strings.NewReader(string(text))))
		}, probe.No},
		"half stays": {func(ctx context.Context, key bucket.Key, body io.Reader) error {
			text, err := io.ReadAll(body)
			return errors.Join(err, whole(ctx, key, strings.NewReader(string(text[:min(len(text), 100)]))))
		}, probe.No},
	} {
		r := run(t, quick(&clock{}), siteOf(name, &slowHand{b, x.put}))
		if f := r.Find(probe.OvertakenUpload); f.Verdict != x.want {
			t.Errorf("%s: %s, %s", name, f.Verdict, f.Seen)
		}
	}
}

// A renamer tells other versions to readers than to writers, and has nothing beyond its contracts.
type renamer struct{ driver }

func (r *renamer) Load(ctx context.Context, key bucket.Key) (cas.Object, error) {
	o, err := r.driver.Load(ctx, key)
	o.Version += "r"
	return o, err
}

// TestRun_OtherVersions: what a write tells is what a read must tell.
func TestRun_OtherVersions(t *testing.T) {
	r := run(t, quick(&clock{}), siteOf("x", &renamer{membucket.New(nil)}))
	if f := r.Find(probe.Versions); f.Verdict != probe.No || !strings.Contains(f.Seen, "reading tells") {
		t.Errorf("versions: %+v", f)
	}
}
