package credits

// GrantUnheard is Grant for an answer whose credits the peer may ignore: an RDMA_ERROR on
// a connection with both directions, when "the receiver MUST ignore the header's credit
// value" because nothing tells whose it is (RFC 8167 Section 4.2). A peer that does so
// keeps its window, and may send another call for the one that was answered.
//
// The bound stays exact: it is what it was before that call came, for which receives were posted
// then and, by Need, are posted now. It never exceeds them: a peer that had no credit for the
// call does not get one for the answer.
func (r *Responder) GrantUnheard(asked uint32) uint32 {
	served := r.serving > 0
	before := r.owed
	g := r.Grant(asked)
	if served {
		r.owed = max(r.owed, min(before+1, r.posted-r.expected))
	}
	return g
}
