package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/blobindex/resolve"
	"github.com/blobindex/indexd/prune"
)

// The rules of a demonstration: short, so that one sees items turn late and age out.
const (
	demoTTL       = 45 * time.Second
	demoLateAfter = 12 * time.Second
	demoSkew      = 10 * time.Second
	demoBeat      = 4 * time.Second
)

// demoStateTemplate is where a job of the demonstration tells its progress.
const demoStateTemplate = "results/{namespace}/{id}/status.json"

// A stage is where the producers of a demonstration act: an index, and a shared list beside it if they are compared.
type stage struct {
	objects bucket.Objects
	log     *slog.Logger
	list    *sharedList // nil: there is no comparison
	ours    *ledger
	theirs  *ledger
}

func newStage(objects bucket.Objects, compare bool, log *slog.Logger) *stage {
	s := &stage{objects: objects, log: log, ours: newLedger(demoTTL), theirs: newLedger(demoTTL)}
	if compare {
		s.list = &sharedList{objects: objects, key: "shared-list/running.json", ttl: demoTTL, now: time.Now}
	}
	return s
}

// index returns a new index on the stage's bucket, as a process of its own would have; its host's clock is behind by that
// much.
func (s *stage) index(sweeper *blobindex.Sweeper, behind time.Duration) (*blobindex.Index, error) {
	state, err := resolve.NewState(s.objects, resolve.StateOptions{Template: demoStateTemplate})
	if err != nil {
		return nil, err
	}
	cfg := blobindex.Config{Rules: prune.Rules{TTL: demoTTL, LateAfter: demoLateAfter, Skew: demoSkew}}
	return blobindex.New(s.objects, cfg, &blobindex.Options{
		Resolver: &stateOrMarker{state, resolve.NewMarker(s.objects)}, Sweeper: sweeper, Log: s.log,
		Now: func() time.Time { return time.Now().Add(-behind) },
	})
}

// stateOrMarker asks the state document, and the marker's labels where there is none.
type stateOrMarker struct {
	state  *resolve.State
	marker *resolve.Marker
}

func (r *stateOrMarker) MaxRequests(t blobindex.Target) int {
	return r.state.MaxRequests(t) + r.marker.MaxRequests(t)
}

func (r *stateOrMarker) Resolve(ctx context.Context, t blobindex.Target) (blobindex.Status, error) {
	first, err := r.state.Resolve(ctx, t)
	if err != nil || first.State != blobindex.Unknown {
		return first, err
	}
	s, err := r.marker.Resolve(ctx, t)
	s.Requests += first.Requests
	return s, err
}

// A performance is one run of a job on the stage: what a producer's process holds while it runs.
type performance struct {
	s         *stage
	namespace *blobindex.Namespace
	id        itemid.ID
	labels    blobindex.Labels
	started   time.Time // by a clock that is right
}

// start registers a new run. Both sides are told one after the other; each side owes the item once it has acknowledged it.
func (s *stage) start(ctx context.Context, subkey string, labels blobindex.Labels, behind time.Duration) (*performance, error) {
	index, err := s.index(nil, behind)
	if err != nil {
		return nil, err
	}
	namespace, err := index.Namespace(defaultNamespace)
	if err != nil {
		return nil, err
	}
	id, err := index.Mint(subkey)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	p := &performance{s, namespace, id, labels, now}
	s.ours.starting(subkey)
	if _, err := namespace.Register(ctx, id, labels); err != nil {
		return nil, err
	}
	s.ours.acknowledged(id, now.Add(-behind))
	if s.list == nil {
		return p, nil
	}
	// The list is told the true time: losing must not come from a clock that is wrong.
	now = time.Now()
	s.theirs.starting(subkey)
	if err := s.list.put(ctx, p.entry(now)); err != nil {
		return nil, err
	}
	s.theirs.acknowledged(id, now)
	return p, nil
}

func (p *performance) entry(seen time.Time) listEntry {
	return listEntry{ID: p.id.String(), Subkey: p.id.Subkey(), StartedAt: p.started.UTC(), LastSeen: seen.UTC()}
}

// beat says that the run is alive.
func (p *performance) beat(ctx context.Context) error {
	began := time.Now()
	if _, err := p.namespace.Heartbeat(ctx, p.id); err != nil {
		return err
	}
	p.s.ours.alive(p.id, began)
	if p.s.list == nil {
		return nil
	}
	now := time.Now()
	if err := p.s.list.put(ctx, p.entry(now)); err != nil {
		return err
	}
	p.s.theirs.alive(p.id, now)
	return nil
}

// finish says that the run is over.
func (p *performance) finish(ctx context.Context, outcome prune.Outcome) error {
	p.s.ours.ending(p.id)
	f, err := p.namespace.Finish(ctx, p.id, outcome)
	if err = errors.Join(err, f.Cleanup); err != nil {
		return err
	}
	if p.s.list == nil {
		return nil
	}
	p.s.theirs.ending(p.id)
	return p.s.list.remove(ctx, p.id.String())
}

// progress writes the run's state document.
func (p *performance) progress(ctx context.Context, done float64) error {
	body, err := json.Marshal(map[string]any{
		"state": "running", "progress": done, "updated_at": time.Now().UTC(),
		"title": p.labels["title"], "owner": p.labels["owner"], "url": p.labels["url"],
	})
	if err != nil {
		return fmt.Errorf("encoding the progress of %q: %w", p.id, err)
	}
	key := bucket.Key(fmt.Sprintf("results/%s/%s/status.json", p.namespace.Name(), p.id))
	if _, err := p.s.objects.Put(ctx, key, bytes.NewReader(body)); err != nil {
		return fmt.Errorf("writing the progress of %q: %w", p.id, err)
	}
	return nil
}
