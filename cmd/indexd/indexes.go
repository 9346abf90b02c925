package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/blobindex/resolve"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/prune"
)

// indexSettings are one index in the configuration file.
//
//   - name: running
//     prefix: _active_runs     # required but for the index running, whose default this is
//     flat: false
//     grammar: epoch           # epoch, ulid, uuidv7, ksuid, subkey_ulid, subkey_uuidv7, subkey_ksuid
//     ttl: 2h
//     late_after: 3m
//     skew: 60s
//     resolver:
//     kind: marker           # none, marker or state
//     template: results/{namespace}/{id}/status.json      # state only
//     requires: [results/{namespace}/{id}/report.html]    # state only
//
// Durations are texts with a unit: a bare number would have to be guessed at.
type indexSettings struct {
	Name      string           `koanf:"name" give:"a text such as running"`
	Prefix    *string          `koanf:"prefix" give:"a text such as _active_runs"`
	Flat      bool             `koanf:"flat" give:"true or false"`
	Grammar   *string          `koanf:"grammar" give:"a text such as epoch"`
	TTL       *string          `koanf:"ttl" give:"a duration with its unit, such as 2h"`
	LateAfter *string          `koanf:"late_after" give:"a duration with its unit, such as 3m"`
	Skew      *string          `koanf:"skew" give:"a duration with its unit, such as 60s"`
	Resolver  resolverSettings `koanf:"resolver" give:"a mapping such as {kind: marker}"`
}

type resolverSettings struct {
	Kind     *string  `koanf:"kind" give:"none, marker or state"`
	Template string   `koanf:"template" give:"a key such as results/{namespace}/{id}/status.json"`
	Requires []string `koanf:"requires" give:"a list of keys" each:"a key such as results/{namespace}/{id}/report.html"`
}

// wiring is what the indexes of one process share.
type wiring struct {
	objects bucket.Objects
	sweeper *blobindex.Sweeper // nil: reading deletes nothing
	limits  *blobindex.Limits  // shared by all indexes; nil: each has its own
	log     *slog.Logger

	rules  cas.Store                              // where the rules are saved
	save   bool                                   // save them where they are not
	usable func(context.Context) error            // whether the store keeps its conditions
	told   func(index string, r blobindex.Ruling) // nil: nobody is told whose rules are gone by
}

// sharing is how an index gets at its saved rules.
func (w *wiring) sharing(index string) *blobindex.Sharing {
	s := &blobindex.Sharing{Store: w.rules, Save: w.save, Usable: w.usable}
	if w.told != nil {
		s.Told = func(r blobindex.Ruling) { w.told(index, r) }
	}
	return s
}

// indexes returns the configured indexes, or the default one. It makes no request. Every error is a usage error.
func (s *settings) indexes(w wiring) ([]*blobindex.Index, error) {
	configured := s.Indexes
	if len(configured) == 0 {
		configured = []indexSettings{{Name: blobindex.DefaultName}}
	}
	var all []*blobindex.Index
	var names, prefixes []string
	for i, c := range configured {
		if c.Name == "" {
			return nil, usagef("in the configuration indexes[%d] has no name; give it one, such as \"name: %s\"", i,
				blobindex.DefaultName)
		}
		x, err := c.index(s, w)
		if err != nil {
			return nil, usagef("index %.80q in the configuration: %w", c.Name, err)
		}
		if slices.Contains(names, x.Name()) {
			return nil, usagef("the configuration has two indexes called %q; give each a name of its own", x.Name())
		}
		all, names, prefixes = append(all, x), append(names, x.Name()), append(prefixes, x.Prefix())
	}
	if err := blobindex.CheckDisjoint(prefixes...); err != nil {
		return nil, &statusError{exitUsage, err}
	}
	for _, c := range configured {
		if err := c.Resolver.checkKeys(c.Name, prefixes); err != nil {
			return nil, usagef("index %.80q in the configuration: %w", c.Name, err)
		}
	}
	return all, nil
}

