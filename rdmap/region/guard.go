package region

import "slices"

import "errors"

// ErrRegionLost: the octets of a memory are gone, or are no longer those of its medium: its file
// was truncated or removed, or an access faulted. It is final for the Memory. The process goes
// on, but the streams that use the memory end.
var ErrRegionLost = errors.New("region: memory lost")

// Guarded is a Memory whose octets may be accessed only by its methods, because they can vanish
// (a mapped file that somebody truncates), or because it tracks stores (a crash model). The
// methods may be called from several goroutines at once. The result of concurrent stores to the
// same octets is undefined, as usual.
//
// A fault on access, or EFAULT from a system call on the octets, is returned as an error for
// which errors.Is(err, ErrRegionLost) holds. It is final: from then on Persist returns it too.
type Guarded interface {
	Memory
	// Store copies p to the octets at off. It borrows p.
	Store(off int, p []byte) error
	// Load copies the octets at off to p. It borrows p.
	Load(p []byte, off int) error
	// Guard runs f, which may touch the n octets of Bytes at off. It is for what Store and Load
	// cannot do: hashes, atomic operations, and system calls that read or write the memory. It
	// returns the error of f. An EFAULT of f is attributed to this memory, so f should touch no
	// other Guarded memory.
	Guard(off, n int, f func() error) error
}

// Range is a piece of a Memory: N octets at Off.
type Range struct{ Off, N int }

// Within reports whether r lies within size octets. No sum overflows.
func (r Range) Within(size int) bool {
	return r.Off >= 0 && r.N >= 0 && r.Off <= size && r.N <= size-r.Off
}

// AllWithin reports whether all of rs lie within size octets.
func AllWithin(rs []Range, size int) bool {
	return !slices.ContainsFunc(rs, func(r Range) bool { return !r.Within(size) })
}

// RangePersister is a Memory that can persist several ranges with one flush.
type RangePersister interface {
	Memory
	// PersistRanges is Persist for all of rs. It borrows rs.
	PersistRanges(rs []Range) error
}

// Watched is a Memory that reports its failure. Once Failed is closed, every registration of it is
// invalid, in every domain. With any other Memory the engine knows only of the failures that it has
// seen itself.
type Watched interface {
	Memory
	// Failed returns a channel that is closed at the first final error. It always returns the same
	// channel.
	Failed() <-chan struct{}
	// Err returns the first final error, or nil.
	Err() error
}

// PersistRanges makes all of rs durable: in one call if mem is a RangePersister, otherwise one by
// one until the first error, which it returns. It borrows rs.
func PersistRanges(mem Memory, rs []Range) error {
	if p, ok := mem.(RangePersister); ok {
		return p.PersistRanges(rs)
	}
	for _, r := range rs {
		if err := mem.Persist(r.Off, r.N); err != nil {
			return err
		}
	}
	return nil
}

// CopyIn copies p, which is borrowed, to the first octets of the view. The engine uses it to place
// data. The error is nil for memory that is not Guarded. CopyIn panics if p is longer than the view.
func (v *View) CopyIn(p []byte) error {
	dst := v.data[:len(p)]
	if g := v.e.guarded(); g != nil {
		return g.Store(v.off, p)
	}
	copy(dst, p)
	return nil
}

// CopyOut copies len(p) octets at off of the view to p. It panics if they extend beyond the end of
// the view. Otherwise it is like CopyIn.
func (v *View) CopyOut(p []byte, off int) error {
	src := v.data[off : off+len(p)]
	if g := v.e.guarded(); g != nil {
		return g.Load(p, v.off+off)
	}
	copy(p, src)
	return nil
}

// Guarded reports whether the memory is Guarded: its octets may then be accessed only by CopyIn,
// CopyOut and Guard.
func (v *View) Guarded() bool { return v.e != nil && v.e.guarded() != nil }

// Guard runs f, which may touch the octets of the view, but no other Guarded memory. Otherwise it
// is like Guarded.Guard.
func (v *View) Guard(f func() error) error {
	if g := v.e.guarded(); g != nil {
		return g.Guard(v.off, len(v.data), f)
	}
	return f()
}
