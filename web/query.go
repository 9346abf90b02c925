package web

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/cas/snapshot"
	"github.com/labstack/echo/v4"
)

// A param is what a query parameter may be: a whole number from 1 to max, true or false, or text of 1 to max bytes.
type param struct {
	number bool
	choice bool
	path   bool // the text may have control characters, as names of files do
	max    int
}

const (
	maxText   = 200 // bytes of a filter or a name
	maxCursor = 500
	// A cursor of rows holds a path.
	maxRowCursor = 6000
)

const namespaceRoute = "/v1/indexes/:index/:namespace"

// routeParams returns the query parameters of a route; a test holds it to openapi.yaml.
func routeParams(method, route string) map[string]param {
	page := map[string]param{"limit": {number: true, max: maxPage}, "cursor": {max: maxCursor}}
	switch method + " " + route {
	case "GET /":
		return map[string]param{"index": {max: maxText}, "namespace": {max: maxText}}
	case "GET " + manifestPage:
		return map[string]param{"namespace": {max: maxText}, "name": {max: maxText}}
	case "GET " + signInPage:
		return map[string]param{"return": {max: maxRowCursor}}
	case "GET " + snapshotPage:
		return map[string]param{"namespace": {max: maxText}, "name": {max: maxText}, "path": {path: true, max: snapshot.MaxPath}}
	case "GET " + rowsRoute:
		return map[string]param{
			"prefix": {path: true, max: snapshot.MaxPath}, "limit": {number: true, max: maxPage}, "cursor": {max: maxRowCursor},
		}
	case "POST " + rowsRoute:
		return map[string]param{"allow_empty": {max: maxText}}
	case "GET " + namespaceRoute + "/cards", "GET " + eventsRoute:
		return map[string]param{
			"limit": {number: true, max: blobindex.MaxCards}, "subkey": {max: maxText}, "owner": {max: maxText},
		}
	case "GET " + namespaceRoute + "/items", "GET " + namespaceRoute + "/recent":
		return page
	case "DELETE " + namespaceRoute + "/items/:id":
		return map[string]param{"outcome": {max: maxText}}
	case "POST " + pruneRoute:
		return map[string]param{"namespace": {max: maxText}, "dry_run": {choice: true}}
	}
	return nil
}

// checkQuery refuses what a route does not know: a misspelled filter must not look like an answer to the right one.
func checkQuery(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if c.Path() == "" || c.Request().URL.RawQuery == "" {
			return next(c) // no such route, or no such thing
		}
		// By itself, so that a stream does not stand on what this needs of the stack for as long as it lasts.
		if err := checkParams(c); err != nil {
			return err
		}
		return next(c)
	}
}

func checkParams(c echo.Context) error {
	query, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return badRequest("The query of the URL is malformed.", "Percent-encode the values of its parameters.")
	}
	method := c.Request().Method
	if get(c) {
		method = http.MethodGet
	}
	known := routeParams(method, c.Path())
	for name, values := range query {
		p, ok := known[name]
		if !ok {
			return badRequest("The query has a parameter that is not known here.", listParams(known))
		}
		if len(values) != 1 {
			return badRequest("The parameter "+name+" stands there more than once.", "Give it once.")
		}
		if err := p.check(name, values[0]); err != nil {
			return err
		}
	}
	return nil
}

func (p param) check(name, value string) error {
	if p.number {
		if n, err := strconv.Atoi(value); err != nil || n < 1 || n > p.max || strconv.Itoa(n) != value {
			return badRequest(fmt.Sprintf("The parameter %s is no whole number from 1 to %d.", name, p.max),
				"Give such a number, or leave it out.")
		}
		return nil
	}
	if p.choice {
		if value != "true" && value != "false" {
			return badRequest("The parameter "+name+" is neither true nor false.", "Give one of them, or leave it out.")
		}
		return nil
	}
	control := strings.ContainsFunc(value, func(r rune) bool { return r == 0 || !p.path && unicode.IsControl(r) })
	if value == "" || len(value) > p.max || !utf8.ValidString(value) || control {
		return badRequest(fmt.Sprintf("The parameter %s is no text of 1 to %d bytes without control characters.", name,
			p.max), "Give such a text, or leave it out.")
	}
	return nil
}

func listParams(known map[string]param) string {
	if len(known) == 0 {
		return "Leave the query out: this operation takes no parameters."
	}
	return "This operation knows " + strings.Join(slices.Sorted(maps.Keys(known)), ", ") + "."
}
