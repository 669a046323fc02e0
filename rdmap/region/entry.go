package region

import (
	"context"
	"sync/atomic"
)

// The state of an entry is one word, so that "is this still the STag I mean" and "I am
// using it now" are one atomic step:
//
//	bits 63-32  STag; 0: the entry is free
//	bit  31     revoked: no new pins
//	bits 30-0   pins
//
// A free entry counts as revoked, and so does a closed Window. Otherwise STag 0, which any
// peer can send, would match it: a lookup that found the entry in its slot just before it was
// freed would pin it, and the next registration would overwrite that pin.
//
// Transitions: free -> live (install) -> live with pins and back (pin, unpin) ->
// revoked (revoke) -> free (Domain.recycle, called by revoke if there is no pin,
// otherwise by the last unpin).
const (
	revokedBit = 1 << 31
	pinMask    = revokedBit - 1
	stateFree  = revokedBit
)

// entry is one registration. The fields below state are written before the state becomes live and
// after the last pin is gone, and read only under a pin. Domain.mu guards the last group.
type entry struct {
	state  atomic.Uint64
	data   []byte
	mem    Memory          // nil: plain slice
	guard  Guarded         // mem, if it is Guarded
	failed <-chan struct{} // of mem; nil if it is not Watched
	medium ReadBacker      // mem, if it has a medium below its octets
	owner  *Table          // nil: shared by the domain
	dom    *Domain
	base   uint64
	access Access
	fate   *fate // of mem
	uses   *uses // of data, in builds with the race detector
	high   int   // with Scratch: nothing was placed from here on; the reader of the stream owns it

	// Under Domain.mu.
	key    uint8         // of the last opening of a Window
	home   uint32        // Index of the STag, which determines the slot
	epoch  uint64        // how often the entry was freed
	window bool          // it is a Window, which outlives its openings
	whole  []byte        // all octets of a Window
	wait   chan struct{} // made by the first waiter, closed by shut
}

// pin adds a pin if the entry is live under stag.
func (e *entry) pin(stag STag) bool {
	for {
		s := e.state.Load()
		if STag(s>>32) != stag || s&revokedBit != 0 || s&pinMask == pinMask {
			return false
		}
		if e.state.CompareAndSwap(s, s+1) {
			return true
		}
	}
}

// use is pin, but fails if the memory has failed. So the registrations of that memory become invalid
// in all domains at once, and nobody has to look for them.
func (e *entry) use(stag STag) bool {
	if !e.pin(stag) {
		return false
	}
	if e.fate != nil && e.dead() {
		e.unpin()
		return false
	}
	return true
}

// dead reports whether the memory has failed.
func (e *entry) dead() bool {
	select {
	case <-e.failed:
		return true
	default:
		return e.fate.lost.Load()
	}
}

// unpin removes a pin, and frees the entry if it is revoked and that was the last pin.
func (e *entry) unpin() {
	if s := e.state.Add(^uint64(0)); s&revokedBit != 0 && s&pinMask == 0 {
		e.dom.recycle(e)
	}
}

// revoke makes stag invalid, and frees the entry if nobody uses it. It reports whether this call did
// so: that is true once per registration.
func (e *entry) revoke(stag STag) bool {
	for {
		s := e.state.Load()
		if STag(s>>32) != stag || s&revokedBit != 0 {
			return false
		}
		if !e.state.CompareAndSwap(s, s|revokedBit) {
			continue
		}
		if s&pinMask == 0 {
			e.dom.recycle(e)
		}
		return true
	}
}

// drain waits until stag, which is revoked, is no longer in use.
func (e *entry) drain(ctx context.Context, stag STag) error {
	if !e.busy(stag) {
		return nil
	}
	free := e.dom.waiter(e, stag)
	if free == nil {
		return nil
	}
	select {
	case <-free:
		return nil
	case <-ctx.Done():
	}
	// Results beat cancellation.
	if e.busy(stag) {
		return ErrPinned
	}
	return nil
}

// busy reports whether stag is invalid but still in use.
func (e *entry) busy(stag STag) bool { return e.state.Load()>>31 == uint64(stag)<<1|1 }

func (e *entry) stag() STag { return STag(e.state.Load() >> 32) }
