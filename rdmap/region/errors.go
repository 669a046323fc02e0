package region

import "errors"

// Refusals of Lookup and RemoteInvalidate. Each is a fault of the peer, and the operation determines
// the Terminate for it (RFC 5041 Section 7.2, RFC 5040 Section 4.8). They are returned as they are,
// so that a refusal allocates nothing.
var (
	// ErrInvalidSTag: the STag was never registered, or was invalidated.
	ErrInvalidSTag = errors.New("region: invalid STag")
	// ErrNotAssociated: the STag belongs to another stream of the domain.
	ErrNotAssociated = errors.New("region: STag not associated with this stream")
	// ErrAccess: the region lacks a right.
	ErrAccess = errors.New("region: access rights violation")
	// ErrWrap: TO plus length passes 2^64.
	ErrWrap = errors.New("region: tagged offset wraps")
	// ErrBounds: octets outside the region or Window.
	ErrBounds = errors.New("region: base or bounds violation")
)

// Errors of the local user.
var (
	// ErrPinned: the deadline passed while the region was still in use. The STag is invalid, but
	// the memory must not be reused yet.
	ErrPinned = errors.New("region: still in use at the deadline")
	// ErrClosed: the Table is closed.
	ErrClosed = errors.New("region: table closed")
	// ErrTooMany: the domain already holds MaxRegions registrations.
	ErrTooMany = errors.New("region: too many registrations (invalidate those that are no longer used)")
	// ErrOpen: the Window is open, or its last opening is still in use; see Region.Invalidate.
	ErrOpen = errors.New("region: window is open or still in use (invalidate its Region first)")
	// ErrRights: unknown bits in Access.
	ErrRights = errors.New("region: unknown access rights")
	// ErrBase: base plus length of the region passes 2^64.
	ErrBase = errors.New("region: base out of range")
	// ErrCard: an RDMA card carries the connection, and would pass over what a Memory guards or persists.
	ErrCard = errors.New("region: an RDMA card names plain memory only (use Register or a Window)")
	// ErrNotPersistent: Persist on memory that does not outlive the process.
	ErrNotPersistent = errors.New("region: memory is not persistent (package pmem has persistent memory)")
)
