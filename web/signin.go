package web

import (
	"bytes"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/blobindex/indexd/web/auth"
	"github.com/blobindex/indexd/web/ui"
	"github.com/labstack/echo/v4"
)

// Names of the cookie that holds a token. Of one that begins with __Host- the browser makes sure that it is sent to this host
// alone, and only over https.
const (
	plainCookie  = "indexd"
	secureCookie = "__Host-indexd"
	maxCookie    = 4096 // bytes of a name and its value that browsers keep
)

// cookieName is the name of the cookie for the origin that a request is for.
func (s *Server) cookieName(r *http.Request) (name string, secure bool) {
	if strings.HasPrefix(s.ownOrigin(r), "https:") {
		return secureCookie, true
	}
	return plainCookie, false
}

// cookieToken returns the token in the cookie of a request that comes from a page of ours, or was typed: the browser adds a
// cookie by itself, so that its being there does not show that anybody wanted the request. Its errors are those of package auth
// and problems.
func (s *Server) cookieToken(r *http.Request) (string, error) {
	name, _ := s.cookieName(r)
	all := r.CookiesNamed(name)
	if len(all) == 0 {
		return "", auth.ErrNoToken
	}
	if len(all) > 1 {
		return "", auth.ErrToken // somebody else has set one
	}
	origins := r.Header.Values("Origin")
	for _, o := range origins {
		if !strings.EqualFold(o, s.ownOrigin(r)) {
			return "", auth.ErrNoToken
		}
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
	default:
		// Every browser says where such a request comes from, in the one way or the other.
		if len(origins) == 0 && r.Header.Get("Sec-Fetch-Site") != "same-origin" {
			p := foreignProblem()
			p.detail = "It cannot be told whether the request, which comes with a cookie, comes from a page of this server."
			p.action = "Send it from a page of this server; from a program, with the token as Authorization: Bearer TOKEN."
			return "", p
		}
	}
	return all[0].Value, nil
}

// toSignIn leads to the form, which leads back.
func toSignIn(c echo.Context) error {
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.Redirect(http.StatusSeeOther, signInPage+"?"+url.Values{"return": {c.Request().URL.RequestURI()}}.Encode())
}

// wayBack is where somebody who has signed in goes on: one of the pages, with what its query says; a link that somebody else
// has made leads nowhere else.
func wayBack(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "" || u.Opaque != "" || u.Host != "" || u.User != nil {
		return "/"
	}
	switch u.Path {
	case "/", manifestPage, snapshotPage:
		back := url.URL{Path: u.Path, RawQuery: u.Query().Encode()}
		return back.String()
	}
	return "/"
}

// signInForm is GET /signin.
func (s *Server) signInForm(c echo.Context) error {
	page := ui.SignIn{Return: wayBack(c.QueryParam("return")), Needless: s.opt.Auth == nil}
	return renderSignIn(c, http.StatusOK, page)
}

// signIn is POST /signin: it puts a token that is good into the cookie.
func (s *Server) signIn(c echo.Context) error {
	if s.opt.Auth == nil {
		return echo.ErrNotFound
	}
	r := c.Request()
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != echo.MIMEApplicationForm {
		return &problem{
			status: http.StatusUnsupportedMediaType, code: codeMediaType,
			detail: "The body is not declared as a form.", action: "Sign in at " + signInPage + " in a browser.",
		}
	}
	if err := r.ParseForm(); err != nil {
		return bodyProblem(err)
	}
	page := ui.SignIn{Return: wayBack(r.PostForm.Get("return"))}
	name, secure := s.cookieName(r)
	token := strings.TrimSpace(r.PostForm.Get("token"))
	p, err := s.opt.Auth.Authenticate(r.Context(), r.RemoteAddr, token)
	if err == nil {
		err = s.opt.Auth.Admit(p)
	}
	if err == nil && len(name)+len(token) > maxCookie {
		err = &problem{
			status: http.StatusRequestEntityTooLarge, code: codeTooLarge, detail: "The token is longer than browsers keep.",
			action: "Ask for a shorter one, with fewer claims.",
		}
	}
	if err != nil {
		return s.notSignedIn(c, page, err)
	}
	cookie := http.Cookie{
		Name: name, Value: token, Path: "/", Secure: secure, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
	if !p.Expires.IsZero() {
		// By its life: the browser's clock is not ours.
		cookie.MaxAge = max(int(p.Expires.Sub(s.opt.Now())/time.Second), 1)
	}
	c.SetCookie(&cookie)
	c.Response().Header().Set("Cache-Control", "no-store")
	err = c.Redirect(http.StatusSeeOther, page.Return)
	s.audit(c, p, false, err)
	return err
}

// notSignedIn shows the form again, with what was wrong.
func (s *Server) notSignedIn(c echo.Context, page ui.SignIn, err error) error {
	refused, ok := errors.AsType[*problem](err)
	if !ok {
		refused = s.unauthenticated(err)
	}
	if refused.cause != nil {
		s.log.WarnContext(c.Request().Context(), "signing in failed", "code", refused.code, "error", refused.cause)
	}
	refused.headers(c.Response().Header())
	page.Problem = refused.detail
	if refused.status == http.StatusUnauthorized {
		page.Problem += " Look whether all of it was copied, and whether it is for this server."
	} else {
		page.Problem += " " + refused.action
	}
	return renderSignIn(c, refused.status, page)
}

// signOut is POST /signout: the browser forgets the token.
func (s *Server) signOut(c echo.Context) error {
	if s.opt.Auth == nil {
		return echo.ErrNotFound
	}
	name, secure := s.cookieName(c.Request())
	c.SetCookie(&http.Cookie{
		Name: name, Path: "/", Secure: secure, HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: -1,
	})
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.Redirect(http.StatusSeeOther, signInPage)
}

func renderSignIn(c echo.Context, status int, p ui.SignIn) error {
	var buf bytes.Buffer
	if err := ui.RenderSignIn(&buf, p); err != nil {
		return internal(err)
	}
	return c.Blob(status, htmlType, buf.Bytes())
}
