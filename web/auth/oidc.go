package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

// OIDC is an OpenID Connect issuer whose JWTs are taken.
type OIDC struct {
	// Issuer is what its JWTs name as iss; its keys are found from there.
	Issuer string
	// Audience is what its JWTs must have among aud, so that one that was made for another service opens nothing here.
	Audience string
	// Algorithms are those of the signatures that are taken, default RS256 and ES256.
	Algorithms []string
	// NameClaim is the claim that names the principal, default sub.
	NameClaim string
	// Grants are what claims give.
	Grants []ClaimGrant
}

// A ClaimGrant is given to whose JWT has a claim of that value, or a list that holds it.
type ClaimGrant struct {
	Claim, Value string
	Grant
}

// Leeway is how far nbf may lie ahead: the clock of an issuer is not ours.
const Leeway = time.Minute

// signatures are the algorithms that may be configured: with all of them, who can check cannot sign.
var signatures = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// check returns an error that says what is wrong, and what to do; it sets the defaults.
func (o *OIDC) check() error {
	if err := checkIssuer(o.Issuer); err != nil {
		return err
	}
	if o.Audience == "" {
		return errors.New("auth: it has no audience; without one a token that was made for any other service would be taken here; give what " +
			"its tokens have in aud")
	}
	if len(o.Algorithms) == 0 {
		o.Algorithms = []string{string(jose.RS256), string(jose.ES256)}
	}
	for _, a := range o.Algorithms {
		if !slices.Contains(signatures, jose.SignatureAlgorithm(a)) {
			return fmt.Errorf("auth: the algorithm %.40q is not taken: whoever can check its signatures could make them, or it is not "+
				"known; choose among %v", a, signatures)
		}
	}
	if o.NameClaim == "" {
		o.NameClaim = "sub"
	}
	if len(o.Grants) == 0 {
		return errors.New("auth: it has no grants, so that its tokens let nobody do anything; give one, such as " +
			"{claim: groups, value: team-a, role: producer, index: running, namespace: team}")
	}
	for i, g := range o.Grants {
		err := g.Check()
		if g.Claim == "" || g.Value == "" {
			err = errors.New("auth: it names no claim, or no value of one; give both, such as {claim: groups, value: team-a}")
		}
		if err != nil {
			return fmt.Errorf("grants[%d]: %w", i, err)
		}
	}
	return nil
}

func checkIssuer(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || !trusted(u) {
		return fmt.Errorf("auth: the issuer %.200q is none that can be used; give its https URL as its tokens name it in iss, without "+
			"a query (http does on a loopback address alone)", text)
	}
	return nil
}

// trusted reports whether what is read from a URL cannot be changed on the way.
func trusted(u *url.URL) bool {
	if u.Scheme != "http" {
		return u.Scheme == "https"
	}
	a, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && a.IsLoopback()
}

// An issuer checks JWTs.
type issuer struct {
	OIDC
	keys *keys
	now  func() time.Time
	log  *slog.Logger
}

func newIssuer(cfg OIDC, o Options) (*issuer, error) {
	cfg.Algorithms, cfg.Grants = slices.Clone(cfg.Algorithms), slices.Clone(cfg.Grants)
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return &issuer{OIDC: cfg, keys: newKeys(cfg.Issuer, o), now: o.Now, log: o.Log}, nil
}

// verify returns whom a JWT stands for. What can be refused without a key is refused first.
func (i *issuer) verify(ctx context.Context, token string) (*Principal, error) {
	var algorithms []jose.SignatureAlgorithm
	for _, a := range i.Algorithms {
		algorithms = append(algorithms, jose.SignatureAlgorithm(a))
	}
	jws, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil || len(jws.Signatures) != 1 {
		return nil, ErrToken
	}
	if _, err := i.claims(ctx, token, jws.UnsafePayloadWithoutVerification()); err != nil {
		// That it is over is known to be true only of what the issuer has signed.
		if !errors.Is(err, ErrExpired) {
			return nil, ErrToken
		}
	}
	payload, err := i.keys.verify(ctx, jws)
	if err != nil {
		return nil, err
	}
	claims, err := i.claims(ctx, token, payload)
	if err != nil {
		return nil, err
	}
	return i.principal(claims)
}

// claims checks what a JWT says of itself.
func (i *issuer) claims(ctx context.Context, token string, payload []byte) (*oidc.IDToken, error) {
	v := oidc.NewVerifier(i.Issuer, signed(payload), &oidc.Config{
		ClientID: i.Audience, SupportedSigningAlgs: i.Algorithms, Now: i.now,
	})
	t, err := v.Verify(ctx, token)
	if _, ok := errors.AsType[*oidc.TokenExpiredError](err); ok {
		return nil, ErrExpired
	}
	if err != nil {
		return nil, ErrToken
	}
	// go-oidc gives five minutes.
	var times struct {
		NotBefore float64 `json:"nbf"`
	}
	if err := t.Claims(&times); err != nil || float64(i.now().Add(Leeway).Unix()) < times.NotBefore {
		return nil, ErrToken
	}
	return t, nil
}

// signed is a payload of which the signature is checked elsewhere.
type signed []byte

func (s signed) VerifySignature(context.Context, string) ([]byte, error) { return s, nil }

func (i *issuer) principal(t *oidc.IDToken) (*Principal, error) {
	var claims map[string]json.RawMessage
	if err := t.Claims(&claims); err != nil {
		return nil, ErrToken
	}
	names := texts(claims[i.NameClaim])
	if t.Subject == "" || len(names) != 1 || names[0] == "" || len(names[0]) > 2*maxName || !readable(names[0]) {
		i.log.Warn("a token names no principal", "claim", i.NameClaim)
		return nil, ErrToken
	}
	p := &Principal{Name: names[0], Issuer: i.Issuer, Expires: t.Expiry, limit: "oidc " + t.Subject}
	for _, g := range i.Grants {
		if slices.Contains(texts(claims[g.Claim]), g.Value) {
			p.Grants = append(p.Grants, g.Grant)
		}
	}
	return p, nil
}

// texts reads a claim that is a text or a list of texts. Nothing else gives anything: a number is no group.
func texts(claim json.RawMessage) []string {
	var one *string
	if json.Unmarshal(claim, &one) == nil && one != nil {
		return []string{*one}
	}
	var list []any
	if json.Unmarshal(claim, &list) != nil {
		return nil
	}
	var all []string
	for _, v := range list {
		if s, ok := v.(string); ok {
			all = append(all, s)
		}
	}
	return all
}
