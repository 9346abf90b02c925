package web

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/prune"
	"github.com/blobindex/indexd/web/api"
)

// index finds the index of that name. Its error is a problem.
func (s *Server) index(name string) (*blobindex.Index, error) {
	if err := blobindex.CheckName(name); err != nil {
		return nil, storeProblem(err, reads)
	}
	x := s.indexes[name]
	if x == nil {
		return nil, &problem{
			status: http.StatusNotFound, code: codeNotFound,
			detail: "There is no index of that name.", action: "GET /v1/indexes lists those that there are.",
		}
	}
	return x, nil
}

// namespace checks both names. Its error is a problem; nothing is asked of the store.
func (s *Server) namespace(index, namespace string) (*blobindex.Index, *blobindex.Namespace, error) {
	x, err := s.index(index)
	if err != nil {
		return nil, nil, err
	}
	n, err := x.Namespace(namespace)
	if err != nil {
		return nil, nil, storeProblem(err, reads)
	}
	return x, n, nil
}

// item checks the names and the id as well, and asks nothing of the store.
func (s *Server) item(index, namespace, id string) (*blobindex.Namespace, itemid.ID, error) {
	x, n, err := s.namespace(index, namespace)
	if err != nil {
		return nil, itemid.ID{}, err
	}
	parsed, err := x.Rules().Grammar.Parse(id)
	if err != nil {
		return nil, itemid.ID{}, storeProblem(err, reads)
	}
	return n, parsed, nil
}

// RegisterItem is PUT …/items/{id}: one PUT.
func (s *Server) RegisterItem(ctx context.Context, r api.RegisterItemRequestObject) (api.RegisterItemResponseObject,
	error) {
	n, id, err := s.item(r.Index, r.Namespace, r.Id)
	if err != nil {
		return nil, err
	}
	var labels api.Labels
	if r.Body != nil {
		labels = *r.Body
	}
	answer, err := s.register(ctx, n, id, labels, writes)
	if err != nil {
		return nil, err
	}
	return api.RegisterItem201JSONResponse{CreatedJSONResponse: created(r.Index, r.Namespace, answer)}, nil
}

// CreateItem is POST …/items: one PUT, and none for a repetition that is already answered.
func (s *Server) CreateItem(ctx context.Context, r api.CreateItemRequestObject) (api.CreateItemResponseObject, error) {
	x, n, err := s.namespace(r.Index, r.Namespace)
	if err != nil {
		return nil, err
	}
	var item api.NewItem
	if r.Body != nil {
		item = *r.Body
	}
	var subkey string
	if item.Subkey != nil {
		subkey = *item.Subkey
		hide(ctx, subkey)
	}
	var labels api.Labels
	if item.Labels != nil {
		labels = *item.Labels
	}
	if err := blobindex.Labels(labels).Check(); err != nil {
		return nil, storeProblem(err, reads) // before a key is remembered for what cannot be registered
	}
	mint := func() (itemid.ID, error) { return x.Mint(subkey) }
	did := mints
	var use keyUse
	if key := r.Params.IdempotencyKey; key != nil {
		did = writes
		use, err = s.claim(r, *key, item, mint)
	} else {
		use.id, err = mint()
	}
	if err != nil {
		return nil, mintProblem(err)
	}
	if use.answer == nil {
		use.answer, err = s.register(ctx, n, use.id, labels, did)
		if err == nil {
			s.keys.settle(use, use.answer)
		} else if errors.Is(err, blobindex.ErrClock) || errors.Is(err, blobindex.ErrLabels) {
			s.keys.settle(use, nil)
		}
	}
	if err != nil {
		return nil, err
	}
	return api.CreateItem201JSONResponse{CreatedJSONResponse: created(r.Index, r.Namespace, use.answer)}, nil
}

// mintProblem is internal where the randomness failed, and about the sub-key else.
func mintProblem(err error) error {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if errors.Is(err, itemid.ErrInvalid) {
		return storeProblem(err, reads)
	}
	return internal(err)
}

