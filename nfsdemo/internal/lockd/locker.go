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
}

// NewLocker returns a Locker without locks.
func NewLocker(l Limits) *Locker { return &Locker{table: NewTable(l)} }

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
	w, err := k.set(string(handle), l, wait)
	if w == nil {
		return err
	}
	select {
	case <-w.Over:
		return w.Err
	case <-ctx.Done():
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.table.Cancel(w, ctx.Err()) // unless it came at the same moment
	return w.Err
}

// set gives the lock or begins to wait for it.
func (k *Locker) set(name string, l *backend.Lock, wait bool) (*Wait, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.table.Set(name, l)
	if _, locked := errors.AsType[*backend.LockedError](err); !locked || !wait {
		return nil, err
	}
	return k.table.Wait(name, l)
}

// Unlock is that of a backend.Locker.
func (k *Locker) Unlock(_ context.Context, handle []byte, l *backend.Lock) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.table.Unlock(string(handle), l)
}

// ReleaseLocks is that of a backend.Locker.
func (k *Locker) ReleaseLocks(_ context.Context, client string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.table.Release(client)
	return nil
}
