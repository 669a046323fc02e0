package region

import "context"

// Region is the handle of one registration: a small value that may be copied freely. The zero
// Region stands for no registration: it is invalid, and invalidating it does nothing.
type Region struct {
	e    *entry
	stag STag
	dev  Named // what a card calls the memory; nil: the engine names it, by stag
}

// STag returns the steering tag to advertise; 0 for the zero Region.
func (r Region) STag() STag {
	if r.dev != nil {
		return r.dev.STag()
	}
	return r.stag
}

// Base returns the TO of the first octet, for memory from Register or a Window. With the engine it is 0, so that a TO
// tells the peer nothing about addresses; a card may have no choice.
func (r Region) Base() uint64 {
	if r.dev != nil {
		return r.dev.Base()
	}
	return 0
}

// Valid reports whether the STag can still be used. The peer may have invalidated it, or
// the memory may have failed. Of invalidations by a card it knows nothing.
func (r Region) Valid() bool {
	if r.e == nil || !r.e.use(r.stag) {
		return false
	}
	r.e.unpin()
	return true
}

// Revoke makes the STag invalid at once, without waiting for present users of the memory. It
// reports whether the STag was valid.
func (r Region) Revoke() bool {
	if r.e == nil {
		return false
	}
	if r.dev != nil {
		_ = r.dev.Drop(noWait)
	}
	return r.e.revoke(r.stag)
}

// noWait is a context that has ended.
var noWait = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// Invalidate makes the STag invalid, and returns when the engine no longer uses the memory, which
// then belongs to the caller again. If ctx ends first, it returns ErrPinned: the STag is invalid, the
// memory must not be reused, and Invalidate may be called again. It is idempotent, even after the
// peer or Table.Close has invalidated the STag.
func (r Region) Invalidate(ctx context.Context) error {
	if r.e == nil {
		return nil
	}
	r.e.revoke(r.stag)
	if r.dev != nil {
		if err := r.dev.Drop(ctx); err != nil {
			return err
		}
	}
	return r.e.drain(ctx, r.stag)
}

// Namer gives memory to a card, so that peers can reach it.
type Namer interface {
	// Name lets the peer of one connection reach mem as access allows, until Drop. Errors: ErrRights for what a card
	// cannot do.
	Name(mem []byte, access Access) (Named, error)
}

// Named is memory that a card has named.
type Named interface {
	STag() STag
	Base() uint64 // TO of the first octet
	// Drop takes the name back, also if the peer has invalidated it or the connection has ended, and returns nil when
	// the card no longer touches the memory. If ctx ends first it returns ErrPinned, and may be called again: the name is
	// being taken back all the same. It is idempotent.
	Drop(ctx context.Context) error
}

// SetNamer has n name what Register and Window.Open give to peers from now on.
func (t *Table) SetNamer(n Namer) { t.namer = n }

// ofPeer are the rights for which a card has to name the memory.
const ofPeer = accessAll &^ (RemoteInvalidate | ReadSink | Scratch)

// named has a card name the memory of r, if t is that of a card and the peer has rights.
func (t *Table) named(r Region, mem []byte, access Access) (Region, error) {
	if t.namer == nil || access&ofPeer == 0 || len(mem) == 0 {
		return r, nil
	}
	dev, err := t.namer.Name(mem, access)
	if err != nil {
		r.e.revoke(r.stag)
		return Region{}, err
	}
	r.dev = dev
	return r, nil
}
