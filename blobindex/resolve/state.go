package resolve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/blobindex/indexd/blobindex"
	"github.com/blobindex/indexd/blobindex/bucket"
)

// StateOptions say where the state documents are.
type StateOptions struct {
	// Template is the key of an item's document, such as "results/{namespace}/{id}/status.json". A variable is a
	// whole segment: {index}, {namespace}, {id}, {subkey}; {id} must be there.
	Template string
	// Requires are templates of objects that must all exist before a final state counts, so that half-written
	// results never show as done.
	Requires []string
}

// State reads a JSON document that the job keeps in the bucket:
//
//	{"state": "running|succeeded|failed|cancelled", "progress": 0.5, "title": "…", "owner": "…",
//	 "url": "https://…", "updated_at": "2026-01-02T03:04:05Z"}
//
// Only state is required. An absent document is unknown, not gone: it may not have been written yet. One that cannot
// be read, or is not such a document, is an error. A request for the document, and one for each required object where
// the state is final.
type State struct {
	objects  bucket.Objects
	document template
	requires []template
}

// NewState returns a State on the bucket that holds the documents. Errors wrap ErrTemplate.
func NewState(objects bucket.Objects, opt StateOptions) (*State, error) {
	s := &State{objects: objects}
	var err error
	if s.document, err = parseTemplate(opt.Template); err != nil {
		return nil, err
	}
	if !slices.Contains(s.document, "{id}") {
		return nil, fmt.Errorf("%w %q: without the segment {id} several items would share one document", ErrTemplate,
			opt.Template)
	}
	for _, r := range opt.Requires {
		t, err := parseTemplate(r)
		if err != nil {
			return nil, err
		}
		s.requires = append(s.requires, t)
	}
	return s, nil
}

var _ blobindex.Resolver = (*State)(nil)

// MaxDocument is the most bytes that a state document may have.
const MaxDocument = 64 << 10

// ErrDocument is wrapped by the errors for documents that are no state documents.
var ErrDocument = errors.New("resolve: not a state document")

// MaxRequests is one for the document and one for each required object.
func (s *State) MaxRequests(blobindex.Target) int { return 1 + len(s.requires) }

type stateDocument struct {
	State     string     `json:"state"`
	Progress  *float64   `json:"progress"`
	Title     string     `json:"title"`
	Owner     string     `json:"owner"`
	URL       string     `json:"url"`
	UpdatedAt *time.Time `json:"updated_at"`
}

// Resolve reads the item's document.
func (s *State) Resolve(ctx context.Context, t blobindex.Target) (blobindex.Status, error) {
	out := blobindex.Status{Requests: 1}
	key := s.document.key(t)
	body, err := read(ctx, s.objects, key, MaxDocument)
	if errors.Is(err, bucket.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	doc, state, err := parseDocument(body)
	if err != nil {
		return out, fmt.Errorf("reading %q: %w", key, err)
	}
	if state.Over() {
		complete, requests, err := s.complete(ctx, t)
		out.Requests += requests
		if err != nil {
			return out, err
		}
		if !complete {
			state = blobindex.Running
		}
	}
	out.State, out.Progress = state, doc.Progress
	out.Title, out.Owner, out.URL = text(doc.Title), text(doc.Owner), link(doc.URL)
	return out, nil
}

func parseDocument(body []byte) (stateDocument, blobindex.RunState, error) {
	var doc stateDocument
	if err := json.Unmarshal(body, &doc); err != nil {
		return doc, blobindex.Unknown, fmt.Errorf("%w: %w", ErrDocument, err)
	}
	if p := doc.Progress; p != nil && (*p < 0 || *p > 1) {
		return doc, blobindex.Unknown, fmt.Errorf("%w: progress is %v, not between 0 and 1", ErrDocument, *p)
	}
	for _, s := range []blobindex.RunState{
		blobindex.Running, blobindex.Succeeded, blobindex.FailedRun, blobindex.CancelledRun,
	} {
		if doc.State == s.String() {
			return doc, s, nil
		}
	}
	return doc, blobindex.Unknown, fmt.Errorf("%w: the state %.40q is none of running, succeeded, failed, cancelled",
		ErrDocument, doc.State)
}

// complete tells whether every required object exists, and how many requests that took.
func (s *State) complete(ctx context.Context, t blobindex.Target) (ok bool, requests int, err error) {
	for _, r := range s.requires {
		requests++
		switch _, err := s.objects.Head(ctx, r.key(t)); {
		case errors.Is(err, bucket.ErrNotExist):
			return false, requests, nil
		case err != nil:
			return false, requests, fmt.Errorf("looking for %q: %w", r.key(t), err)
		}
	}
	return true, requests, nil
}
