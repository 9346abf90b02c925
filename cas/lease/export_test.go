package lease

import "context"

// A Payload is what a document tells.
type Payload = record

// Try is Acquire that looks once, and whose Held renews nothing by itself, so that an explorer decides when it does.
func (l *Lease) Try(ctx context.Context, opt AcquireOptions) (*Held, error) { return l.try(ctx, &opt) }

// Renew renews once.
func (h *Held) Renew(ctx context.Context) error { return h.renew(ctx) }

// TrustFromNow plants a bug: the last save is trusted from when it has ended.
func (h *Held) TrustFromNow() {
	now := h.l.clock.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.from = now
}
