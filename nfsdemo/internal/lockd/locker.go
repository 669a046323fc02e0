package lockd

import (
	"context"
	"errors"

	"github.com/stag-rdma/stag/internal/shared"
	"github.com/stag-rdma/stag/nfsdemo/backend"
)

// Locker is a Table for many goroutines: a [backend.Locker] but for HoldsLock, since after a restart nothing is held.
type Locker struct {
	mu    shared.Mutex
	table *Table
	waits map[*Wait]chan struct{} // closed when the wait is over
}

// NewLocker returns a Locker without locks.
func NewLocker(l Limits) *Locker {
	return &Locker{table: NewTable(l), waits: make(map[*Wait]chan struct{})}
}

// Len returns how many locks are held, and how many are waited for.
func (k *Locker) Len() (locks, waits int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.table.Len()
}

// Holds reports whether a client holds a lock or waits for one.
func (k *Locker) Holds(client string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.table.Holds(client)
}

// TestLock is that of a backend.Locker.
func (k *Locker) TestLock(_ context.Context, handle []byte, l *backend.Lock) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if held := k.table.Test(string(handle), l); held != nil {
		return &backend.LockedError{Holder: *held}
	}
	return nil
}

// SetLock is that of a backend.Locker.
func (k *Locker) SetLock(ctx context.Context, handle []byte, l *backend.Lock, wait bool) error {
	w, over, err := k.set(string(handle), l, wait)
	if w == nil {
		return err
	}
	select {
	case <-over:
		return w.Err
	case <-ctx.Done():
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.table.Cancel(w) {
		return w.Err // it came at the same moment
	}
	delete(k.waits, w)
	return ctx.Err()
}

// set gives the lock or begins to wait for it.
func (k *Locker) set(name string, l *backend.Lock, wait bool) (*Wait, chan struct{}, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ended, err := k.table.Set(name, l)
	k.wake(ended)
	if _, locked := errors.AsType[*backend.LockedError](err); !locked || !wait {
		return nil, nil, err
	}
	w, err := k.table.Wait(name, l)
	if err != nil {
		return nil, nil, err
	}
	over := make(chan struct{})
	k.waits[w] = over
	return w, over, nil
}

// wake tells those whose waits are over.
func (k *Locker) wake(ended []*Wait) {
	for _, w := range ended {
		close(k.waits[w])
		delete(k.waits, w)
	}
}

// Unlock is that of a backend.Locker.
func (k *Locker) Unlock(_ context.Context, handle []byte, l *backend.Lock) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	ended, err := k.table.Unlock(string(handle), l)
	k.wake(ended)
	return err
}

// ReleaseLocks is that of a backend.Locker.
func (k *Locker) ReleaseLocks(_ context.Context, client string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wake(k.table.Release(client))
	return nil
}
