package lockd

import (
	"context"
	"errors"
	"slices"

	"github.com/stag-rdma/stag/internal/shared"
	"github.com/stag-rdma/stag/nfsdemo/backend"
)

// Limits bound what a Table holds. A field that is zero has its value in [DefaultLimits]. Half of Locks is
// for those who hold few, 1 of 256 of ClientLocks, and half of Waits likewise.
type Limits struct {
	Locks, Waits             int // together
	ClientLocks, ClientWaits int
	FileLocks, FileWaits     int // so that looking through a file's locks takes little time
	// ShareOf returns whose share of ClientLocks and ClientWaits a client uses. If nil, its own.
	ShareOf func(client string) string
}

// DefaultMemory is that of DefaultLimits.
const DefaultMemory = 32 << 20

// DefaultLimits are those of a table that may take DefaultMemory.
var DefaultLimits = LimitsOf(DefaultMemory)

// What one takes at most, in octets: a lock that is the only one of its file, with a long handle; a wait with a
// goroutine and a call to its client.
const (
	lockMemory = 320
	waitMemory = 8 << 10
)

// few is which part of its share a client may hold so that the second half is for it too.
const few = 256

// LimitsOf returns the limits of a table that may take so many octets.
func LimitsOf(memory int64) Limits {
	part := func(of, div, most int) int { return max(1, min(of/div, most)) }
	l := Limits{Locks: part(int(memory/2/lockMemory), 1, 1<<20), Waits: part(int(memory/2/waitMemory), 1, 1<<14)}
	l.ClientLocks, l.FileLocks = part(l.Locks, 8, 4096), part(l.Locks, 4, 1<<14)
	l.ClientWaits, l.FileWaits = part(l.Waits, 8, 64), part(l.Waits, 4, 256)
	return l
}

// Full reports whether who has mine of what may be most, of all of what may be limit, gets no more.
func Full(all, limit, mine, most int) bool {
	return all > limit || mine > most || all > limit-limit/2 && mine > max(1, most/few)
}

// Fill returns l with the defaults in place.
func (l Limits) Fill() Limits {
	for _, f := range []struct {
		to *int
		is int
	}{
		{&l.Locks, DefaultLimits.Locks},
		{&l.Waits, DefaultLimits.Waits},
		{&l.ClientLocks, DefaultLimits.ClientLocks},
		{&l.ClientWaits, DefaultLimits.ClientWaits},
		{&l.FileLocks, DefaultLimits.FileLocks},
		{&l.FileWaits, DefaultLimits.FileWaits},
	} {
		if *f.to == 0 {
			*f.to = f.is
		}
	}
	if l.ShareOf == nil {
		l.ShareOf = func(client string) string { return client }
	}
	return l
}

// Table keeps advisory locks on ranges of files in the memory of this process; [Locker] above it waits. Owners who wait for each other wait until one of them gives up: nothing looks for deadlocks, since the wait
// of one thread says nothing about the other threads of an owner.
//
// Table is the pure machine: it never waits, and has one owner at a time.
type Table struct {
	limits  Limits
	files   map[string]*file
	clients map[string]*holder
	shares  map[string]*holder // of one or more clients
	locks   int
	waits   int
}

// file has at least one lock: without, nobody waits.
type file struct {
	name  string
	locks []backend.Lock
	waits []*Wait // the oldest first
}

// client has at least one lock or wait.
type holder struct {
	locks, waits int
	files        map[*file]int // how many of them are in each; nil of a share
}

// Wait is a lock that somebody waits for.
type Wait struct {
	Lock backend.Lock
	// Over is closed when the lock was given or, if Err is not nil, will not be.
	Over chan struct{}
	Err  error

	file *file // nil: it is over
}

// New returns an empty table.
func NewTable(l Limits) *Table {
	return &Table{limits: l.Fill(), files: make(map[string]*file), clients: make(map[string]*holder), shares: make(map[string]*holder)}
}

// Len returns how many locks are held, and how many are waited for.
func (t *Table) Len() (locks, waits int) { return t.locks, t.waits }

// Holds reports whether a client holds a lock or waits for one.
func (t *Table) Holds(name string) bool { return t.clients[name] != nil }

// Test returns a lock in the way of l, or nil.
func (t *Table) Test(name string, l *backend.Lock) *backend.Lock {
	f := t.files[name]
	if f == nil {
		return nil
	}
	if i := f.obstacle(l); i >= 0 {
		held := f.locks[i]
		return &held
	}
	return nil
}

// obstacle returns the index of a lock in the way of l, or -1.
func (f *file) obstacle(l *backend.Lock) int {
	for i := range f.locks {
		if f.locks[i].Conflicts(l) {
			return i
		}
	}
	return -1
}

// Set gives l to its owner, in place of what he holds there. This may end waits: an exclusive lock may become shared. The
// error is a *backend.LockedError or backend.ErrNoLocks; then nothing has changed.
func (t *Table) Set(name string, l *backend.Lock) error {
	if held := t.Test(name, l); held != nil {
		return &backend.LockedError{Holder: *held}
	}
	f := t.files[name]
	if f == nil {
		f = &file{name: name}
	}
	if err := t.replace(f, l, true); err != nil {
		return err
	}
	t.files[name] = f
	t.grant(f, l)
	return nil
}

// Unlock takes the range of l from its owner, which may end waits. The error is backend.ErrNoLocks.
func (t *Table) Unlock(name string, l *backend.Lock) error {
	f := t.files[name]
	if f == nil {
		return nil
	}
	if err := t.replace(f, l, false); err != nil {
		return err
	}
	t.grant(f, l)
	return nil
}

