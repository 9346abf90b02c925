package web

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/web/ui"
	"github.com/labstack/echo/v4"
)

// cardStates are what the page calls the states of cards, and filters them by.
var cardStates = []string{"running", "late", "unknown"}

// A filter is which items the page shows. It lives in the page's URL, so that it can be kept and passed on. An empty field
// asks for all.
type filter struct {
	subkey, owner string
	state         string // one of cardStates; it is looked for among the cards that there would be without it
	limit         int    // 0: as many as the index is configured to show
}

func filterOf(c echo.Context) filter {
	limit, _ := strconv.Atoi(c.QueryParam("limit")) // checked before
	return filter{c.QueryParam("subkey"), c.QueryParam("owner"), c.QueryParam("state"), limit}
}

// cards is what the page asks for: its cards are those of the API.
func (f filter) cards() blobindex.CardsRequest {
	return blobindex.CardsRequest{
		Subkey: f.subkey, Owner: f.owner, Limit: f.limit, Recent: pageRecent, Timeline: true,
	}
}

// shape is the part of the filter that the API has too, as a query.
func (f filter) shape() url.Values {
	q := url.Values{}
	set := func(name, value string) {
		if value != "" {
			q.Set(name, value)
		}
	}
	set("subkey", f.subkey)
	set("owner", f.owner)
	if f.limit > 0 {
		q.Set("limit", strconv.Itoa(f.limit))
	}
	return q
}

// events is the stream that tells when a page with this filter may have changed.
func (f filter) events(x *blobindex.Index, namespace string) string {
	return withQuery(namespacePath(x.Name(), namespace)+"/events", f.shape())
}

// page is the URL of a page with this filter.
func (f filter) page(x *blobindex.Index, namespace string) string {
	q := f.shape()
	q.Set("index", x.Name())
	if !x.Flat() && namespace != "" {
		q.Set("namespace", namespace)
	}
	if f.state != "" {
		q.Set("state", f.state)
	}
	return withQuery("/", q)
}

func withQuery(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// wider are how many cards the page offers to show instead of the few that it shows first.
var wider = []int{50, blobindex.MaxCards}

// frame tells a page what it is filtered by.
func (f filter) frame(p *ui.Page, x *blobindex.Index, namespace string) {
	p.Filter = ui.Filter{
		Subkey: f.subkey, Owner: f.owner, State: f.state, Limit: f.limit, States: cardStates, ClearURL: filter{}.page(x, namespace),
	}
}

// narrow makes a view tell what it is filtered by, and leaves the cards of the state that is asked for. Sub-key and owner
// were asked for when the view was taken. beyond is how many cards there was no room for.
func (f filter) narrow(v *ui.View, beyond int, x *blobindex.Index, namespace string) {
	v.Filter = ui.Filter{Subkey: f.subkey, Owner: f.owner, State: f.state, Limit: f.limit}
	v.Events = f.events(x, namespace)
	for i := range v.Cards {
		owner := v.Cards[i].Owner
		if owner != f.owner && (param{max: maxText}).check("owner", owner) == nil { // else the link would lead to a problem
			v.Cards[i].OwnerURL = filter{owner: owner, limit: f.limit}.page(x, namespace)
		}
	}
	if f.state != "" {
		v.Cards = slices.DeleteFunc(v.Cards, func(c ui.Card) bool { return c.Class() != f.state })
	}
	if beyond == 0 {
		return
	}
	for _, n := range wider {
		if n <= v.Shown {
			continue
		}
		more := f
		more.limit = n
		v.More = append(v.More, ui.More{Text: moreText(n, v.Live), URL: more.page(x, namespace)})
		if n >= v.Live {
			break
		}
	}
}

func moreText(n, live int) string {
	if n >= live {
		return fmt.Sprintf("all %d", live)
	}
	return fmt.Sprintf("up to %d", n)
}
