package snapshot_test

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/blobindex/indexd/blobindex/bucket/dirbucket"
	"github.com/blobindex/indexd/blobindex/bucket/gcsbucket"
	"github.com/blobindex/indexd/blobindex/bucket/s3bucket"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/cas/snapshot"
	"github.com/blobindex/indexd/fakes/gcsd"
	"github.com/blobindex/indexd/fakes/s3d"
)

// A fake is a server on the wire, whatever protocol it speaks.
type fake interface {
	dial(t testing.TB) snapshot.Store // a client of its own
	strike(f fault)
	settle() // waits for what was to be applied later
}

// A fault strikes writes, the first or each, of a kind of object: "pointer", "claim", "index" or "part".
type fault struct {
	what  string
	every bool
	kind  kind
}

// A kind is what a fault does, in the words of each fake.
type kind struct {
	s3  s3d.Kind
	gcs gcsd.Kind
}

var (
	busy        = kind{s3d.Status(503, "SlowDown"), gcsd.Status(503, "backendError")}
	busyAfter   = kind{s3d.AppliedThenStatus(503, "SlowDown"), gcsd.AppliedThenStatus(503)}
	resetBefore = kind{s3d.ResetBefore(), gcsd.Reset()}
	resetAfter  = kind{s3d.ResetAfter(), gcsd.AppliedThenReset()}
	dropBefore  = kind{s3d.DropBefore(), gcsd.Drop()}
	dropAfter   = kind{s3d.DropAfter(), gcsd.AppliedThenDrop()}
	halfRequest = kind{s3d.HalfRequest(), gcsd.HalfRequest()}
)

// later answers 503, and carries the request out when release is closed.
func later(release <-chan struct{}) kind {
	return kind{s3d.AppliedLater(release, 503, "SlowDown"), gcsd.AppliedLater(release, 503, "backendError")}
}

// of is the kind of an object.
func of(key string) string {
	name := key[strings.LastIndexAny(key, "/_")+1:]
	if strings.Trim(name, "0123456789") == "" {
		return "part"
	}
	return name
}

type s3Fake struct {
	*s3d.Server
	url string
}

func startS3(t *testing.T) fake {
	f := &s3Fake{Server: s3d.New(t, nil)}
	front := httptest.NewUnstartedServer(f.Server)
	front.Config.ErrorLog = log.New(io.Discard, "", 0) // faults break connections
	front.Start()
	t.Cleanup(front.Close)
	f.url = front.URL
	return f
}

func (f *s3Fake) dial(t testing.TB) snapshot.Store {
	own := &http.Transport{}
	b, err := s3bucket.New("bucket", &s3bucket.Options{
		Endpoint: f.url, Credentials: credentials.NewStaticCredentialsProvider("AK", "secret", ""), Pause: time.Microsecond,
		HTTPClient: &http.Client{Transport: own},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(); own.CloseIdleConnections() })
	return b
}

func (f *s3Fake) strike(x fault) {
	f.Plan(s3d.Fault{Op: s3d.PutObject, Every: x.every, Kind: x.kind.s3, Text: x.what,
		Key: func(key string) bool { return of(key) == x.what }})
}

func (f *s3Fake) settle() { f.Forgive(); f.Settle() }

type gcsFake struct {
	*gcsd.Server
	t       *testing.T
	forgave bool
}

func startGCS(t *testing.T) fake {
	s := gcsd.New(&gcsd.Options{Lies: gcsd.Lies{NoPace: true}})
	t.Cleanup(s.Close)
	return &gcsFake{Server: s, t: t}
}

func (f *gcsFake) dial(t testing.TB) snapshot.Store {
	own := &http.Transport{}
	b, err := gcsbucket.New(t.Context(), gcsbucket.Options{
		Bucket: "bucket", Endpoint: f.URL(), FirstPause: time.Microsecond, HTTPClient: &http.Client{Transport: own},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(); own.CloseIdleConnections() })
	return b
}

func (f *gcsFake) strike(x fault) {
	f.Plan(f.t, gcsd.Fault{Op: gcsd.Insert, Every: x.every, Kind: x.kind.gcs, Text: x.what, Where: func(r gcsd.Request) bool {
		key := r.Name
		if key == "" {
			key = r.Query.Get("name")
		}
		return !f.forgave && of(key) == x.what
	}})
}

func (f *gcsFake) settle() { f.forgave = true; f.Settle() }

// onWires runs a case on a server of each kind that has a published tree.
func onWires(t *testing.T, run func(t *testing.T, f fake)) {
	t.Helper()
	for name, begin := range map[string]func(*testing.T) fake{"s3": startS3, "gcs": startGCS} {
		t.Run(name, func(t *testing.T) {
			f := begin(t)
			publish(t, tiny(t, f.dial(t)), tree(1, "a", "b"), snapshot.Published)
			run(t, f)
		})
	}
}

