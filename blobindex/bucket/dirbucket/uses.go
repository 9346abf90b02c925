package dirbucket

import "sync"

// uses counts the calls and syncs that go on, so that no descriptor is closed (and its number given to another file)
// while one of them still uses it.
type uses struct {
	mu     sync.Mutex // guards all below
	count  int
	closed bool
	idle   chan struct{} // closed once closed and count is 0
}

// add reports whether the use may begin; it ends with done.
func (u *uses) add() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return false
	}
	u.count++
	return true
}

// keep begins another use on behalf of one that goes on, even while the bucket is closing.
func (u *uses) keep() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.count++
}

func (u *uses) done() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.count--
	if u.closed && u.count == 0 {
		close(u.idle)
	}
}

// close lets no further use begin and waits for the others; it reports false if somebody else closed first.
func (u *uses) close() bool {
	u.mu.Lock()
	if u.closed {
		u.mu.Unlock()
		return false
	}
	u.closed = true
	u.idle = make(chan struct{})
	if u.count == 0 {
		close(u.idle)
	}
	u.mu.Unlock()
	<-u.idle
	return true
}
