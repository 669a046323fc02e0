package judge

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rpcrdma"
)

// inline judges the length of a Send (RFC 8166 Section 3.3.2).
func (m *rpcMachine) inline(ev *decode.Event, n int) {
	if limit := m.threshold(ev.Dir); limit > 0 && n > limit {
		m.violate("RPCRDMA-070", "Send of %d octets, the inline threshold is %d", n, limit)
	}
}

// threshold returns the inline threshold of Sends in direction dir, 0 while it is unknown.
func (m *rpcMachine) threshold(dir decode.Dir) int {
	if m.info.Request == nil || m.info.Reply == nil {
		return 0
	}
	from, to := m.private(dir), m.private(1-dir)
	limit, _ := from.Inline(to)
	switch agreed := m.limits[dir]; {
	case agreed == 0:
		return limit
	case m.info.Request.CM == nil || m.info.Reply.CM == nil:
		return agreed // CONF_RDMA alone (RFC 5666 Section 6)
	default:
		return min(limit, agreed) // Choice: it only lowers what RFC 8797 has agreed
	}
}

// private returns the private data of a side, or the defaults if it sent none (RFC 8797 Section 5).
func (m *rpcMachine) private(dir decode.Dir) rpcrdma.PrivateData {
	f := m.info.Reply
	if dir == m.info.Initiator {
		f = m.info.Request
	}
	if f != nil && f.CM != nil {
		return *f.CM
	}
	return rpcrdma.PrivateData{SendSize: rpcrdma.DefaultInline, RecvSize: rpcrdma.DefaultInline}
}

// cmMagic begins the private data of RPC-over-RDMA (RFC 8797 Section 4).
const cmMagic = 0xf6ab0e18

// startup judges the private data of RPC-over-RDMA. Choice: only at the beginning of the private data, where
// Linux looks for it.
func (m *rpcMachine) startup(ev *decode.Event) {
	b := ev.Startup.PrivateData
	if len(b) < 4 || binary.BigEndian.Uint32(b) != cmMagic {
		return
	}
	switch {
	case len(b) < rpcrdma.PrivateDataSize:
		m.violate("RPCRDMA-071", "%d octets of %d", len(b), rpcrdma.PrivateDataSize)
	case b[4] != rpcrdma.Version:
		m.violate("RPCRDMA-071", "version %d", b[4])
	case b[5]&^1 != 0:
		m.violate("RPCRDMA-072", "flags %#02x", b[5])
	}
}

// invalidates judges Send with Invalidate. c is the call that the Send answers, nil if it answers none.
func (m *rpcMachine) invalidates(ev *decode.Event, c *rpcCall) {
	if !ev.RDMAP.Op.Invalidates() {
		return
	}
	tag := ev.RDMAP.Invalidate
	switch {
	case c == nil:
		m.violate("RPCRDMA-075", "invalidates %v", tag)
	case !c.offersSTag(tag):
		m.violate("RPCRDMA-074", "invalidates %v, which the call in frame %d has not offered", tag, c.frame)
	case m.info.Request == nil || m.info.Reply == nil:
	case !m.private(0).MayInvalidate(m.private(1)):
		m.violate("RPCRDMA-073", "invalidates %v; not both sides have set the R flag", tag)
	}
}
