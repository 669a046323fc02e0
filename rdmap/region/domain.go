package region

import (
	"crypto/rand"
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"
)

// MaxRegions is the maximum number of registrations in one Domain: a quarter of the 24-bit index
// space, so that STags stay sparse.
const MaxRegions = 1 << 22

const minSlots = 16

// Domain is a protection domain (RFC 5041 Section 8.2). It is safe for concurrent use.
type Domain struct {
	// slots is a direct-mapped array whose length is a power of two: the entry of an
	// STag is at Index modulo that length. No two live entries share a slot, since
	// Register draws another index if the slot is taken; and none will after growth,
	// since numbers that differ modulo n differ modulo 2n. So a lookup is one load, and
	// readers need no lock: an array that growth has replaced still holds its
	// entries, and each entry knows its own STag.
	slots atomic.Pointer[[]atomic.Pointer[entry]]

	mu     sync.Mutex
	free   []*entry
	live   int   // registered, or revoked and still pinned
	key    uint8 // of the last STag
	random [64]byte
	left   int // unused octets of random
}

// NewDomain returns an empty protection domain.
func NewDomain() *Domain { return &Domain{} }

// NewTable returns a Table for one more stream of the domain.
func (d *Domain) NewTable() *Table { return &Table{dom: d} }

// Live returns the number of registrations that are valid, or invalid but still in use. It is 0
// if nothing leaks.
func (d *Domain) Live() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.live
}

// Pinned returns the number of registrations that are invalid but still in use. It looks at all
// of them, so it is for statistics, not for a hot path.
func (d *Domain) Pinned() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	d.each(func(e *entry) {
		if e.state.Load()&revokedBit != 0 {
			n++
		}
	})
	return n
}

// each calls f for every entry in use; d.mu is held.
func (d *Domain) each(f func(*entry)) {
	p := d.slots.Load()
	if p == nil {
		return
	}
	for i := range *p {
		if e := (*p)[i].Load(); e != nil {
			f(e)
		}
	}
}

// find returns the entry in the slot of stag, or nil. Only pin can tell whether it is the entry of
// that STag.
func (d *Domain) find(stag STag) *entry {
	p := d.slots.Load()
	if p == nil {
		return nil
	}
	s := *p
	return s[int(stag.Index())&(len(s)-1)].Load()
}

// install takes a free entry, fills it and makes it live.
func (d *Domain) install(owner *Table, mem Memory, data []byte, o Options) (Region, error) {
	if o.Access&^accessAll != 0 {
		return Region{}, ErrRights
	}
	if o.Base > math.MaxUint64-uint64(len(data)) {
		return Region{}, ErrBase
	}
	if o.Access&Verify != 0 {
		if err := Verifiable(mem); err != nil {
			return Region{}, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if owner != nil && owner.closed.Load() {
		return Region{}, ErrClosed
	}
	if d.live >= MaxRegions {
		return Region{}, ErrTooMany
	}
	d.grow()
	stag, slot := d.draw()
	e := d.entry()
	e.owner, e.mem, e.data, e.base, e.access = owner, mem, data, o.Base, o.Access
	e.high = 0
	e.guard, _ = mem.(Guarded)
	e.medium, _ = mem.(ReadBacker)
	if RaceDetector && e.guard == nil && !o.window && len(data) > 0 {
		e.uses = enlist(data, o.Access, owner == nil)
	}
	if mem != nil {
		e.fate = joinFate(mem)
	} else if o.Access&Verify != 0 {
		e.fate = new(fate)
	}
	if w, ok := mem.(Watched); ok {
		e.failed = w.Failed()
	}
	e.home = stag.Index()
	if o.window {
		e.window, e.whole, e.data = true, data, nil
		e.state.Store(stateFree)
	} else {
		e.state.Store(uint64(stag) << 32)
	}
	slot.Store(e)
	d.live++
	return Region{e: e, stag: stag}, nil
}

// grow keeps at most half of the slots in use, so that draw needs at most two attempts on average.
func (d *Domain) grow() {
	p := d.slots.Load()
	if p != nil && 2*(d.live+1) <= len(*p) {
		return
	}
	n := minSlots
	if p != nil {
		n = 2 * len(*p)
	}
	s := make([]atomic.Pointer[entry], n)
	d.each(func(e *entry) { s[int(e.home)&(n-1)].Store(e) })
	d.slots.Store(&s)
}

// draw returns an STag whose slot is empty. Choice: the key is a counter of the domain, so that no
// STag comes back within 255 registrations.
func (d *Domain) draw() (STag, *atomic.Pointer[entry]) {
	s := *d.slots.Load()
	d.key++
	for {
		stag := STag(d.rand24()<<8 | uint32(d.key))
		slot := &s[int(stag.Index())&(len(s)-1)]
		if stag != 0 && slot.Load() == nil {
			return stag, slot
		}
	}
}

// rand24 returns 24 random bits. d.random saves a system call per registration.
func (d *Domain) rand24() uint32 {
	if d.left < 4 {
		_, _ = rand.Read(d.random[:]) // never fails, by its documentation
		d.left = len(d.random)
	}
	d.left -= 4
	return binary.LittleEndian.Uint32(d.random[d.left:]) >> 8
}

func (d *Domain) entry() *entry {
	if n := len(d.free); n > 0 {
		e := d.free[n-1]
		d.free[n-1] = nil
		d.free = d.free[:n-1]
		return e
	}
	return &entry{dom: d}
}

// recycle frees an entry that is revoked and has no pin, or closes it if it is a Window.
// It is called exactly once per registration or opening.
func (d *Domain) recycle(e *entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.window {
		e.shut()
		return
	}
	d.put(e)
}

// put frees an entry that nobody can pin any more. d.mu is held.
func (d *Domain) put(e *entry) {
	s := *d.slots.Load()
	s[int(e.home)&(len(s)-1)].Store(nil)
	if e.mem != nil {
		leaveFate(e.mem)
	}
	if e.uses != nil {
		strike(e.data)
		e.uses = nil
	}
	e.mem, e.owner, e.whole = nil, nil, nil
	e.guard, e.fate, e.failed, e.medium = nil, nil, nil, nil
	e.epoch++
	e.shut()
	d.free = append(d.free, e)
	d.live--
}

// shut ends a registration or opening and wakes those who wait for that. Domain.mu is held.
func (e *entry) shut() {
	e.data = nil
	e.state.Store(stateFree)
	if e.wait != nil {
		close(e.wait)
		e.wait = nil
	}
}

// waiter returns a channel that is closed when stag is no longer in use, nil if it is not.
func (d *Domain) waiter(e *entry, stag STag) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !e.busy(stag) {
		return nil
	}
	if e.wait == nil {
		e.wait = make(chan struct{})
	}
	return e.wait
}
