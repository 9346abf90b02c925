package web

import (
	"container/list"
	"sync"
	"time"

	"github.com/blobindex/indexd/blobindex/itemid"
	"github.com/blobindex/indexd/web/api"
)

// Bounds of a keyMemory.
const (
	keyLife = 10 * time.Minute
	maxKeys = 10_000
)

// A keyMemory remembers which id was minted for an idempotency key, and the answer once there was one. A repetition
// before the answer registers the same item again, which is harmless, and never another one. What it forgets is the
// oldest. Its zero value is empty.
type keyMemory struct {
	mu    sync.Mutex
	keys  map[usedKey]*list.Element
	order list.List // of *keyUse, oldest first
}

type usedKey struct{ index, namespace, key string }

type keyUse struct {
	key    usedKey
	body   [32]byte // a digest of what the first request asked for
	id     itemid.ID
	used   time.Time
	answer *api.Registered // nil until the item is known to be registered
}

// claim returns what is known of the key, and remembers an id from mint for one that is not known.
func (m *keyMemory) claim(key usedKey, body [32]byte, now time.Time, mint func() (itemid.ID, error)) (keyUse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for e := m.order.Front(); e != nil; e = m.order.Front() {
		if now.Sub(e.Value.(*keyUse).used) < keyLife {
			break
		}
		m.remove(e)
	}
	if e, ok := m.keys[key]; ok {
		return *e.Value.(*keyUse), nil
	}
	id, err := mint()
	if err != nil {
		return keyUse{}, err
	}
	if m.order.Len() == maxKeys {
		m.remove(m.order.Front())
	}
	if m.keys == nil {
		m.keys = make(map[usedKey]*list.Element)
	}
	use := &keyUse{key: key, body: body, id: id, used: now}
	m.keys[key] = m.order.PushBack(use)
	return *use, nil
}

// settle remembers the answer for the key. Without one it forgets the key, of which the id can never be registered.
func (m *keyMemory) settle(use keyUse, answer *api.Registered) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.keys[use.key]
	if !ok || e.Value.(*keyUse).id != use.id {
		return
	}
	if answer == nil {
		m.remove(e)
		return
	}
	e.Value.(*keyUse).answer = answer
}

func (m *keyMemory) remove(e *list.Element) {
	delete(m.keys, m.order.Remove(e).(*keyUse).key)
}
