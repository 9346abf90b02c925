package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/bucket/openbucket"
)

// A remoteGround is a path of a bucket on a server. No time can be set there, so pruners are given what is superseded and
// finished, and a second index whose items are over after seconds.
type remoteGround struct {
	t       *testing.T
	at      string
	objects openbucket.Bucket

	untouchable []string // keys
	mustGo      []string
}

func newRemoteGround(t *testing.T, address string) *remoteGround {
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = path.Join("/", u.Path, "indexd-soak-"+strings.ToLower(rand.Text()))
	g := &remoteGround{t: t, at: u.String()}
	g.objects, err = openbucket.Open(t.Context(), g.at)
	g.check(err)
	t.Cleanup(g.cleanUp)
	return g
}

func (g *remoteGround) check(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *remoteGround) cleanUp() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	keys, err := g.list(ctx)
	errs := append(g.objects.Delete(ctx, keys), err, g.objects.Close())
	if err := errors.Join(errs...); err != nil {
		g.t.Errorf("cleaning up: %v", err)
	}
}

func (g *remoteGround) address() string { return g.at }

// env hands on what credentials are found by.
func (g *remoteGround) env() []string {
	return slices.DeleteFunc(os.Environ(), func(setting string) bool {
		name, _, _ := strings.Cut(setting, "=")
		return !strings.HasPrefix(name, "AWS_") && !slices.Contains([]string{
			"HOME", "GOOGLE_APPLICATION_CREDENTIALS", "STORAGE_EMULATOR_HOST", "SSL_CERT_FILE",
		}, name)
	})
}

// skew: these stores tell whole seconds, and some a second that has passed.
func (g *remoteGround) skew() time.Duration { return 3 * time.Second }

func (g *remoteGround) config() string {
	return fmt.Sprintf("indexes: [{name: running, skew: %v}, {name: %s, prefix: %s, ttl: %v, skew: %v}]\n",
		g.skew(), shortName, shortPrefix, shortTTL, g.skew())
}

func (g *remoteGround) indexes() []string { return []string{blobindex.DefaultName, shortName} }

func (g *remoteGround) crew() []string {
	return []string{"reader", "reader", "pruner", "pruner", "mayfly"}
}

// plant puts foreign keys, which stay, into both indexes: those in the short one are soon older than its TTL. What is old
// by its name alone, and was stored just now, stays as well.
func (g *remoteGround) plant() {
	now := time.Now()
	for i, name := range foreignNames {
		body := fmt.Sprintf("body %d\x00\xff", i)
		g.place(name, body)
		if rest, ok := strings.CutPrefix(name, "_active_runs/"); ok {
			g.place(shortPrefix+"/"+rest, body)
		}
	}
	g.place("_active_runs/"+futureName, "from the future")
	for i := range 10 {
		g.place(fmt.Sprintf("_active_runs/default/copied%d_%d", i, now.Add(-3*time.Hour).Unix()), "")
	}
	for i := range 100 {
		ago := func(n int) string { return fmt.Sprint(now.Add(-time.Duration(n) * 5 * time.Second).Unix()) }
		if i > 0 {
			g.doom("_active_runs/default/rerun_" + ago(i))
		}
		g.doom(fmt.Sprintf("_active_runs/other/ended%d_%s", i, ago(0)))
		g.place(fmt.Sprintf("_active_runs/other/ended%d_%s~failed", i, ago(0)), "")
		g.doom(fmt.Sprintf("%s/other/brief%d_%s", shortPrefix, i, ago(0)))
	}
	g.place("_active_runs/default/rerun_"+fmt.Sprint(now.Unix()), "")
	g.doom(shortPrefix + "/" + futureName)
}

// place puts what must stay. A key that the driver knows that the store cannot hold is left out, and named.
func (g *remoteGround) place(key, body string) {
	_, err := g.objects.Put(g.t.Context(), bucket.Key(key), bytes.NewReader([]byte(body)))
	if errors.Is(err, bucket.ErrInvalidKey) && slices.Contains(foreignNames, key) {
		g.t.Logf("left out: %v", err)
		return
	}
	if errors.Is(err, bucket.ErrInvalidKey) && strings.HasPrefix(key, shortPrefix) {
		return // named above
	}
	g.check(err)
	g.untouchable = append(g.untouchable, key)
}

// doom puts what must go.
func (g *remoteGround) doom(key string) {
	_, err := g.objects.Put(g.t.Context(), bucket.Key(key), nil)
	g.check(err)
	g.mustGo = append(g.mustGo, key)
}

func (g *remoteGround) foreign() string {
	var b strings.Builder
	for _, key := range g.untouchable {
		o, err := g.objects.Head(g.t.Context(), bucket.Key(key))
		g.check(err)
		r, err := g.objects.Open(g.t.Context(), bucket.Key(key))
		g.check(err)
		body, err := io.ReadAll(r)
		g.check(errors.Join(err, r.Close()))
		fmt.Fprintf(&b, "%q %d %v %q\n", key, o.Size, o.StoreTime, body)
	}
	return b.String()
}

// leftovers are what is there of the keys that must go, and whatever has been added to the short index.
func (g *remoteGround) leftovers() []string {
	keys, err := g.list(g.t.Context())
	g.check(err)
	var left []string
	for _, key := range keys {
		short := strings.HasPrefix(string(key), shortPrefix+"/") && !slices.Contains(g.untouchable, string(key))
		if short || slices.Contains(g.mustGo, string(key)) {
			left = append(left, string(key))
		}
	}
	return left
}

func (g *remoteGround) list(ctx context.Context) ([]bucket.Key, error) {
	var keys []bucket.Key
	err := g.objects.List(ctx, bucket.ListRequest{}, func(p bucket.Page) error {
		for _, o := range p.Objects {
			keys = append(keys, o.Key)
		}
		return nil
	})
	return keys, err
}
