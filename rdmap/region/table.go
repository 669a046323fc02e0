package region

import (
	"context"
	"sync/atomic"
)

// Table is one stream's view of a protection domain: the regions that it registers, and those
// that the domain shares (RFC 5041 Section 8.2).
type Table struct {
	dom    *Domain
	name   string      // see SetPrincipal
	closed atomic.Bool // written under dom.mu
	namer  Namer       // of a card; nil: none
}

// NewTable returns a Table with a domain of its own.
func NewTable() *Table { return NewDomain().NewTable() }

// SetPrincipal names whom the peers of this Table are: wrong guesses at hashes of a Memory count together
// for all Tables of a name. A Table without a name counts its own. It must be called before the first
// Lookup.
func (t *Table) SetPrincipal(name string) { t.name = name }

// Domain returns the protection domain.
func (t *Table) Domain() *Domain { return t.dom }

// Live returns Domain().Live().
func (t *Table) Live() int { return t.dom.Live() }

// Options has the settings of a registration.
type Options struct {
	Access Access
	// Base is the TO of the first octet. Choice: 0 by default, so that a TO is an
	// offset and tells the peer nothing about addresses.
	Base uint64

	window bool // made closed
}

// Register makes mem reachable on this stream, from the TO Region.Base. mem is lent until Invalidate has
// returned nil; until then the engine and the peer read and write it as access allows. Errors:
// ErrClosed, ErrTooMany, ErrRights.
func (t *Table) Register(mem []byte, access Access) (Region, error) {
	r, err := t.dom.install(t, nil, mem, Options{Access: access})
	if err != nil {
		return r, err
	}
	return t.named(r, mem, access)
}

// RegisterMemory is like Register, for any Memory. Further errors are ErrBase and
// ErrNotVerifiable with the right Verify, and ErrCard. It does not take mem: the owner has to close it.
func (t *Table) RegisterMemory(mem Memory, o Options) (Region, error) {
	if t.namer != nil && o.Access&ofPeer != 0 {
		return Region{}, ErrCard
	}
	return t.dom.install(t, mem, mem.Bytes(), o)
}

// RegisterShared makes mem reachable on all streams of the domain. A peer cannot invalidate it: RFC
// 5040 Section 8.1 forbids that for an STag that streams share. Errors: ErrTooMany, ErrRights,
// ErrBase, ErrNotVerifiable.
func (d *Domain) RegisterShared(mem Memory, o Options) (Region, error) {
	return d.install(nil, mem, mem.Bytes(), o)
}

// Lookup finds the n octets at TO to of stag for an operation that needs all the rights in need,
// and pins them. It checks, exact to the octet, in the order of RFC 5040 Section 7.2:
// ErrInvalidSTag, ErrNotAssociated, ErrAccess, ErrWrap, ErrBounds. The caller must call Release
// on the View as soon as it no longer touches the memory. Zero-length operations, for which the
// STag must not be checked, do not call Lookup.
func (t *Table) Lookup(stag STag, to uint64, n uint32, need Access) (View, error) {
	e := t.dom.find(stag)
	if e == nil || t.closed.Load() || !e.use(stag) {
		return View{}, ErrInvalidSTag
	}
	off, err := e.check(t, to, uint64(n), need)
	if err != nil {
		e.unpin()
		return View{}, err
	}
	return View{e: e, data: e.data[off : off+uint64(n) : off+uint64(n)], off: int(off)}, nil
}

// check runs under a pin and returns the offset of to in e.data.
func (e *entry) check(t *Table, to, n uint64, need Access) (off uint64, err error) {
	off = to - e.base
	switch size := uint64(len(e.data)); {
	case e.owner != nil && e.owner != t:
		return 0, ErrNotAssociated
	case e.access&need != need:
		return 0, ErrAccess
	case n > 0 && to+(n-1) < to:
		return 0, ErrWrap
	case to < e.base || off > size || n > size-off:
		return 0, ErrBounds
	}
	return off, nil
}

// RemoteInvalidate executes a Send with Invalidate: it makes stag invalid at once. It does not
// wait, because it runs in the goroutine that reads the stream, and no operation of that stream
// can be using stag except the sending of a Response. The owner must still call Region.Invalidate
// before it reuses the memory. Errors: ErrInvalidSTag; ErrNotAssociated, also for a shared STag;
// ErrAccess without the right RemoteInvalidate. RDMAP reports each as "STag cannot be
// invalidated" (RFC 5040 Section 4.8).
func (t *Table) RemoteInvalidate(stag STag) error {
	e := t.dom.find(stag)
	if e == nil || !e.use(stag) {
		return ErrInvalidSTag
	}
	defer e.unpin()
	switch {
	case e.owner != t:
		return ErrNotAssociated
	case e.access&RemoteInvalidate == 0:
		return ErrAccess
	}
	e.revoke(stag)
	return nil
}

// Revoke makes stag invalid at once, if this Table has registered it, without waiting for present
// users of the memory. It reports whether stag was valid.
func (t *Table) Revoke(stag STag) bool {
	e := t.dom.find(stag)
	if e == nil || !e.use(stag) {
		return false
	}
	defer e.unpin()
	return e.owner == t && e.revoke(stag)
}

// Close is called when the stream ends. It refuses new registrations, invalidates all
// registrations of the Table at once, and waits until none is in use. It returns ErrPinned if ctx
// ends first. It is idempotent. Shared registrations stay.
func (t *Table) Close(ctx context.Context) error {
	var all []Region
	t.dom.mu.Lock()
	t.closed.Store(true)
	t.dom.each(func(e *entry) {
		if e.owner != t {
			return
		}
		if e.window = false; e.state.Load() == stateFree { // a Window that is closed
			t.dom.put(e)
			return
		}
		all = append(all, Region{e: e, stag: e.stag()})
	})
	t.dom.mu.Unlock()
	for _, r := range all {
		r.Revoke()
	}
	for _, r := range all {
		if err := r.e.drain(ctx, r.stag); err != nil {
			return err
		}
	}
	return nil
}
