package credits

// maxCredits bounds every window and every grant, whatever was configured. It is far above what a
// connection can use, and fits into an int on every machine.
const maxCredits = 1 << 20

// Requester is the window of one sender of calls on one connection. The zero
// value asks for one credit. Not safe for concurrent use.
//
// A lowered grant never cancels calls in flight: the window closes until
// enough of them are answered.
type Requester struct {
	asked    uint32 // credits asked for in every call, and the cap of a grant
	granted  uint32 // latest grant, 0 before the first
	inFlight uint32 // calls sent and not answered
	dones    uint32 // RDMA_DONEs sent since the latest grant
	keepDone bool   // hold a credit in hand for an RDMA_DONE
}

// NewRequester returns a window that asks for n credits and never uses more,
// whatever is granted. n is 1 to 2^20; values outside count as the
// nearest inside.
func NewRequester(n uint32) Requester { return Requester{asked: clamp(n)} }

// clamp returns the value in [1, maxCredits] nearest to n.
func clamp(n uint32) uint32 { return min(max(n, 1), maxCredits) }

// Request returns the value of rdma_credit in a call: the credits asked for,
// at least 1 (RFC 8166 Section 3.3.1).
func (r *Requester) Request() uint32 { return max(r.asked, 1) }

// Window returns how many calls may be in flight now: 1 before the first
// reply, then the lower of requested and granted, at least 1.
func (r *Requester) Window() int { return int(max(min(r.asked, r.granted), 1)) }

// Take takes a credit for one call, and reports whether there was one. Call it before the call is
// sent.
func (r *Requester) Take() bool {
	if r.Available() == 0 {
		return false
	}
	r.inFlight++
	return true
}

// Release gives back the credit of a call that was answered, by a reply or by RDMA_ERROR. A
// cancelled call keeps its credit until then, since its message still holds a receive of the
// peer. It reports false, and changes nothing, when no call is in flight.
func (r *Requester) Release() bool {
	if r.inFlight == 0 {
		return false
	}
	r.inFlight--
	return true
}

// Grant takes the grant of a reply or RDMA_ERROR. It is in force at once and
// replaces the one before, higher or lower.
//
// Choice: 0, which RFC 8166 Section 3.3.1 forbids and RFC 5666 Section 3.3
// allows for a while, counts as 1, so that a window can never close for good.
func (r *Requester) Grant(n uint32) {
	r.granted = max(n, 1)
	r.dones = 0
}

// InFlight returns the number of calls sent and not answered.
func (r *Requester) InFlight() int { return int(r.inFlight) }

// Available returns how many credits Take would give now.
//
// Choice: with no call in flight there is always one, even if RDMA_DONEs are counted, because
// only a reply can bring the grant that frees their credits.
func (r *Requester) Available() int {
	window := r.Window()
	if r.keepDone {
		window--
	}
	if r.inFlight == 0 {
		return max(window-int(r.dones), 1)
	}
	return max(window-r.used(), 0)
}

// used returns the credits in use, by calls and by RDMA_DONEs.
func (r *Requester) used() int { return int(r.inFlight) + int(r.dones) }

// KeepDone makes Take leave one credit in hand for an RDMA_DONE while anything
// is in flight and the window has room for both. For requesters of profile
// rfc5666, whose replies may have to be pulled (RFC 5666 Section 3.8).
func (r *Requester) KeepDone(on bool) { r.keepDone = on }

// TakeDone takes a credit for an RDMA_DONE and reports whether there was one;
// if not, the RDMA_DONE waits for the next grant. The credit comes back with
// that grant, since an RDMA_DONE has no answer.
//
// With a window of 1 the credit is that of the call whose reply was pulled:
// call Release first, and TakeDone before the next Take.
func (r *Requester) TakeDone() bool {
	if r.used() >= r.Window() {
		return false
	}
	r.dones++
	return true
}

// Expose says that a reply is about to leave whose chunks the peer reads, so that an RDMA_DONE
// will come. Post the receives that Need asks for before the Grant of that reply.
func (r *Responder) Expose() {
	r.dones++
	r.expected++
}

// Done says that the RDMA_DONE of an exposed reply has consumed a receive. It
// reports false when none is due.
func (r *Responder) Done() bool {
	if r.dones == 0 {
		return false
	}
	r.dones--
	return r.ReceivedOther()
}

// Exposed returns the number of exposed replies whose RDMA_DONE has not come.
func (r *Responder) Exposed() int { return int(r.dones) }

// lessDones returns the grant g with the outstanding RDMA_DONEs counted in (RFC
// 5666 Section 11), so that a peer which does not read gets fewer credits.
//
// Choice: never so few that the peer, which spends a credit on each RDMA_DONE,
// could not send all of them and one call more. So no interleaving leaves it
// without a credit and without a reply to wait for.
func (r *Responder) lessDones(g int64) int64 { return max(g-r.dones, r.dones+1) }
