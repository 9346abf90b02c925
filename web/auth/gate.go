package auth

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/time/rate"
)

// Sentinels of Authenticate.
var (
	// ErrNoToken: the request shows none.
	ErrNoToken = errors.New("auth: no token")
	// ErrToken: the token is none of ours, or of the issuer's.
	ErrToken = errors.New("auth: the token is not known")
	// ErrExpired: the token was good, and is over.
	ErrExpired = errors.New("auth: the token has expired")
	// ErrIssuer: whether the token is the issuer's cannot be found out now.
	ErrIssuer = errors.New("auth: the issuer does not tell its keys")
)

// MaxToken is the most bytes that a token may have.
const MaxToken = 8 << 10

// Config is whom a Gate lets in.
type Config struct {
	Tokens []Token
	OIDC   *OIDC // nil: JWTs are not taken
	Rate   Rate
}

// Rate is how much may be asked for. Zero fields mean the defaults.
type Rate struct {
	PerSecond         int // requests of a principal; default 200
	Burst             int // of those at once; default twice as many
	FailuresPerMinute int // to sign in, of a peer; default 60, and as many at once
}

const (
	defaultPerSecond = 200
	defaultFailures  = 60
)

// Options of New; nil and zero fields mean the defaults.
type Options struct {
	// Now is the host's clock, default time.Now.
	Now func() time.Time
	// Transport asks the issuer, default one of net/http's.
	Transport http.RoundTripper
	// Log takes why an issuer could not be asked; default: nothing is logged.
	Log *slog.Logger
}

// A Gate tells who a caller is, and how much they may ask for. It is safe for concurrent use.
type Gate struct {
	tokens     []Token
	principals []*Principal // of tokens
	issuer     *issuer      // nil: there is none
	now        func() time.Time
	rates      allowances // by principal
	failures   allowances // by peer

	mu   sync.Mutex // guards seen
	seen memory[Hash, seenToken]
}

// A seenToken is a JWT that was good.
type seenToken struct {
	principal *Principal
	until     time.Time
}

// seenLife is how long a JWT that was good is taken without looking at its signature again.
const seenLife = 5 * time.Minute

// New returns a gate, which is to be closed. It asks nothing of the issuer. Its errors say what is wrong with the
// configuration, and what to do.
func New(cfg Config, opt *Options) (*Gate, error) {
	var o Options
	if opt != nil {
		o = *opt
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if len(cfg.Tokens) == 0 && cfg.OIDC == nil {
		return nil, errors.New("auth: it names neither tokens nor an oidc issuer, so that nobody could sign in; give one of them")
	}
	g := &Gate{tokens: cfg.Tokens, now: o.Now}
	names, hashes := make(map[string]bool), make(map[Hash]string)
	for i, t := range cfg.Tokens {
		err := t.check()
		if other, twice := hashes[t.Hash]; err == nil && twice {
			err = fmt.Errorf("auth: it has the hash of %q; make a token for each", other)
		}
		if err == nil && names[t.Name] {
			err = errors.New("auth: another one has this name; give each its own, so that the log can tell them apart")
		}
		if err != nil {
			return nil, fmt.Errorf("tokens[%d] (%.100q): %w", i, t.Name, err)
		}
		names[t.Name], hashes[t.Hash] = true, t.Name
		g.principals = append(g.principals, &Principal{
			Name: t.Name, Grants: t.Grants, Expires: t.Expires, limit: "token " + t.Name,
		})
	}
	if err := g.setRates(cfg.Rate); err != nil {
		return nil, err
	}
	if cfg.OIDC != nil {
		var err error
		if g.issuer, err = newIssuer(*cfg.OIDC, o); err != nil {
			return nil, fmt.Errorf("oidc: %w", err)
		}
	}
	return g, nil
}

func (g *Gate) setRates(r Rate) error {
	if r.PerSecond < 0 || r.Burst < 0 || r.FailuresPerMinute < 0 {
		return errors.New("auth: a rate is less than nothing; give a whole number from 1 on, or leave it out for the default")
	}
	if r.PerSecond == 0 {
		r.PerSecond = defaultPerSecond
	}
	if r.Burst == 0 {
		r.Burst = 2 * r.PerSecond
	}
	if r.FailuresPerMinute == 0 {
		r.FailuresPerMinute = defaultFailures
	}
	g.rates.every, g.rates.burst = rate.Limit(r.PerSecond), r.Burst
	g.failures.every, g.failures.burst = rate.Limit(r.FailuresPerMinute)/60, r.FailuresPerMinute
	return nil
}

// Close ends what is being asked of the issuer, and waits for it.
func (g *Gate) Close() {
	if g.issuer != nil {
		g.issuer.keys.close()
	}
}

// IssuerErr is why the issuer's keys are not known, for who wants to tell; nil where they are, or were not needed yet. It asks
// nothing.
func (g *Gate) IssuerErr() error {
	if g.issuer == nil {
		return nil
	}
	return g.issuer.keys.state()
}

// Bearer returns the token of an Authorization header (RFC 6750, section 2.1): ErrNoToken where there is no such header,
// ErrToken where it is of another form.
func Bearer(h http.Header) (string, error) {
	fields := h.Values("Authorization")
	if len(fields) == 0 {
		return "", ErrNoToken
	}
	scheme, token, _ := strings.Cut(fields[0], " ")
	token = strings.Trim(token, " ")
	if len(fields) > 1 || !strings.EqualFold(scheme, "Bearer") || !sendable(token) {
		return "", ErrToken
	}
	return token, nil
}

// sendable reports whether a text may be a token: the characters that RFC 6750 allows, and not too many.
func sendable(token string) bool {
	return token != "" && len(token) <= MaxToken && !strings.ContainsFunc(token, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._~+/=", r))
	})
}

