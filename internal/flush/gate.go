package flush

import (
	"sync"
	"time"
)

// gate counts the callers inside, and lets nobody in once it is shut.
type gate struct {
	mu    sync.Mutex
	users int
	shut  bool
	idle  chan struct{} // closed when shut and nobody is inside
}

// enter reports whether the caller is let in. If so, the caller has to call leave.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return false
	}
	g.users++
	return true
}

// hold is enter for work on behalf of a caller who is inside.
func (g *gate) hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.users++
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.users--
	if g.shut && g.users == 0 {
		close(g.idle)
	}
}

// close shuts the gate and returns a channel that is closed when nobody is inside. It
// is idempotent.
func (g *gate) close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.shut {
		g.shut = true
		g.idle = make(chan struct{})
		if g.users == 0 {
			close(g.idle)
		}
	}
	return g.idle
}

// within reports whether done is closed before the timeout.
func within(done <-chan struct{}, timeout time.Duration) bool {
	if timeout < 0 {
		<-done
		return true
	}
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
	}
	select {
	case <-done: // results beat deadlines
		return true
	default:
		return false
	}
}
