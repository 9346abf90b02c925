package web

import (
	"context"
	"time"

	"github.com/blobindex/indexd/web/api"
)

// ListIndexes is GET /v1/indexes. It asks nothing of the store.
func (s *Server) ListIndexes(ctx context.Context, _ api.ListIndexesRequestObject) (api.ListIndexesResponseObject, error) {
	body := api.Indexes{Indexes: []api.IndexRules{}}
	for _, x := range s.visible(ctx) {
		rules := x.Rules()
		body.Indexes = append(body.Indexes, api.IndexRules{
			Name: x.Name(), Flat: x.Flat(), Grammar: rules.Grammar.String(), TtlSeconds: rules.TTL.Seconds(),
			LateAfterSeconds: rules.LateAfter.Seconds(), SkewSeconds: rules.Skew.Seconds(),
		})
	}
	return api.ListIndexes200JSONResponse{Body: body}, nil
}

// ListNamespaces is GET /v1/indexes/{index}/namespaces.
func (s *Server) ListNamespaces(ctx context.Context, r api.ListNamespacesRequestObject) (
	api.ListNamespacesResponseObject, error) {
	x, err := s.index(r.Index)
	if err != nil {
		return nil, err
	}
	names, all := s.seen(ctx, x)
	if all {
		if names, _, err = x.Namespaces(ctx); err != nil {
			return nil, storeProblem(err, reads)
		}
	}
	if names == nil {
		names = []string{}
	}
	return api.ListNamespaces200JSONResponse{Body: api.Namespaces{Namespaces: names}}, nil
}

// GetHealth is GET /healthz.
func (s *Server) GetHealth(context.Context, api.GetHealthRequestObject) (api.GetHealthResponseObject, error) {
	return api.GetHealth200JSONResponse{Status: api.Ok}, nil
}

const readyTimeout = 5 * time.Second

// GetReadiness is GET /readyz.
func (s *Server) GetReadiness(ctx context.Context, _ api.GetReadinessRequestObject) (api.GetReadinessResponseObject,
	error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := s.ready(ctx); err != nil {
		return nil, readyProblem(err)
	}
	return api.GetReadiness200JSONResponse{Status: api.Ok}, nil
}
