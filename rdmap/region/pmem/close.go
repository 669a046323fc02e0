package pmem

import (
	"errors"
	"time"

	"github.com/stag-rdma/stag/rdmap/region"
)

// Close closes the file; it persists nothing. It refuses new calls at once, and waits for running
// ones. If one still runs after Options.CloseTimeout, Close returns region.ErrPinned, and the
// memory stays mapped and locked, because the call may still touch it; Close may then be called
// again. Otherwise Close is idempotent. It does not return a final error of Persist again.
func (m *Memory) Close() error {
	m.closeMu.Lock()
	defer m.closeMu.Unlock()
	if m.closed {
		return nil
	}
	if !within(m.gate.close(), m.timeout) {
		m.setStuck(true)
		return m.d.error("close", region.ErrPinned, nil)
	}
	m.setStuck(false)
	m.closed = true
	m.fl.stop()
	err := errors.Join(m.med.release(), m.d.release())
	if e := m.d.f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return m.d.error("close", ErrClosed, cause(err))
	}
	return nil
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

// setStuck records whether Close gave up, and keeps Pinned right; m.closeMu is held.
func (m *Memory) setStuck(stuck bool) {
	m.fl.mu.Lock()
	defer m.fl.mu.Unlock()
	switch {
	case stuck && !m.stuck:
		m.fl.pin()
	case !stuck && m.stuck:
		m.fl.unpin()
	}
	m.stuck = stuck
}