func (c *indexSettings) index(s *settings, w wiring) (*blobindex.Index, error) {
	cfg := blobindex.Config{Name: c.Name, Flat: c.Flat, GrammarGiven: c.Grammar != nil}
	if err := blobindex.CheckName(c.Name); err != nil {
		return nil, err
	}
	switch {
	case c.Prefix != nil:
		// An empty prefix means the default to New; here somebody wrote it.
		clean, err := blobindex.CleanPrefix(*c.Prefix)
		if err != nil {
			return nil, err
		}
		cfg.Prefix = clean
	case c.Name != blobindex.DefaultName:
		return nil, fmt.Errorf("it has no prefix; say where in the bucket its items are, such as \"prefix: %s\"", c.Name)
	}
	var err error
	if cfg.Rules, err = c.rules(); err != nil {
		return nil, err
	}
	resolver, err := c.Resolver.resolver(w.objects)
	if err != nil {
		return nil, err
	}
	return blobindex.New(w.objects, cfg, &blobindex.Options{
		Resolver: resolver, Cards: s.Cards, Budget: s.Resolves, Sweeper: w.sweeper, Limits: w.limits, Log: w.log,
		Shared: w.sharing(c.Name),
	})
}

// rules returns the rules that are set; the others are zero.
func (c *indexSettings) rules() (r prune.Rules, err error) {
	if c.Grammar != nil {
		if r.Grammar, err = itemid.ParseGrammar(*c.Grammar); err != nil {
			return r, err
		}
	}
	for _, d := range []struct {
		name string
		text *string
		into *time.Duration
	}{{"ttl", c.TTL, &r.TTL}, {"late_after", c.LateAfter, &r.LateAfter}, {"skew", c.Skew, &r.Skew}} {
		if d.text == nil {
			continue
		}
		*d.into, err = time.ParseDuration(*d.text)
		// Nothing and less is refused here: zero would mean that it is not set.
		if err != nil || *d.into < time.Millisecond {
			return r, fmt.Errorf("%s is %.40q; give a duration of 1ms or more with its unit, such as 90s or 2h", d.name,
				*d.text)
		}
	}
	return r, nil
}

func (r *resolverSettings) resolver(objects bucket.Objects) (blobindex.Resolver, error) {
	kind := "marker"
	if r.Kind != nil {
		kind = *r.Kind
	}
	if kind != "state" && (r.Template != "" || len(r.Requires) > 0) {
		return nil, fmt.Errorf("its resolver is of the kind %.40q, which reads neither template nor requires; remove them, "+
			"or set \"kind: state\"", kind)
	}
	switch kind {
	case "none":
		return nil, nil
	case "marker":
		return resolve.NewMarker(objects), nil
	case "state":
		if r.Template == "" {
			return nil, fmt.Errorf("its resolver has no template; give one such as results/{namespace}/{id}/status.json")
		}
		return resolve.NewState(objects, resolve.StateOptions{Template: r.Template, Requires: r.Requires})
	}
	return nil, fmt.Errorf("its resolver is of the kind %.40q; choose none, marker or state", kind)
}

// checkKeys refuses templates of keys where no job can, or should, put its documents: beside the store's own files, or
// among an index's markers.
func (r *resolverSettings) checkKeys(index string, prefixes []string) error {
	for _, template := range append([]string{r.Template}, r.Requires...) {
		key := strings.ReplaceAll(template, "{index}", index) + "/"
		for _, reserved := range append([]string{".indexd", "_indexd"}, prefixes...) {
			if strings.HasPrefix(key, reserved+"/") {
				return fmt.Errorf("its resolver's key %.200q is below %s, which is not for documents; put them elsewhere, such as "+
					"results/{namespace}/{id}/status.json", template, reserved)
			}
		}
	}
	return nil
}

// find returns the index that is named; if none is, the only one there is, or the one with the default name.
func (s *settings) find(all []*blobindex.Index) (*blobindex.Index, error) {
	if s.Index == "" && len(all) == 1 {
		return all[0], nil
	}
	name := cmp.Or(s.Index, blobindex.DefaultName)
	var known []string
	for _, x := range all {
		if x.Name() == name {
			return x, nil
		}
		known = append(known, x.Name())
	}
	return nil, usagef("%w", s.blame("index", fmt.Errorf("there is no index %.80q; choose one with --index or %sINDEX: %s", name,
		envPrefix, strings.Join(known, ", "))))
}