func (s *Server) claim(r api.CreateItemRequestObject, key string, item api.NewItem, mint func() (itemid.ID, error)) (
	keyUse, error) {
	if key == "" || len(key) > maxText || strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return keyUse{}, badRequest("The Idempotency-Key is no text of 1 to 200 visible ASCII characters.",
			"Choose a random one for each item, such as a UUID.")
	}
	body, err := json.Marshal(item)
	if err != nil {
		return keyUse{}, err
	}
	digest := sha256.Sum256(body)
	use, err := s.keys.claim(usedKey{r.Index, r.Namespace, key}, digest, s.opt.Now(), mint)
	if err == nil && use.body != digest {
		return keyUse{}, &problem{
			status: http.StatusUnprocessableEntity, code: codeIdempotency,
			detail: "The Idempotency-Key was used for another body; nothing was done.",
			action: "Choose a new key for each item, and repeat a request unchanged.",
		}
	}
	return use, err
}

func (s *Server) register(ctx context.Context, n *blobindex.Namespace, id itemid.ID, labels api.Labels, did effect) (
	*api.Registered, error) {
	reg, err := s.hub.Register(ctx, n, id, blobindex.Labels(labels))
	if err != nil {
		return nil, storeProblem(err, did)
	}
	answer := &api.Registered{
		Id: id.String(), Subkey: id.Subkey(), StartedAt: instant(id.Time()), BornLate: reg.BornLate,
	}
	if !reg.Stored.IsZero() {
		stored := instant(reg.Stored)
		answer.StoredAt = &stored
	}
	return answer, nil
}

func created(index, namespace string, answer *api.Registered) api.CreatedJSONResponse {
	location := itemPath(index, namespace, answer.Id)
	return api.CreatedJSONResponse{Body: *answer, Headers: api.CreatedResponseHeaders{Location: &location}}
}

func namespacePath(index, namespace string) string {
	return "/v1/indexes/" + url.PathEscape(index) + "/" + url.PathEscape(namespace)
}

func itemPath(index, namespace, id string) string {
	return namespacePath(index, namespace) + "/items/" + url.PathEscape(id)
}

// HeartbeatItem is POST …/items/{id}/heartbeat: one PUT, and deletes.
func (s *Server) HeartbeatItem(ctx context.Context, r api.HeartbeatItemRequestObject) (api.HeartbeatItemResponseObject,
	error) {
	n, id, err := s.item(r.Index, r.Namespace, r.Id)
	if err != nil {
		return nil, err
	}
	beat, err := s.hub.Heartbeat(ctx, n, id)
	if err != nil {
		return nil, storeProblem(err, writes)
	}
	s.leftBehind(ctx, beat.Cleanup)
	return api.HeartbeatItem204Response{}, nil
}

// FinishItem is DELETE …/items/{id}: one PUT, one LIST for each 1,000 keys, and deletes.
func (s *Server) FinishItem(ctx context.Context, r api.FinishItemRequestObject) (api.FinishItemResponseObject, error) {
	n, id, err := s.item(r.Index, r.Namespace, r.Id)
	if err != nil {
		return nil, err
	}
	outcome := blobindex.Done
	if r.Params.Outcome != nil {
		var ok bool
		if outcome, ok = prune.ParseOutcome(string(*r.Params.Outcome)); !ok {
			return nil, &problem{
				status: http.StatusBadRequest, code: codeOutcome,
				detail: "The outcome is not known; nothing was done.", action: "Give done, failed or cancelled.",
			}
		}
	}
	finished, err := s.hub.Finish(ctx, n, id, outcome)
	if err != nil {
		return nil, storeProblem(err, ends)
	}
	s.leftBehind(ctx, finished.Cleanup)
	return api.FinishItem204Response{}, nil
}

// leftBehind logs what an acknowledged write could not clean up; a janitor will.
func (s *Server) leftBehind(ctx context.Context, err error) {
	if err != nil {
		s.log.WarnContext(ctx, "keys were left behind for the janitor", "error", err)
	}
}
