package web

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/blobindex/indexd/web/auth"
	"github.com/labstack/echo/v4"
)

type callerKey struct{}

func asCaller(ctx context.Context, p *auth.Principal) context.Context {
	return context.WithValue(ctx, callerKey{}, p)
}

// caller is who makes the request that is answered under ctx; nil without authentication, and where nothing was asked of them.
func caller(ctx context.Context) *auth.Principal {
	p, _ := ctx.Value(callerKey{}).(*auth.Principal)
	return p
}

// guard finds out who asks, and whether they may, before the handler of a route is called or its body is read. What the
// handler does ends with the token.
func (s *Server) guard(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		rule, ok := accessTo(reading(c.Request().Method), c.Path())
		if s.opt.Auth == nil || !ok || rule.open {
			return next(c) // without a rule there is no route: what answers is 404, 405 or OPTIONS
		}
		// What is answered depends on who asks, and is nobody else's.
		c.Response().Header().Add("Vary", "Authorization, Cookie")
		p, err := s.authenticate(c)
		if err != nil {
			unread(c)
			if refused, ok := errors.AsType[*problem](err); ok && rule.page && refused.status == http.StatusUnauthorized {
				return toSignIn(c)
			}
			return err
		}
		ctx := asCaller(c.Request().Context(), p)
		if !p.Expires.IsZero() {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, p.Expires.Sub(s.opt.Now()), auth.ErrExpired)
			defer cancel()
		}
		c.SetRequest(c.Request().WithContext(ctx))
		err = s.admit(c, p, rule)
		names := err == nil // who may not has named what is nobody's business
		if err == nil {
			err = next(c)
		} else {
			unread(c)
		}
		if err != nil && get(c) && errors.Is(context.Cause(ctx), auth.ErrExpired) {
			err = s.unauthenticated(auth.ErrExpired)
		}
		s.audit(c, p, names, err)
		return err
	}
}

// unread ends a connection of which the request has a body that nobody wants. Else net/http would read it before it answers,
// and a stranger who sends none would keep a connection until the server's read timeout.
func unread(c echo.Context) {
	if r := c.Request(); r.ContentLength != 0 && r.ProtoMajor == 1 {
		c.Response().Header().Set("Connection", "close")
	}
}

func (s *Server) admit(c echo.Context, p *auth.Principal, rule access) error {
	if err := s.opt.Auth.Admit(p); err != nil {
		return s.unauthenticated(err)
	}
	return rule.allow(s, c, p)
}

// authenticate returns who shows a token, in the Authorization header or else in the cookie. Its error is a problem.
func (s *Server) authenticate(c echo.Context) (*auth.Principal, error) {
	r := c.Request()
	token, err := auth.Bearer(r.Header)
	if errors.Is(err, auth.ErrNoToken) {
		token, err = s.cookieToken(r)
	}
	if err != nil {
		if p, ok := errors.AsType[*problem](err); ok {
			return nil, p
		}
		return nil, s.unauthenticated(err)
	}
	p, err := s.opt.Auth.Authenticate(r.Context(), r.RemoteAddr, token)
	if err != nil {
		return nil, s.unauthenticated(err)
	}
	return p, nil
}

const realm = `Bearer realm="indexd"`

// unauthenticated turns an error of package auth into what its caller may know.
func (s *Server) unauthenticated(err error) *problem {
	p := &problem{status: http.StatusUnauthorized, code: codeUnauthenticated, challenge: realm + `, error="invalid_token"`}
	limit, isLimit := errors.AsType[*auth.LimitError](err)
	switch {
	case isLimit:
		p.status, p.code, p.challenge, p.after = http.StatusTooManyRequests, codeRate, "", max(limit.After, time.Second)
		p.detail, p.action = "This is more than one caller may ask for.", "Ask again later; Retry-After says when."
		if limit.Guesses {
			p.detail = "Too many tokens from this address were wrong."
		}
	case errors.Is(err, auth.ErrIssuer):
		p.status, p.code, p.challenge, p.retry, p.cause = http.StatusServiceUnavailable, codeIssuer, "", true, err
		p.detail, p.action = "Whether the token is good cannot be found out now: its issuer does not answer.", tryAgain
	case errors.Is(err, auth.ErrNoToken):
		p.challenge = realm // RFC 6750, section 3.1: no error where nothing was shown
		p.detail = "This needs a token."
		p.action = "Send it as Authorization: Bearer TOKEN, or sign in at " + signInPage + " in a browser. A URL is no place for one."
	case errors.Is(err, auth.ErrExpired):
		p.detail, p.action = "The token has expired.", "Get a new one from who gave it to you."
	default:
		p.detail = "The token is not known here."
		p.action = "Send it as Authorization: Bearer TOKEN, whole, and look whether it is for this server."
	}
	return p
}
