package prune

import (
	"fmt"
	"time"

	"github.com/blobindex/indexd/blobindex/itemid"
)

// Defaults of Rules.
const (
	DefaultTTL          = 2 * time.Hour
	DefaultLateAfter    = 3 * time.Minute // three heartbeats of 60 s
	DefaultSkew         = 60 * time.Second
	DefaultListingLimit = 2 * time.Minute
)

// Rules are what every reader and pruner of one index must agree on. The zero value means the defaults.
type Rules struct {
	Grammar itemid.Grammar
	// TTL is the age of the latest sighting past which an item is stale.
	TTL time.Duration
	// LateAfter is the age of the latest sighting past which an item that ever sent a heartbeat is late.
	LateAfter time.Duration
	// Skew is how far apart the clocks of producers and store may be.
	Skew time.Duration
	// ListingLimit is the longest time that a listing of a namespace may take and still count as complete.
	ListingLimit time.Duration
}

// WithDefaults returns r with its zero fields set, or an error that says which field makes no sense.
func (r Rules) WithDefaults() (Rules, error) {
	set := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	set(&r.TTL, DefaultTTL)
	set(&r.LateAfter, DefaultLateAfter)
	set(&r.Skew, DefaultSkew)
	set(&r.ListingLimit, DefaultListingLimit)
	for _, f := range []struct {
		name string
		d    time.Duration
	}{{"ttl", r.TTL}, {"late_after", r.LateAfter}, {"skew", r.Skew}, {"listing_limit", r.ListingLimit}} {
		if f.d < 0 || f.d > maxDuration {
			return Rules{}, fmt.Errorf("prune: %s is %v; it must be more than 0 and at most %v", f.name, f.d, maxDuration)
		}
	}
	if _, err := itemid.ParseGrammar(r.Grammar.String()); err != nil {
		return Rules{}, fmt.Errorf("prune: %w", err)
	}
	if r.Skew >= r.TTL {
		return Rules{}, fmt.Errorf("prune: skew is %v and ttl %v; the skew must be the smaller one", r.Skew, r.TTL)
	}
	return r, nil
}

// maxDuration keeps sums of instants and durations far from the ends of the number range.
const maxDuration = 10 * 365 * 24 * time.Hour
