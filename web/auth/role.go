package auth

import "fmt"

// A Role is what a grant lets its principal do.
type Role string

// The roles, from the least on.
const (
	Reader   Role = "reader"
	Producer Role = "producer"
	Janitor  Role = "janitor"
	Admin    Role = "admin"
)

// ParseRole reads a role as it is written.
func ParseRole(text string) (Role, error) {
	switch r := Role(text); r {
	case Reader, Producer, Janitor, Admin:
		return r, nil
	}
	return "", fmt.Errorf("auth: %.40q is no role; give reader, producer, janitor or admin", text)
}

// An Action is what a request does.
type Action int

// The actions.
const (
	Read    Action = iota + 1 // items, cards, events, manifests, snapshots
	Write                     // register, heartbeat, finish; change manifests, publish snapshots
	Prune                     // delete what is proven to be over
	Operate                   // see how the server does
)

// may is the one table of what each role does.
func (r Role) may(a Action) bool {
	switch r {
	case Reader:
		return a == Read
	case Producer:
		return a == Read || a == Write
	case Janitor:
		return a == Read || a == Prune
	case Admin:
		return a == Read || a == Write || a == Prune || a == Operate
	}
	return false
}
