package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/cas"
	"github.com/blobindex/indexd/web"
)

// The kinds of checks of our own; see openapi.yaml.
const (
	kindUsable   = "usable"
	kindUnusable = "unusable"
	kindUntried  = "untried"
	kindDiffer   = "differ"
)

// checks are what /readyz of a server tells of beside the bucket. They ask nothing of the store, and none is needed: items are
// registered and shown without. issuer is that of settings.issuerErr.
func checks(t *trial, indexes []*blobindex.Index, issuer func() error) []web.Check {
	all := []web.Check{
		{Name: "cas", Do: func(context.Context) (string, error) { return t.found() }},
		{Name: "rules", Do: func(context.Context) (string, error) { return rulesKind(indexes) }},
	}
	if issuer != nil {
		all = append(all, web.Check{Name: "issuer", Do: func(context.Context) (string, error) { return "", issuer() }})
	}
	return all
}

// found tells what is known of the conditions of writes, and tries nothing.
func (t *trial) found() (kind string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.last == nil:
		return kindUntried, nil
	case t.last.err == nil:
		return kindUsable, nil
	case errors.Is(t.last.err, cas.ErrUnsupported):
		return kindUnusable, t.last.err
	}
	return "", t.last.err
}

// rulesKind tells whether the saved rules are others than the server was given.
func rulesKind(indexes []*blobindex.Index) (kind string, err error) {
	var differ []string
	for _, x := range indexes {
		if r := x.Ruling(); len(r.Differences) > 0 {
			differ = append(differ, fmt.Sprintf("index %q: %s", x.Name(), r.Different()))
		}
	}
	if len(differ) > 0 {
		return kindDiffer, errors.New(strings.Join(differ, "; "))
	}
	return web.KindOK, nil
}
