package judge

import (
	"net/netip"

	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// callKey is what a retransmission has in common with the original call.
type callKey struct {
	client                netip.Addr
	xid, prog, vers, proc uint32
}

// maxSent bounds the calls that a Judge remembers after their connections have ended. A client that loses
// its connection sends again the calls that were waiting, which are its last ones.
const maxSent = 1 << 14

// sentCalls are the last calls that offered Read chunks, on whatever connection.
type sentCalls struct {
	seen map[callKey]int // how often each is in last
	last []callKey       // a ring, once it is full
	next int
}

// add enters a call and reports whether it was sent before.
func (s *sentCalls) add(k callKey) (again bool) {
	if s.seen == nil {
		s.seen = make(map[callKey]int)
	}
	again = s.seen[k] > 0
	if len(s.last) < maxSent {
		s.last = append(s.last, k)
	} else {
		old := s.last[s.next]
		if s.seen[old]--; s.seen[old] == 0 {
			delete(s.seen, old)
		}
		s.last[s.next] = k
		s.next = (s.next + 1) % maxSent
	}
	s.seen[k]++
	return again
}

// sentBefore records a call, and whether its client has sent it before, perhaps over a connection that was
// lost.
func (m *rpcMachine) sentBefore(ev *decode.Event, c *rpcCall) {
	if !c.known || len(c.lists.Read) == 0 {
		return
	}
	client := m.info.Opener
	if ev.Dir != decode.FromOpener {
		client = m.info.Accepter
	}
	c.again = m.j.sent.add(callKey{client.Addr(), c.xid, c.prog, c.progVers, c.proc})
}
