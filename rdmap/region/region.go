package region

import "context"

// Region is the handle of one registration: a small value, to be copied freely. The
// zero Region is no registration; it is invalid and invalidating it does nothing.
type Region struct {
	e    *entry
	stag STag
}

// STag returns the steering tag to advertise; 0 for the zero Region.
func (r Region) STag() STag { return r.stag }

// Valid reports whether the STag can still be used. A peer may have invalidated it, or
// the memory may have failed.
func (r Region) Valid() bool {
	if r.e == nil || !r.e.use(r.stag) {
		return false
	}
	r.e.unpin()
	return true
}

// Revoke makes the STag invalid at once, without waiting for those who are using the
// memory now. It reports whether it was valid.
func (r Region) Revoke() bool { return r.e != nil && r.e.revoke(r.stag) }

// Invalidate makes the STag invalid and returns when nobody of the engine uses the
// memory any more; then it is the caller's again. It returns ErrPinned if ctx ends
// first: the STag is invalid all the same, the memory must be left alone, and
// Invalidate may be called again. It is idempotent, also after the peer or
// Table.Close invalidated the STag.
func (r Region) Invalidate(ctx context.Context) error {
	if r.e == nil {
		return nil
	}
	r.e.revoke(r.stag)
	return r.e.drain(ctx, r.stag)
}