// replace removes the range of l from what its owner holds in f and, with add, puts l in its place.
func (t *Table) replace(f *file, l *backend.Lock, add bool) error {
	piece := *l // with what it merges with
	var rest []backend.Lock
	for i := range f.locks {
		h := &f.locks[i]
		switch {
		case h.Owner != l.Owner:
		case add && h.Exclusive == l.Exclusive && touch(h, &piece):
			// What piece has grown by held no other lock of the owner.
			piece.Start, piece.End = min(piece.Start, h.Start), max(piece.End, h.End)
		case h.Start > l.End || h.End < l.Start:
			rest = append(rest, *h)
		default:
			if h.Start < l.Start {
				left := *h
				left.End = l.Start - 1
				rest = append(rest, left)
			}
			if h.End > l.End {
				right := *h
				right.Start = l.End + 1
				rest = append(rest, right)
			}
		}
	}
	if add {
		rest = append(rest, piece)
	}
	mine := func(h backend.Lock) bool { return h.Owner == l.Owner }
	before := 0
	for i := range f.locks {
		if mine(f.locks[i]) {
			before++
		}
	}
	more := len(rest) - before
	held := 0
	if c := t.shares[t.limits.ShareOf(l.Owner.Client)]; c != nil {
		held = c.locks
	}
	if more > 0 && (Full(t.locks+more, t.limits.Locks, held+more, t.limits.ClientLocks) || len(f.locks)+more > t.limits.FileLocks) {
		return backend.ErrNoLocks
	}
	f.locks = append(slices.DeleteFunc(f.locks, mine), rest...)
	t.count(f, l.Owner.Client, more, 0)
	return nil
}

// touch reports whether two ranges overlap or are neighbours.
func touch(a, b *backend.Lock) bool {
	return (a.End == backend.LockEnd || b.Start <= a.End+1) && (b.End == backend.LockEnd || a.Start <= b.End+1)
}

// count adds to what a client has in a file.
func (t *Table) count(f *file, name string, locks, waits int) {
	if locks == 0 && waits == 0 {
		return
	}
	t.locks, t.waits = t.locks+locks, t.waits+waits
	count(t.shares, t.limits.ShareOf(name), locks, waits)
	c := count(t.clients, name, locks, waits)
	if c.files == nil {
		c.files = make(map[*file]int)
	}
	if c.files[f] += locks + waits; c.files[f] == 0 {
		delete(c.files, f)
	}
}

func count(m map[string]*holder, name string, locks, waits int) *holder {
	c := m[name]
	if c == nil {
		c = &holder{}
		m[name] = c
	}
	c.locks, c.waits = c.locks+locks, c.waits+waits
	if c.locks == 0 && c.waits == 0 {
		delete(m, name)
	}
	return c
}

// Wait begins to wait for a lock that Set has refused with a *backend.LockedError. The error is
// backend.ErrNoLocks.
func (t *Table) Wait(name string, l *backend.Lock) (*Wait, error) {
	f, c := t.files[name], t.shares[t.limits.ShareOf(l.Owner.Client)]
	mine := 0
	if c != nil {
		mine = c.waits
	}
	if Full(t.waits+1, t.limits.Waits, mine+1, t.limits.ClientWaits) || len(f.waits) >= t.limits.FileWaits {
		return nil, backend.ErrNoLocks
	}
	w := &Wait{Lock: *l, Over: make(chan struct{}), file: f}
	f.waits = append(f.waits, w)
	t.count(f, l.Owner.Client, 0, 1)
	return w, nil
}

// Cancel ends a wait with err. It reports false if it was over before: then the lock was given, unless
// w.Err says why not.
func (t *Table) Cancel(w *Wait, err error) bool {
	f := w.file
	if f == nil {
		return false
	}
	f.waits = slices.DeleteFunc(f.waits, func(x *Wait) bool { return x == w })
	t.over(w, err)
	return true
}

func (t *Table) over(w *Wait, err error) {
	t.count(w.file, w.Lock.Owner.Client, 0, -1)
	w.file, w.Err = nil, err
	close(w.Over)
}

// grant gives locks of f to those who wait and whom nothing keeps any more, after the range of changed has become
// free or weaker, and forgets f if it has no locks.
//
// Choice: the oldest wait is looked at first, but a later one that fits is not kept waiting behind it,
// as in Linux. Who holds nothing and waits for nothing has nothing to do with the order.
func (t *Table) grant(f *file, changed *backend.Lock) {
	all := []*backend.Lock{changed} // a lock that is given in place of a stronger one may free others
	for len(all) > 0 {
		changed, all = all[0], all[1:]
		for _, w := range slices.Clone(f.waits) {
			if w.Lock.Start > changed.End || w.Lock.End < changed.Start || f.obstacle(&w.Lock) >= 0 {
				continue
			}
			err := t.replace(f, &w.Lock, true)
			f.waits = slices.DeleteFunc(f.waits, func(x *Wait) bool { return x == w })
			t.over(w, err)
			all = append(all, &w.Lock)
		}
	}
	if len(f.locks) == 0 {
		delete(t.files, f.name)
	}
}

// Release takes all locks from a client, and ends its waits with backend.ErrNoLocks.
func (t *Table) Release(name string) {
	c := t.clients[name]
	if c == nil {
		return
	}
	for f := range c.files {
		for _, w := range slices.Clone(f.waits) {
			if w.Lock.Owner.Client == name {
				t.Cancel(w, backend.ErrNoLocks)
			}
		}
		n := len(f.locks)
		f.locks = slices.DeleteFunc(f.locks, func(h backend.Lock) bool { return h.Owner.Client == name })
		if n -= len(f.locks); n > 0 {
			t.count(f, name, -n, 0)
			t.grant(f, &backend.Lock{End: backend.LockEnd})
		}
	}
}

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
