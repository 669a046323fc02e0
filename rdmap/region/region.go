package region

import "context"

// Region is the handle of one registration: a small value that may be copied freely. The zero
// Region stands for no registration: it is invalid, and invalidating it does nothing.
type Region struct {
	e    *entry
	stag STag
}

// STag returns the steering tag to advertise; 0 for the zero Region.
func (r Region) STag() STag { return r.stag }

// Valid reports whether the STag can still be used. The peer may have invalidated it, or
// the memory may have failed.
func (r Region) Valid() bool {
	if r.e == nil || !r.e.use(r.stag) {
		return false
	}
	r.e.unpin()
	return true
}

// Revoke makes the STag invalid at once, without waiting for present users of the memory. It
// reports whether the STag was valid.
func (r Region) Revoke() bool { return r.e != nil && r.e.revoke(r.stag) }

// Invalidate makes the STag invalid, and returns when the engine no longer uses the memory, which
// then belongs to the caller again. If ctx ends first, it returns ErrPinned: the STag is invalid, the
// memory must not be reused, and Invalidate may be called again. It is idempotent, even after the
// peer or Table.Close has invalidated the STag.
func (r Region) Invalidate(ctx context.Context) error {
	if r.e == nil {
		return nil
	}
	r.e.revoke(r.stag)
	return r.e.drain(ctx, r.stag)
}