// afterwards checks that one more publication, by another process, needs no repair and leaves nothing else.
func afterwards(t *testing.T, f fake, size int64) {
	t.Helper()
	s := tiny(t, f.dial(t))
	holds(t, s, size, "a", "b")
	publishWith(t, s, tree(99, "a", "b"), &snapshot.PublishOptions{Grace: snapshot.NoGrace}, snapshot.Published)
	only(t, f.dial(t), holds(t, s, 99, "a", "b"))
}

// TestWire_Once: one write of each kind meets with what servers and networks do, and the publication is won all the same.
func TestWire_Once(t *testing.T) {
	for name, k := range map[string]kind{
		"503": busy, "503 applied": busyAfter, "reset": resetBefore, "reset, applied": resetAfter, "closed": dropBefore,
		"closed, applied": dropAfter, "half a request": halfRequest,
	} {
		t.Run(name, func(t *testing.T) {
			for _, what := range []string{"claim", "part", "index", "pointer"} {
				t.Run(what, func(t *testing.T) {
					onWires(t, func(t *testing.T, f fake) {
						f.strike(fault{what: what, kind: k})
						r := publish(t, tiny(t, f.dial(t)), tree(2, "a", "b"), snapshot.Published)
						if r.ID.Number != 2 || r.Swept.Kept != 1 {
							t.Errorf("%+v", r)
						}
						afterwards(t, f, 2)
					})
				})
			}
		})
	}
}

// TestWire_ForGood: writes of a kind are refused with 503 each time, and are not carried out, or are, or will be later. What
// is told is so, and at each moment there is one tree, whole.
func TestWire_ForGood(t *testing.T) {
	for _, what := range []string{"claim", "part", "index", "pointer"} {
		for _, how := range []string{"not applied", "applied", "applied later"} {
			t.Run(what+" "+how, func(t *testing.T) {
				onWires(t, func(t *testing.T, f fake) {
					release := make(chan struct{})
					k := map[string]kind{"not applied": busy, "applied": busyAfter, "applied later": later(release)}[how]
					f.strike(fault{what: what, every: true, kind: k})
					r, err := tiny(t, f.dial(t)).Publish(t.Context(), tree(2, "a", "b"), nil)
					size := int64(1)
					switch {
					case how == "applied" && (what == "pointer" || what == "claim"): // it is found when it is looked for
						size = 2
						if err != nil || r.Outcome != snapshot.Published {
							t.Errorf("%+v, %v", r, err)
						}
					case what == "pointer":
						if !errors.Is(err, cas.ErrUnknown) && !errors.Is(err, cas.ErrThrottled) || errors.Is(err, snapshot.ErrStage) {
							t.Errorf("%+v, %v", r, err)
						}
						if how == "applied later" && !errors.Is(err, cas.ErrUnknown) {
							t.Errorf("%v, though it may be carried out yet", err)
						}
					case !errors.Is(err, snapshot.ErrStage) || errors.Is(err, cas.ErrUnknown):
						t.Errorf("%+v, %v", r, err)
					}
					holds(t, tiny(t, f.dial(t)), size, "a", "b")
					close(release)
					f.settle()
					if what == "pointer" && how == "applied later" {
						size = 2 // one of those that were sent
					}
					afterwards(t, f, size)
				})
			})
		}
	}
}

// TestWire_LateWrites: a write that was answered with 503 once, sent again, and is carried out once more after all was over,
// changes nothing.
func TestWire_LateWrites(t *testing.T) {
	for _, what := range []string{"claim", "part", "index", "pointer"} {
		t.Run(what, func(t *testing.T) {
			onWires(t, func(t *testing.T, f fake) {
				release := make(chan struct{})
				f.strike(fault{what: what, kind: later(release)})
				publish(t, tiny(t, f.dial(t)), tree(2, "a", "b"), snapshot.Published)
				publishWith(t, tiny(t, f.dial(t)), tree(3, "a", "b"), &snapshot.PublishOptions{Grace: snapshot.NoGrace}, snapshot.Published)
				close(release)
				f.settle()
				afterwards(t, f, 3)
			})
		})
	}
}

// TestWire_Directory: the same life on files.
func TestWire_Directory(t *testing.T) {
	b, err := dirbucket.Create(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s := tiny(t, b)
	publish(t, s, tree(1, "a", "b"), snapshot.Published)
	publish(t, s, tree(1, "a", "b"), snapshot.Unchanged)
	publishWith(t, s, tree(2, "a", "b"), &snapshot.PublishOptions{Grace: snapshot.NoGrace}, snapshot.Published)
	only(t, b, holds(t, s, 2, "a", "b"))
}