// Authenticate returns whom the token of a peer (an address with its port) stands for. Its errors are ErrToken, ErrExpired,
// ErrIssuer and a *LimitError; none of them tells of the token.
func (g *Gate) Authenticate(ctx context.Context, peer, token string) (*Principal, error) {
	now := g.now()
	if !sendable(token) {
		return nil, ErrToken
	}
	hash := HashOf(token)
	if p := g.static(hash); p != nil {
		if over(p, now) {
			return nil, ErrExpired
		}
		return p, nil
	}
	if p := g.remembered(hash, now); p != nil {
		return p, nil
	}
	if g.issuer != nil && strings.Count(token, ".") == 2 {
		// Before the failures of its peer count: behind a proxy all are one peer, and whoever fails on purpose must not lock out those
		// who show a good JWT for the first time. What is wrong with most others is found without a key.
		p, err := g.issuer.verify(ctx, token)
		switch {
		case err == nil:
			g.remember(hash, p, now)
			return p, nil
		case errors.Is(err, ErrIssuer), errors.Is(err, ErrExpired), ctx.Err() != nil:
			return nil, err // that was no guess
		}
	}
	if wait := g.failures.take(peerOf(peer), now); wait > 0 {
		return nil, &LimitError{After: wait, Guesses: true}
	}
	return nil, ErrToken
}

// static looks at every token, so that how long it takes tells nothing of them.
func (g *Gate) static(hash Hash) *Principal {
	found := -1
	for i := range g.tokens {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(g.tokens[i].Hash[:], hash[:]), i, found)
	}
	if found < 0 {
		return nil
	}
	return g.principals[found]
}

func over(p *Principal, now time.Time) bool { return !p.Expires.IsZero() && !now.Before(p.Expires) }

func (g *Gate) remembered(hash Hash, now time.Time) *Principal {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, ok := g.seen.get(hash)
	if ok && (!now.Before(s.until) || over(s.principal, now)) {
		g.seen.drop(hash)
		ok = false
	}
	if !ok {
		return nil
	}
	return s.principal
}

func (g *Gate) remember(hash Hash, p *Principal, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen.put(hash, seenToken{p, now.Add(seenLife)})
}

// Admit counts one request of a principal. Its error is a *LimitError.
func (g *Gate) Admit(p *Principal) error {
	if wait := g.rates.take(p.limit, g.now()); wait > 0 {
		return &LimitError{After: wait}
	}
	return nil
}

// readable reports whether a name can be shown and logged as it is.
func readable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}
