package pmem

import (
	"errors"

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
	if !m.fl.Close(m.timeout) {
		m.fl.setStuck(true)
		return m.d.error("close", region.ErrPinned, nil)
	}
	m.fl.setStuck(false)
	m.closed = true
	err := errors.Join(m.med.release(), m.d.release())
	if e := m.d.f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return m.d.error("close", ErrClosed, cause(err))
	}
	return nil
}
