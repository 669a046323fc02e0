package credits

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
