package auth

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/blobindex/indexd/blobindex"
)

// All stands for every name: in a grant, and where something is asked of an index, or of the server, as a whole.
const All = "*"

// AnyIndex is asked for where something belongs to a namespace alone.
const AnyIndex = ""

// A Grant is a role on an index and a namespace, each a name or All.
type Grant struct {
	Role             Role
	Index, Namespace string
}

// Check returns an error that says what is wrong with a grant, and what to do.
func (g Grant) Check() error {
	if g.Role == "" {
		return errors.New("auth: the grant has no role; give reader, producer, janitor or admin")
	}
	if _, err := ParseRole(string(g.Role)); err != nil {
		return err
	}
	for _, one := range []struct{ what, name string }{{"index", g.Index}, {"namespace", g.Namespace}} {
		switch {
		case one.name == "":
			return fmt.Errorf("auth: the grant names no %s; give one, or \"*\" for all of them", one.what)
		case one.name == All, one.what == "namespace" && one.name == blobindex.FlatNamespace:
		case blobindex.CheckName(one.name) != nil:
			return fmt.Errorf("auth: the %s %.80q of the grant can be none; give a whole name, or \"*\" for all: there are no other "+
				"patterns", one.what, one.name)
		}
	}
	return nil
}

func (g Grant) covers(index, namespace string) bool {
	return (index == AnyIndex || g.Index == All || g.Index == index) && (g.Namespace == All || g.Namespace == namespace)
}

// A Principal is who a token stands for. It is not to be changed.
type Principal struct {
	Name   string
	Issuer string // of the JWT; empty for a static token
	Grants []Grant
	// Expires is when the token ends; zero: never.
	Expires time.Time

	limit string // whose rate it counts for
}

// May reports whether the principal may do a to a namespace of an index. All asks for all of them: only a grant of all covers
// that.
func (p *Principal) May(a Action, index, namespace string) bool {
	return slices.ContainsFunc(p.Grants, func(g Grant) bool { return g.Role.may(a) && g.covers(index, namespace) })
}

// Namespaces returns the namespaces of an index to which the principal may do a, in ascending order; or all, if there are no
// others.
func (p *Principal) Namespaces(a Action, index string) (names []string, all bool) {
	for _, g := range p.Grants {
		if !g.Role.may(a) || !g.covers(index, g.Namespace) {
			continue
		}
		if g.Namespace == All {
			return nil, true
		}
		names = append(names, g.Namespace)
	}
	slices.Sort(names)
	return slices.Compact(names), false
}
