package blobindex

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"hash/maphash"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/blobindex/indexd/blobindex/bucket"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/prune"
)

// Defaults of Config and Options.
const (
	DefaultPrefix      = "_active_runs"
	DefaultName        = "running"
	DefaultCards       = 8
	DefaultBudget      = 64
	DefaultMaxListings = 8
	DefaultMaxResolves = 32
)

// A Config says where an index is and by which rules it is read. The zero value is the default index.
type Config struct {
	Name   string // as people call it, default "running"
	Prefix string // where it is in the bucket, default "_active_runs"
	Flat   bool   // it has no namespaces: items lie at <prefix>/<id>
	// Rules are what it is read by, unless others are saved in the bucket (Options.Shared). The zero fields are those that
	// nobody chose: the defaults stand in for them, and they differ from nothing that is saved. The zero grammar, epoch, was
	// chosen if GrammarGiven says so.
	Rules        prune.Rules
	GrammarGiven bool
}

// Options of New; nil and zero fields mean the defaults.
type Options struct {
	// Resolver tells what has become of an item; nil means that the listing alone decides.
	Resolver Resolver
	// Cards is how many cards a view has where the request does not say; default 8, at most MaxCards.
	Cards int
	// Budget is the most requests that a resolver may make for one view; default 64.
	Budget int
	// Limits bound what goes on at once; the indexes of one process should share them. Nil means bounds of its own.
	Limits *Limits
	// Shared is how the index gets at the rules that are saved in the bucket; nil means that it goes by its own. Who reads or
	// deletes without it, beside others who have other rules, shows and deletes what they do not.
	Shared *Sharing
	// Sweeper takes what readers find to be over; nil means that reading deletes nothing.
	Sweeper *Sweeper
	// Now is the host's clock, default time.Now; Rand the source of the random digits of minted ids, default
	// crypto/rand.
	Now  func() time.Time
	Rand io.Reader
	// Log takes what goes wrong without failing a call; default: nothing is logged.
	Log *slog.Logger
}

// An Index is one marker index in a bucket. It is safe for concurrent use.
type Index struct {
	objects  bucket.Objects
	name     string
	prefix   string
	flat     bool
	rules    prune.Rules // its own
	given    givenRules
	resolver Resolver
	cards    int
	budget   int
	sweeper  *Sweeper
	now      func() time.Time
	rand     io.Reader
	log      *slog.Logger

	clock  clock
	book   *rulebook
	limits *Limits
	beats  tracker
	views  viewCache
	seed   maphash.Seed // of the fingerprints of listings

	mu     sync.Mutex
	dead   map[string]map[string]bool // namespace to ids, of which a key was still listed
	minted map[string]time.Time       // sub-key to the time of the id minted last, lately
}

// New returns the index that cfg describes. It makes no request.
func New(objects bucket.Objects, cfg Config, opt *Options) (*Index, error) {
	if opt == nil {
		opt = &Options{}
	}
	rules, err := cfg.Rules.WithDefaults()
	if err != nil {
		return nil, err
	}
	if err := CheckName(cmp.Or(cfg.Name, DefaultName)); err != nil {
		return nil, err
	}
	prefix, err := CleanPrefix(cmp.Or(cfg.Prefix, DefaultPrefix))
	if err != nil {
		return nil, err
	}
	if opt.Cards < 0 || opt.Cards > MaxCards || opt.Budget < 0 {
		return nil, fmt.Errorf("%w: cards is %d and the budget %d; neither may be negative, and cards at most %d", ErrRequest,
			opt.Cards, opt.Budget, MaxCards)
	}
	x := &Index{
		objects: objects, name: cmp.Or(cfg.Name, DefaultName), prefix: prefix, flat: cfg.Flat, rules: rules,
		resolver: opt.Resolver, cards: cmp.Or(opt.Cards, DefaultCards), budget: cmp.Or(opt.Budget, DefaultBudget), sweeper: opt.Sweeper,
		now: opt.Now, rand: opt.Rand, log: opt.Log,
		given: givenRules{
			grammar: cfg.GrammarGiven || cfg.Rules.Grammar != itemid.Epoch, ttl: cfg.Rules.TTL != 0,
			lateAfter: cfg.Rules.LateAfter != 0, skew: cfg.Rules.Skew != 0,
		},
		limits: opt.Limits, seed: maphash.MakeSeed(), dead: make(map[string]map[string]bool), minted: make(map[string]time.Time),
	}
	if x.limits == nil {
		x.limits = NewLimits(0, 0)
	}
	if x.now == nil {
		x.now = time.Now
	}
	if x.rand == nil {
		x.rand = rand.Reader
	}
	if x.log == nil {
		x.log = slog.New(slog.DiscardHandler)
	}
	if x.book, err = newRulebook(x, opt.Shared); err != nil {
		return nil, err
	}
	return x, nil
}

// Name is what people call the index.
func (x *Index) Name() string { return x.name }

// Prefix is where the index is in the bucket.
func (x *Index) Prefix() string { return x.prefix }

// Flat tells whether the index has no namespaces.
func (x *Index) Flat() bool { return x.flat }

// Rules are the rules that the index goes by as far as is known without asking: the saved ones once they have been read,
// else its own with the defaults filled in. Register, Heartbeat and Finish go by these.
func (x *Index) Rules() prune.Rules { return x.book.rules() }

// ParseID reads an id of the index. Only where the grammar that is known refuses it, and another one takes it, which may be
// saved, it reads the shared rules: at most 1 GET. Errors: itemid.ErrInvalid.
func (x *Index) ParseID(ctx context.Context, text string) (itemid.ID, error) {
	id, err := x.Rules().Grammar.Parse(text)
	if err == nil || x.book.doc == nil || !itemid.Parses(text) {
		return id, err
	}
	r, _, readErr := x.book.consult(ctx, false)
	if readErr != nil {
		return itemid.ID{}, err
	}
	return x.book.ruling(r).Rules.Grammar.Parse(text)
}

// A Namespace is one team's part of an index, or the whole of a flat one. It is safe for concurrent use.
type Namespace struct {
	x      *Index
	name   string
	prefix string // of its keys, with the slash at the end
}

// Namespace returns the namespace of that name; for a flat index the only one is FlatNamespace. It makes no request,
// and a namespace exists as soon as something is registered in it.
func (x *Index) Namespace(name string) (*Namespace, error) {
	if x.flat {
		if name != FlatNamespace {
			return nil, fmt.Errorf("%w: the index %q is flat and has no namespace %.80q; leave the namespace out, or give %q",
				ErrName, x.name, name, FlatNamespace)
		}
		return &Namespace{x: x, name: name, prefix: x.prefix + "/"}, nil
	}
	if err := CheckName(name); err != nil {
		return nil, err
	}
	return &Namespace{x: x, name: name, prefix: x.prefix + "/" + name + "/"}, nil
}

// Index is the index that the namespace is a part of.
func (n *Namespace) Index() *Index { return n.x }

// Name is the namespace's name.
func (n *Namespace) Name() string { return n.name }

func (n *Namespace) key(name string) bucket.Key { return bucket.Key(n.prefix + name) }

// HostNow reads the host's clock.
func (x *Index) HostNow() time.Time { return x.now() }

// StoreNow is the store's clock as far as this Index knows it, zero if it does not: the store's last answer, run on by the
// time elapsed on the host since. It is fresh if that answer is no more than five minutes old.
func (x *Index) StoreNow() (now time.Time, fresh bool) { return x.clock.now(x.now()) }
