package juicefs

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/stag-rdma/stag/nfsdemo/backend"
)

// Locks are in the database, in one session that all servers keep alive: so they hold at all of them, and no server
// takes them along when it dies. An owner is 32 bits for the client, whose number is in an attribute of the volume's root,
// and 32 bits for its process.

var _ backend.Locker = (*FS)(nil)

// Names of attributes of the root.
const (
	sessionName = "trusted.stag.locks"   // the number of the session
	clientName  = "trusted.stag.client." // and the number of a client in hex: its name
)

// lockEnd is the end of all files for JuiceFS, whose arithmetic does not survive 2^64-1.
const lockEnd = math.MaxInt64

// maxLocks limits the locks of a file.
const maxLocks = 4096

// Waits between two tries to get a lock, which another server may have given back.
const (
	firstTry = 10 * time.Millisecond
	lastTry  = time.Second
)

// lockers are the clients that have a number, and the wakeup of those that wait.
type lockers struct {
	mu      sync.Mutex
	numbers map[string]uint32
	names   map[uint32]string
	freed   chan struct{} // closed when this server has given back a lock
}

// openLocks joins the session of locks, or makes it.
func (v *Volume) openLocks(uri string, cfg *Config) error {
	v.locks = lockers{numbers: make(map[string]uint32), names: make(map[uint32]string), freed: make(chan struct{})}
	conf := cfg.metaConfig()
	conf.NoBGJob = true
	conf.MountPoint = "stag locks"
	var b []byte
	switch st := v.m.GetXattr(v.ctx, meta.RootInode, sessionName, &b); {
	case st == 0 && len(b) == 8:
		conf.Sid = binary.BigEndian.Uint64(b)
	case st == 0:
		return fmt.Errorf("juicefs: the attribute %s of the volume's root has %d octets instead of 8: remove it while no server runs", sessionName, len(b))
	case st != meta.ENOATTR:
		return fmt.Errorf("juicefs: the session of locks: %w", st)
	}
	var err error
	if v.shared, err = newClient(pooled(uri, lockConns, serializable), conf); err != nil {
		return err
	}
	if _, err := v.shared.Load(false); err != nil {
		return fmt.Errorf("juicefs: the session of locks: %w", err)
	}
	if err := v.shared.NewSession(true); err != nil {
		return fmt.Errorf("juicefs: the session of locks: %w", err)
	}
	if b != nil {
		return nil
	}
	st := v.m.SetXattr(v.ctx, meta.RootInode, sessionName, binary.BigEndian.AppendUint64(nil, conf.Sid), meta.XattrCreate)
	if st == syscall.EEXIST { // another server was faster: this session stays empty
		err := errors.Join(v.shared.CloseSession(), v.shared.Shutdown())
		v.shared = nil
		if err != nil {
			return fmt.Errorf("juicefs: the session of locks: %w", err)
		}
		return v.openLocks(uri, cfg)
	}
	if st != 0 {
		return fmt.Errorf("juicefs: the session of locks: %w", st)
	}
	return nil
}

// number returns the number of a client. If it has none, and make is false, it is 0, which is nobody's.
func (v *Volume) number(client string, make bool) (uint32, error) {
	v.locks.mu.Lock()
	n := v.locks.numbers[client]
	v.locks.mu.Unlock()
	if n != 0 {
		return n, nil
	}
	h := fnv.New32a()
	h.Write([]byte(client))
	for n = max(h.Sum32(), 1); ; n = max(n+1, 1) {
		name, st := v.clientOf(n)
		if st == meta.ENOATTR && !make {
			return 0, nil
		}
		if st == meta.ENOATTR {
			if st = v.m.SetXattr(v.ctx, meta.RootInode, clientKey(n), []byte(client), meta.XattrCreate); st == syscall.EEXIST {
				name, st = v.clientOf(n)
			} else if st == 0 {
				name = client
			}
		}
		if st != 0 {
			return 0, status(st)
		}
		if name == client {
			break
		}
	}
	v.locks.mu.Lock()
	defer v.locks.mu.Unlock()
	v.locks.numbers[client], v.locks.names[n] = n, client
	return n, nil
}

func clientKey(n uint32) string { return fmt.Sprintf("%s%08x", clientName, n) }

// clientOf returns the client with a number.
func (v *Volume) clientOf(n uint32) (string, syscall.Errno) {
	v.locks.mu.Lock()
	name, ok := v.locks.names[n]
	v.locks.mu.Unlock()
	if ok {
		return name, 0
	}
	var b []byte
	st := v.m.GetXattr(v.ctx, meta.RootInode, clientKey(n), &b)
	return string(b), st
}

// ownerOf is an owner for JuiceFS.
func ownerOf(client uint32, id uint64) uint64 { return uint64(client)<<32 | id&math.MaxUint32 }

// kind is the type of a lock for JuiceFS.
func kind(exclusive bool) uint32 {
	if exclusive {
		return syscall.F_WRLCK
	}
	return syscall.F_RDLCK
}

// lockOf returns the file of a handle, and l within JuiceFS's limits.
func (f *FS) lockOf(handle []byte, l *backend.Lock) (meta.Ino, backend.Lock, error) {
	ino, _, err := f.parse(handle)
	own := *l
	own.Start, own.End = min(l.Start, lockEnd), min(l.End, lockEnd)
	return ino, own, err
}

