package auth

import "time"

// MaxKnown is how much is remembered.
const MaxKnown = maxKnown

// Known is how many peers are remembered.
func (g *Gate) Known() int {
	g.failures.mu.Lock()
	defer g.failures.mu.Unlock()
	return len(g.failures.known.known)
}

// KeysRead is when the issuer's keys were.
func (g *Gate) KeysRead() time.Time {
	k := g.issuer.keys
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.read
}
