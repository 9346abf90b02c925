package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
)

// A sharedList is a "running now" list as one JSON object that all producers and readers share: what indexd replaces. Every
// change reads the list, changes it, and writes it back. It is written with care: each step is right by itself, and a
// failed one changes nothing. What it loses, it loses because two changes may read the same list, and the one that writes
// later does not know what the other one wrote.
type sharedList struct {
	objects bucket.Objects
	key     bucket.Key
	ttl     time.Duration
	now     func() time.Time
}

type listEntry struct {
	ID        string    `json:"id"`
	Subkey    string    `json:"subkey"`
	StartedAt time.Time `json:"started_at"`
	LastSeen  time.Time `json:"last_seen_at"`
}

// read returns the entries; none if the list has never been written.
func (l *sharedList) read(ctx context.Context) (entries []listEntry, err error) {
	r, err := l.objects.Open(ctx, l.key)
	if errors.Is(err, bucket.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the shared list: %w", err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	body, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("reading the shared list: %w", err)
	}
	if err := json.Unmarshal(body, &entries); err != nil {
		return nil, fmt.Errorf("reading the shared list: %w", err)
	}
	return entries, nil
}

// update reads the list, changes it and writes it back. A change that leaves it as it is writes nothing.
func (l *sharedList) update(ctx context.Context, change func([]listEntry) []listEntry) error {
	entries, err := l.read(ctx)
	if err != nil {
		return err
	}
	changed := change(slices.Clone(entries))
	if slices.Equal(entries, changed) {
		return nil
	}
	body, err := json.Marshal(changed)
	if err != nil {
		return fmt.Errorf("encoding the shared list: %w", err)
	}
	if _, err := l.objects.Put(ctx, l.key, bytes.NewReader(body)); err != nil {
		return fmt.Errorf("writing the shared list: %w", err)
	}
	return nil
}

// put appends the entry, or refreshes it where it is listed already. So a heartbeat even brings back what was lost.
func (l *sharedList) put(ctx context.Context, e listEntry) error {
	return l.update(ctx, func(entries []listEntry) []listEntry {
		if i := slices.IndexFunc(entries, func(x listEntry) bool { return x.ID == e.ID }); i >= 0 {
			entries[i].LastSeen = e.LastSeen
			return entries
		}
		return append(entries, e)
	})
}

func (l *sharedList) remove(ctx context.Context, id string) error {
	return l.update(ctx, func(entries []listEntry) []listEntry {
		return slices.DeleteFunc(entries, func(e listEntry) bool { return e.ID == id })
	})
}

// prune is what a reader does: it drops what is past the TTL or replaced by a newer run of its sub-key.
func (l *sharedList) prune(ctx context.Context) error {
	return l.update(ctx, func(entries []listEntry) []listEntry {
		newest := make(map[string]time.Time)
		for _, e := range entries {
			if e.StartedAt.After(newest[e.Subkey]) {
				newest[e.Subkey] = e.StartedAt
			}
		}
		return slices.DeleteFunc(entries, func(e listEntry) bool {
			return l.now().Sub(e.LastSeen) > l.ttl || e.StartedAt.Before(newest[e.Subkey])
		})
	})
}
