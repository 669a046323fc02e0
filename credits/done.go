package credits

// KeepDone makes Take leave one credit in hand for an RDMA_DONE while anything
// is in flight and the window has room for both. For requesters of profile
// rfc5666, whose replies may have to be pulled (RFC 5666 Section 3.4).
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
