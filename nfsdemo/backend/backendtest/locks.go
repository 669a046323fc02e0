package backendtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
)

// locker is what the suite asks of a backend.Locker.
type locker interface {
	TestLock(ctx context.Context, handle []byte, l *backend.Lock) error
	SetLock(ctx context.Context, handle []byte, l *backend.Lock, wait bool) error
	Unlock(ctx context.Context, handle []byte, l *backend.Lock) error
	ReleaseLocks(ctx context.Context, client string) error
}

// lockRig is a Locker under test with two files.
type lockRig struct {
	*testing.T
	k locker
	f []byte
}

func (r *lockRig) lock(client string, id, start, end uint64, exclusive bool) *backend.Lock {
	return &backend.Lock{Owner: backend.LockOwner{Client: client, ID: id}, Start: start, End: end, Exclusive: exclusive}
}

// set expects that a lock can, or cannot, be had at once; TestLock must say the same before.
func (r *lockRig) set(l *backend.Lock, want bool) {
	r.Helper()
	_, locked := errors.AsType[*backend.LockedError](r.k.TestLock(r.Context(), r.f, l))
	if locked == want {
		r.Errorf("TestLock of %+v says locked: %v", *l, locked)
	}
	err := r.k.SetLock(r.Context(), r.f, l, false)
	var e *backend.LockedError
	switch {
	case want && err != nil:
		r.Errorf("SetLock of %+v: %v", *l, err)
	case !want && !errors.As(err, &e):
		r.Errorf("SetLock of %+v: %v, want a *backend.LockedError", *l, err)
	case !want && !e.Holder.Conflicts(l):
		r.Errorf("%+v is not in the way of %+v", e.Holder, *l)
	}
}

func (r *lockRig) unlock(l *backend.Lock) {
	r.Helper()
	if err := r.k.Unlock(r.Context(), r.f, l); err != nil {
		r.Errorf("Unlock of %+v: %v", *l, err)
	}
}

// begin waits for a lock that cannot be had yet.
func (r *lockRig) begin(ctx context.Context, l *backend.Lock) chan error {
	r.Helper()
	ch := make(chan error, 1)
	go func() { ch <- r.k.SetLock(ctx, r.f, l, true) }()
	select {
	case err := <-ch:
		r.Fatalf("%+v did not wait: %v", *l, err)
	case <-time.After(50 * time.Millisecond):
	}
	return ch
}

func (r *lockRig) end(ch chan error) error {
	r.Helper()
	select {
	case err := <-ch:
		return err
	case <-time.After(time.Minute):
		r.Fatal("a wait did not end within a minute")
		return nil
	}
}

// RunLocker runs the suite of a Locker, without HoldsLock, that holds no locks yet. f and g are handles of two regular files.
func RunLocker(t *testing.T, k locker, f, g []byte) {
	r := &lockRig{T: t, k: k, f: f}
	other := &lockRig{T: t, k: k, f: g}
	end := uint64(backend.LockEnd)

	r.set(r.lock("a", 1, 10, 19, true), true)
	r.set(r.lock("a", 1, 10, 19, true), true) // his own is not in his way
	r.set(r.lock("a", 2, 19, 19, false), false)
	r.set(r.lock("b", 1, 0, 10, true), false)
	r.set(r.lock("b", 1, 20, end, true), true)
	other.set(r.lock("b", 1, 0, end, true), true)

	r.unlock(r.lock("a", 1, 13, 15, false)) // from the middle
	r.set(r.lock("b", 1, 13, 15, true), true)
	r.set(r.lock("b", 1, 12, 12, true), false)
	r.set(r.lock("b", 1, 16, 16, true), false)
	r.set(r.lock("a", 1, 16, 17, false), true) // in place of the exclusive one
	r.set(r.lock("b", 1, 16, 17, false), true)
	r.set(r.lock("b", 1, 18, 18, false), false)
	r.set(r.lock("a", 1, 16, 17, true), false)

	want := r.lock("c", 1, 10, 12, true)
	ctx, cancel := context.WithCancel(t.Context())
	ch := r.begin(ctx, want)
	cancel()
	if err := r.end(ch); err == nil {
		t.Error("a wait ended with the lock, and not with its context")
	}
	ch = r.begin(t.Context(), want)
	r.unlock(r.lock("a", 1, 0, end, false))
	if err := r.end(ch); err != nil {
		t.Error(err)
	}
	r.set(r.lock("d", 1, 11, 11, false), false)

	ch = r.begin(t.Context(), r.lock("d", 1, 0, end, true))
	for _, c := range []string{"b", "c", "nobody"} {
		if err := k.ReleaseLocks(t.Context(), c); err != nil {
			t.Error(err)
		}
	}
	if err := r.end(ch); err != nil {
		t.Error(err)
	}
	other.set(r.lock("d", 1, 0, end, true), true)
	if err := k.ReleaseLocks(t.Context(), "d"); err != nil {
		t.Error(err)
	}
	r.set(r.lock("e", 1, 0, end, true), true)
	r.unlock(r.lock("e", 1, 0, end, true))
}
