package main

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/web"
	"github.com/blobindex/indexd/web/auth"
)

// authSettings are who may do what over HTTP, in the configuration file alone: what stands there for a token is its hash, and
// an environment or a command line is no place for either.
//
//	tokens:
//	  - name: ci
//	    sha256: 5f1d…             # of "indexd token new"
//	    expires: "2027-03-01T00:00:00Z"
//	    grants: [{role: producer, index: running, namespace: team}]
//	oidc:
//	  issuer: https://id.example
//	  audience: indexd
//	  algorithms: [RS256, ES256]
//	  name_claim: sub
//	  grants: [{claim: groups, value: team-a, role: producer, index: running, namespace: team}]
//	rate: {per_second: 200, burst: 400, failures_per_minute: 60}
type authSettings struct {
	Tokens []tokenSettings `koanf:"tokens" give:"a list of tokens" each:"a mapping with name, sha256 and grants"`
	OIDC   *oidcSettings   `koanf:"oidc" give:"a mapping with issuer, audience and grants"`
	Rate   rateSettings    `koanf:"rate" give:"a mapping such as {per_second: 200}"`
}

type tokenSettings struct {
	Name    string          `koanf:"name" give:"a text such as ci"`
	SHA256  string          `koanf:"sha256" give:"the hash that \"indexd token new\" tells, in quotes"`
	Expires *string         `koanf:"expires" give:"an instant in quotes, such as \"2027-03-01T00:00:00Z\""`
	Grants  []grantSettings `koanf:"grants" give:"a list of grants" each:"a mapping such as {role: reader, index: running, namespace: team}"`
}

type grantSettings struct {
	Role      string `koanf:"role" give:"reader, producer, janitor or admin"`
	Index     string `koanf:"index" give:"a text such as running, or \"*\" for all"`
	Namespace string `koanf:"namespace" give:"a text such as team, or \"*\" for all"`
}

type oidcSettings struct {
	Issuer     string          `koanf:"issuer" give:"a URL such as https://id.example"`
	Audience   string          `koanf:"audience" give:"a text such as indexd"`
	Algorithms []string        `koanf:"algorithms" give:"a list of algorithms" each:"a text such as RS256"`
	NameClaim  string          `koanf:"name_claim" give:"a text such as sub"`
	Grants     []claimSettings `koanf:"grants" give:"a list of grants" each:"a mapping such as {claim: groups, value: team-a, role: reader, index: running, namespace: team}"`
}

type claimSettings struct {
	Claim     string `koanf:"claim" give:"a text such as groups"`
	Value     string `koanf:"value" give:"a text such as team-a"`
	Role      string `koanf:"role" give:"reader, producer, janitor or admin"`
	Index     string `koanf:"index" give:"a text such as running, or \"*\" for all"`
	Namespace string `koanf:"namespace" give:"a text such as team, or \"*\" for all"`
}

type rateSettings struct {
	PerSecond         int `koanf:"per_second" give:"a whole number such as 200"`
	Burst             int `koanf:"burst" give:"a whole number such as 400"`
	FailuresPerMinute int `koanf:"failures_per_minute" give:"a whole number such as 60"`
}

// gate returns who may come in over HTTP; nil where the configuration does not say, so that only this host may. It makes no
// request. Every error is a usage error.
func (s *settings) gate(indexes []*blobindex.Index, log *slog.Logger) (*auth.Gate, error) {
	for _, o := range s.Origins {
		if err := web.CheckOrigin(o); err != nil {
			return nil, usagef("cors_origins in the configuration: %w", err)
		}
	}
	if s.PublicURL != "" {
		if err := web.CheckOrigin(s.PublicURL); err != nil {
			return nil, usagef("public_url in the configuration: %w", err)
		}
		if s.Auth == nil {
			return nil, usagef("public_url in the configuration: there is no authentication, so that everybody would be let in; " +
				"configure auth, or remove it")
		}
	}
	if s.Auth == nil {
		return nil, nil
	}
	cfg, err := s.Auth.config(indexes)
	if err != nil {
		return nil, usagef("auth in the configuration: %w", err)
	}
	g, err := auth.New(cfg, &auth.Options{Log: log})
	if err != nil {
		return nil, usagef("auth in the configuration: %w", err)
	}
	return g, nil
}

// issuerErr tells whether the gate's issuer answers; nil where no JWTs are taken.
func (s *settings) issuerErr(gate *auth.Gate) func() error {
	if s.Auth == nil || s.Auth.OIDC == nil {
		return nil
	}
	return gate.IssuerErr
}

func (a *authSettings) config(indexes []*blobindex.Index) (auth.Config, error) {
	cfg := auth.Config{Rate: auth.Rate(a.Rate)}
	for i, t := range a.Tokens {
		token, err := t.token(indexes)
		if err != nil {
			return cfg, fmt.Errorf("tokens[%d] (%.100q): %w", i, t.Name, err)
		}
		cfg.Tokens = append(cfg.Tokens, token)
	}
	if a.OIDC == nil {
		return cfg, nil
	}
	cfg.OIDC = &auth.OIDC{
		Issuer: a.OIDC.Issuer, Audience: a.OIDC.Audience, Algorithms: a.OIDC.Algorithms, NameClaim: a.OIDC.NameClaim,
	}
	for i, g := range a.OIDC.Grants {
		grant, err := (&grantSettings{g.Role, g.Index, g.Namespace}).grant(indexes)
		if err != nil {
			return cfg, fmt.Errorf("oidc: grants[%d]: %w", i, err)
		}
		cfg.OIDC.Grants = append(cfg.OIDC.Grants, auth.ClaimGrant{Claim: g.Claim, Value: g.Value, Grant: grant})
	}
	return cfg, nil
}

func (t *tokenSettings) token(indexes []*blobindex.Index) (token auth.Token, err error) {
	token.Name = t.Name
	if token.Hash, err = auth.ParseHash(t.SHA256); err != nil {
		return token, fmt.Errorf("sha256: %w", err)
	}
	if t.Expires != nil {
		if token.Expires, err = time.Parse(time.RFC3339, *t.Expires); err != nil {
			return token, fmt.Errorf("expires is %.40q; give an instant such as \"2027-03-01T00:00:00Z\"", *t.Expires)
		}
	}
	for i, g := range t.Grants {
		grant, err := g.grant(indexes)
		if err != nil {
			return token, fmt.Errorf("grants[%d]: %w", i, err)
		}
		token.Grants = append(token.Grants, grant)
	}
	return token, nil
}

// grant refuses an index that is not configured as well: a slip there would look like a wall.
func (g *grantSettings) grant(indexes []*blobindex.Index) (auth.Grant, error) {
	grant := auth.Grant{Role: auth.Role(g.Role), Index: g.Index, Namespace: g.Namespace}
	if err := grant.Check(); err != nil {
		return grant, err
	}
	if g.Index != auth.All && !slices.ContainsFunc(indexes, func(x *blobindex.Index) bool { return x.Name() == g.Index }) {
		return grant, fmt.Errorf("there is no index %.80q; give one of those that are configured, or \"*\" for all", g.Index)
	}
	return grant, nil
}
