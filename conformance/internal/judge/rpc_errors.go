package judge

import (
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rpcrdma"
)

// refusal judges an RDMA_ERROR (RFC 8166 Section 4.5).
func (m *rpcMachine) refusal(ev *decode.Event, h *rpcrdma.Header) {
	if !m.blind() && m.fromRequester(ev, h) {
		m.violate("RPCRDMA-089", "RDMA_ERROR from the side that sends the calls")
		return
	}
	c := m.answers(ev, h)
	if c == nil {
		return
	}
	switch {
	case c.flaw == tooShort:
		m.violate("RPCRDMA-084", "%v to the message in frame %d", h.Err, c.frame)
	case c.flaw == wrongVers && h.Err != rpcrdma.ErrVers:
		m.violate("RPCRDMA-085", "%v to a call of version %d", h.Err, c.vers)
	case h.Vers != c.vers:
		m.violate("RPCRDMA-086", "rdma_vers %d, the call has %d", h.Vers, c.vers)
	case h.Err == rpcrdma.ErrVers && (h.Low > h.High || h.Low <= c.vers && c.vers <= h.High):
		m.violate("RPCRDMA-087", "versions %d to %d, the call has %d", h.Low, h.High, c.vers)
	}
	if side := &m.sides[1-ev.Dir]; h.Err == rpcrdma.ErrVers && c.vers != rpcrdma.Version && len(side.refused) < 16 {
		side.refused = append(side.refused, c.vers)
	}
	m.invalidates(ev, c)
	m.closeCall(ev, c)
}

// fromRequester reports whether a message comes from a side that has sent calls and received none: such a
// side has nothing to answer.
func (m *rpcMachine) fromRequester(ev *decode.Event, h *rpcrdma.Header) bool {
	own, peer := &m.sides[ev.Dir], &m.sides[1-ev.Dir]
	return peer.calls[h.XID] == nil && peer.old[h.XID] == nil && peer.credit.sent == 0 && own.credit.sent > 0
}