// holder returns a lock that is in the way of l, or nil, and how many there are.
func (f *FS) holder(ctx context.Context, ino meta.Ino, l *backend.Lock) (*backend.LockedError, int, error) {
	all, _, err := f.v.lister.ListLocks(ctx, ino)
	if err != nil {
		return nil, 0, fmt.Errorf("juicefs: locks: %w", err)
	}
	me, err := f.v.number(l.Owner.Client, false)
	if err != nil {
		return nil, 0, err
	}
	for _, held := range all {
		if held.Owner == ownerOf(me, l.Owner.ID) || !l.Exclusive && held.Type != syscall.F_WRLCK || held.Start > l.End || held.End < l.Start {
			continue
		}
		name, st := f.v.clientOf(uint32(held.Owner >> 32))
		if st != 0 && st != meta.ENOATTR {
			return nil, 0, status(st)
		}
		h := backend.Lock{
			Owner:     backend.LockOwner{Client: name, ID: held.Owner & math.MaxUint32},
			Exclusive: held.Type == syscall.F_WRLCK, Start: held.Start, End: held.End,
		}
		if h.End >= lockEnd {
			h.End = backend.LockEnd
		}
		return &backend.LockedError{Holder: h}, len(all), nil
	}
	return nil, len(all), nil
}

// TestLock implements backend.Locker.
func (f *FS) TestLock(ctx context.Context, handle []byte, l *backend.Lock) error {
	ino, own, err := f.lockOf(handle, l)
	if err != nil {
		return err
	}
	locked, _, err := f.holder(ctx, ino, &own)
	if err == nil && locked != nil {
		return locked
	}
	return err
}

// HoldsLock implements backend.Locker.
func (f *FS) HoldsLock(ctx context.Context, handle []byte, l *backend.Lock) (bool, error) {
	ino, own, err := f.lockOf(handle, l)
	if err != nil {
		return false, err
	}
	client, err := f.v.number(l.Owner.Client, false)
	if err != nil || client == 0 {
		return false, err
	}
	all, _, err := f.v.lister.ListLocks(ctx, ino)
	if err != nil {
		return false, fmt.Errorf("juicefs: locks: %w", err)
	}
	all = slices.DeleteFunc(all, func(held meta.PLockItem) bool {
		return held.Owner != ownerOf(client, l.Owner.ID) || l.Exclusive && held.Type != syscall.F_WRLCK
	})
	slices.SortFunc(all, func(a, b meta.PLockItem) int { return cmp.Compare(a.Start, b.Start) })
	next := own.Start // the first octet that is not known to be held
	for _, held := range all {
		if held.Start <= next && held.End >= next {
			if held.End >= own.End {
				return true, nil
			}
			next = held.End + 1
		}
	}
	return false, nil
}

// SetLock implements backend.Locker. Who waits asks again until he gets it: nobody stands in line.
func (f *FS) SetLock(ctx context.Context, handle []byte, l *backend.Lock, wait bool) error {
	ino, own, err := f.lockOf(handle, l)
	if err != nil {
		return err
	}
	client, err := f.v.number(l.Owner.Client, true)
	if err != nil {
		return err
	}
	for pause := firstTry; ; pause = min(2*pause, lastTry) {
		freed := f.v.freed()
		locked, n, err := f.holder(ctx, ino, &own)
		switch {
		case err != nil:
			return err
		case n >= maxLocks:
			return backend.ErrNoLocks
		case locked == nil:
			st := f.v.shared.Setlk(f.v.ctx, ino, ownerOf(client, l.Owner.ID), false, kind(l.Exclusive), own.Start, own.End, uint32(l.Owner.ID))
			if st != syscall.EAGAIN {
				return gone(st)
			}
			continue // it was taken at this moment
		case !wait:
			return locked
		}
		select {
		case <-time.After(pause):
		case <-freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Unlock implements backend.Locker.
func (f *FS) Unlock(_ context.Context, handle []byte, l *backend.Lock) error {
	ino, own, err := f.lockOf(handle, l)
	if err != nil {
		return err
	}
	client, err := f.v.number(l.Owner.Client, false)
	if err != nil || client == 0 {
		return err
	}
	return f.v.unlock(ino, ownerOf(client, l.Owner.ID), own.Start, own.End)
}

// unlock gives back a range, and wakes those who wait here.
func (v *Volume) unlock(ino meta.Ino, owner, start, end uint64) error {
	st := v.shared.Setlk(v.ctx, ino, owner, false, syscall.F_UNLCK, start, end, 0)
	if st != 0 && st != syscall.ENOENT { // a file that is gone has no locks
		return status(st)
	}
	v.locks.mu.Lock()
	defer v.locks.mu.Unlock()
	close(v.locks.freed)
	v.locks.freed = make(chan struct{})
	return nil
}

func (v *Volume) freed() chan struct{} {
	v.locks.mu.Lock()
	defer v.locks.mu.Unlock()
	return v.locks.freed
}

// ReleaseLocks implements backend.Locker, for all files of the volume.
func (f *FS) ReleaseLocks(_ context.Context, client string) error {
	n, err := f.v.number(client, false)
	if err != nil || n == 0 {
		return err
	}
	s, err := f.v.session()
	if err != nil {
		return err
	}
	for _, held := range s.Plocks {
		if uint32(held.Owner>>32) == n {
			if err := f.v.unlock(held.Inode, held.Owner, 0, lockEnd); err != nil {
				return err
			}
		}
	}
	return nil
}

// session returns the session of locks with all of them.
func (v *Volume) session() (*meta.Session, error) {
	var b []byte
	if st := v.m.GetXattr(v.ctx, meta.RootInode, sessionName, &b); st != 0 {
		return nil, status(st)
	}
	if len(b) != 8 {
		return nil, fmt.Errorf("juicefs: the attribute %s of the volume's root has %d octets instead of 8", sessionName, len(b))
	}
	s, err := v.shared.GetSession(binary.BigEndian.Uint64(b), true)
	if err != nil {
		return nil, fmt.Errorf("juicefs: the session of locks: %w", err)
	}
	return s, nil
}
