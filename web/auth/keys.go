package auth

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

// Of the keys of an issuer.
const (
	keysLife  = 10 * time.Minute // then they are asked for again
	keysGrace = time.Hour        // for which they hold while the issuer does not answer
	keysPause = 10 * time.Second // between two requests for them
	keysTime  = 10 * time.Second // that asking takes at the most
	maxKeys   = 100
	maxAnswer = 1 << 20 // bytes of an answer of the issuer
	leastRSA  = 2048    // bits
)

// keys are those of an issuer. go-oidc has a set of keys too, which asks the issuer for each token that it cannot check, and
// keeps a key that was withdrawn until that happens.
type keys struct {
	issuer string
	client *http.Client
	now    func() time.Time
	log    *slog.Logger
	ctx    context.Context // of what is asked
	stop   context.CancelFunc
	asking sync.WaitGroup

	mu    sync.Mutex        // guards what follows
	set   []jose.JSONWebKey // not changed in place
	read  time.Time         // when set was; zero: never
	asked time.Time         // when the issuer was asked last
	going *asked            // nil: it is not being asked
	err   error             // of asking last
}

// An asked is one request for the keys. Its err is set before done is closed.
type asked struct {
	done chan struct{}
	err  error
}

func newKeys(issuer string, o Options) *keys {
	k := &keys{issuer: issuer, now: o.Now, log: o.Log}
	k.ctx, k.stop = context.WithCancel(context.Background())
	transport := o.Transport
	if transport == nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.MaxResponseHeaderBytes = maxAnswer
		transport = own
	}
	k.client = &http.Client{
		Transport: bounded{transport}, Timeout: keysTime,
		// Another place than the issuer's own does not speak for it.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return k
}

func (k *keys) close() {
	k.stop()
	k.asking.Wait()
	k.client.CloseIdleConnections()
}

func (k *keys) state() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// verify returns the payload of a JWT if a key of the issuer has signed it; else ErrToken, or ErrIssuer where that cannot be
// told.
func (k *keys) verify(ctx context.Context, jws *jose.JSONWebSignature) ([]byte, error) {
	set, read, err := k.current(ctx)
	if err != nil {
		return nil, err
	}
	payload, known := checkSignature(set, jws)
	if payload == nil && !known {
		if set, err = k.newer(ctx, read); err != nil {
			return nil, err
		}
		payload, _ = checkSignature(set, jws)
	}
	if payload == nil {
		return nil, ErrToken
	}
	return payload, nil
}

// checkSignature returns the payload if a key has signed it, and else whether there is the key that the JWT names: then
// another set would not help.
func checkSignature(set []jose.JSONWebKey, jws *jose.JSONWebSignature) (payload []byte, known bool) {
	header := jws.Signatures[0].Header
	for _, key := range set {
		if header.KeyID != "" && key.KeyID != header.KeyID {
			continue
		}
		known = known || header.KeyID != ""
		if key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		if payload, err := jws.Verify(key.Key); err == nil {
			return payload, true
		}
	}
	return nil, known
}

// current returns the keys, and when they were read. Old ones are asked for again, which nobody waits for as long as they hold.
func (k *keys) current(ctx context.Context) ([]jose.JSONWebKey, time.Time, error) {
	k.mu.Lock()
	now := k.now()
	age := now.Sub(k.read)
	set, read, holds := k.set, k.read, !k.read.IsZero() && age < keysGrace
	var a *asked
	if !holds || age >= keysLife {
		a = k.ask(now)
	}
	k.mu.Unlock()
	if holds {
		return set, read, nil
	}
	if a == nil {
		return nil, read, ErrIssuer // it was asked just now, and did not answer
	}
	if err := a.wait(ctx); err != nil {
		return nil, read, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.set, k.read, nil
}

// newer returns keys that were read after the ones in hand, if the issuer may be asked for them.
func (k *keys) newer(ctx context.Context, read time.Time) ([]jose.JSONWebKey, error) {
	k.mu.Lock()
	if k.read.After(read) {
		defer k.mu.Unlock()
		return k.set, nil
	}
	a := k.ask(k.now())
	k.mu.Unlock()
	if a == nil {
		return nil, ErrToken
	}
	if err := a.wait(ctx); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.set, nil
}

// ask asks the issuer, and goes on when whoever wanted the keys has left; nil if it was asked within keysPause. Its caller
// holds mu.
func (k *keys) ask(now time.Time) *asked {
	if k.going != nil {
		return k.going
	}
	if !k.asked.IsZero() && now.Sub(k.asked) < keysPause || k.ctx.Err() != nil {
		return nil
	}
	a := &asked{done: make(chan struct{})}
	k.going, k.asked = a, now
	k.asking.Go(func() {
		set, err := k.fetch()
		k.mu.Lock()
		defer k.mu.Unlock()
		k.going, k.err, a.err = nil, err, err
		if err == nil {
			k.set, k.read = set, now
		} else if k.ctx.Err() == nil {
			k.log.Warn("reading the keys of the issuer failed", "issuer", k.issuer, "error", err)
		}
		close(a.done)
	})
	return a
}

func (a *asked) wait(ctx context.Context) error {
	select {
	case <-a.done:
		if a.err != nil {
			return ErrIssuer
		}
		return nil
	case <-ctx.Done():
		return ErrIssuer
	}
}

// fetch reads the issuer's description of itself (OpenID Connect Discovery 1.0), and its keys (RFC 7517).
func (k *keys) fetch() ([]jose.JSONWebKey, error) {
	ctx, cancel := context.WithTimeout(k.ctx, keysTime)
	defer cancel()
	p, err := oidc.NewProvider(oidc.ClientContext(ctx, k.client), k.issuer)
	if err != nil {
		return nil, fmt.Errorf("discovering the issuer: %.300s", err) // cut: it may repeat all of an answer
	}
	var about struct {
		Keys string `json:"jwks_uri"`
	}
	if err := p.Claims(&about); err != nil {
		return nil, fmt.Errorf("reading what the issuer says of itself: %w", err)
	}
	u, err := url.Parse(about.Keys)
	if err != nil || !trusted(u) {
		return nil, fmt.Errorf("auth: the issuer's keys are at %.200q, which is no https URL", about.Keys)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, about.Keys, nil)
	if err != nil {
		return nil, fmt.Errorf("asking for the issuer's keys: %w", err)
	}
	res, err := k.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking for the issuer's keys: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("auth: the issuer answers %d to who asks for its keys", res.StatusCode)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the issuer's keys: %w", err)
	}
	return parseKeys(body)
}

// parseKeys returns the keys of a set that can check signatures. Others, and such as are not known here, are left out: an
// issuer may have any.
func parseKeys(body []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, fmt.Errorf("reading the issuer's keys: %w", err)
	}
	var all []jose.JSONWebKey
	for _, raw := range set.Keys[:min(len(set.Keys), maxKeys)] {
		var key jose.JSONWebKey
		if json.Unmarshal(raw, &key) != nil || !key.Valid() || !key.IsPublic() || !slices.Contains([]string{"", "sig"}, key.Use) {
			continue
		}
		if r, ok := key.Key.(*rsa.PublicKey); ok && r.N.BitLen() < leastRSA {
			continue
		}
		all = append(all, key)
	}
	if len(all) == 0 {
		return nil, errors.New("auth: the issuer tells no key that can be used")
	}
	return all, nil
}

// bounded ends answers that are longer than anything an issuer has to say.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	res.Body = http.MaxBytesReader(nil, res.Body, maxAnswer)
	return res, nil
}

// CloseIdleConnections is for http.Client.
func (b bounded) CloseIdleConnections() {
	if c, ok := b.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
