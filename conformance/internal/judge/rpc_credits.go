package judge

import "github.com/stag-rdma/stag/conformance/internal/decode"

// credits counts the calls of one direction against what was granted (RFC 8166 Section 3.3.1).
//
// A capture does not show when a grant reached the requester. So a grant, once seen, is taken to allow as
// many calls as it ever did: those answered up to there, plus the grant.
//
// An RDMA_DONE uses up a credit as well, until the next grant (RFC 5666 Section 3.3). It is not counted,
// since that grant may have reached the requester before the RDMA_DONE left.
type credits struct {
	sent, answered int
	allowed        int // the largest of answered + grant at any reply
	asked          int // the largest number that the calls in progress asked for
	granted        int // granted by the last reply, for the text
}

// call takes a call that asks for this many credits.
func (m *rpcMachine) creditCall(dir decode.Dir, ask uint32) {
	k := &m.sides[dir].credit
	k.sent++
	if ask == 0 {
		m.violate("RPCRDMA-064", "rdma_credit 0 in a call")
	}
	if k.sent-k.answered == 1 {
		k.asked = 0
	}
	k.asked = max(k.asked, int(min(ask, 1<<30)))
	switch n := k.sent - k.answered; {
	case m.blind():
	case k.answered == 0 && n > 1:
		m.overrun(k, "RPCRDMA-061", "%d calls before the first reply", n)
	case k.answered > 0 && k.sent > k.allowed:
		m.overrun(k, "RPCRDMA-060", "%d calls unanswered with %d credits", n, k.granted)
	case n > max(k.asked, 1):
		m.overrun(k, "RPCRDMA-062", "%d calls unanswered, %d credits asked for", n, k.asked)
	}
}

// overrun reports too many calls. If that follows from another mistake, a reply was not seen as one.
func (m *rpcMachine) overrun(k *credits, id, format string, args ...any) {
	if m.violate(id, format, args...).Cause != nil {
		k.answered++
		k.allowed = max(k.allowed, k.sent)
	}
}

// creditReply takes the answer to a call of direction dir, and its grant.
func (m *rpcMachine) creditReply(dir decode.Dir, grant uint32) {
	k := &m.sides[dir].credit
	k.answered++
	if grant == 0 {
		m.violate("RPCRDMA-063", "rdma_credit 0 in a reply")
	}
	k.granted = int(min(max(grant, 1), 1<<30)) // RFC 8166 Section 3.3.1: 0 would be a deadlock
	k.allowed = max(k.allowed, k.answered+k.granted)
}
