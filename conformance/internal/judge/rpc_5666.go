package judge

import (
	"encoding/binary"
	"slices"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// Choice: a connection is judged by RFC 8166 unless it uses the Connection Configuration Protocol, which
// only RFC 5666 has, or may have used it where the capture has nothing.

// msgP judges RDMA_MSGP.
func (m *rpcMachine) msgP(h *rpcrdma.Header) {
	switch {
	case h.Type != rpcrdma.MsgTypeMsgP:
	case !m.old && m.blind():
	case !m.old:
		m.violate("RPCRDMA-090", "RDMA_MSGP")
	case h.Align < 4 || h.Align&(h.Align-1) != 0:
		m.violate("RPCRDMA-093", "rdma_align %d", h.Align)
	}
}

// done judges RDMA_DONE (RFC 5666 Section 3.4): the requester does not need the reply with this XID any
// more. It need not have read all of the reply if nobody waits for the call any more.
func (m *rpcMachine) done(ev *decode.Event, h *rpcrdma.Header) {
	m.invalidates(ev, nil)
	if !m.old && !m.blind() {
		m.violate("RPCRDMA-091", "RDMA_DONE")
		return
	}
	server := &m.sides[1-ev.Dir]
	c := server.calls[h.XID]
	switch {
	case m.blind() || server.forgot:
	case c == nil:
		m.violate("RPCRDMA-092", "no reply with XID %#08x waits to be read", h.XID)
	case slices.ContainsFunc(server.reads, func(r readInProgress) bool { return r.mem != nil && r.mem.call == c }):
		m.violate("RPCRDMA-092", "a Read of the reply in frame %d is not answered", c.frame)
	}
	if c != nil {
		server.answered(c)
	}
}

// replyReads judges the Read list of a reply. It offers memory of the server until RDMA_DONE, which is kept
// as if the server had sent a call.
func (m *rpcMachine) replyReads(ev *decode.Event, h *rpcrdma.Header) {
	if !m.old && !m.blind() {
		m.violate("RPCRDMA-044", "%d segments", len(h.Read))
		return
	}
	c := &rpcCall{xid: h.XID, frame: ev.Frame, typ: h.Type}
	lists := h.Lists
	lists.Write, lists.Reply, lists.HasReply = nil, nil, false
	c.offer(&lists)
	m.sides[ev.Dir].add(c)
}

// ccpCall judges a call of CONF_RDMA, and takes its sizes: three words (RFC 5666 Section 6).
func (m *rpcMachine) ccpCall(ev *decode.Event) {
	if ev.RPC.Prog != progCCP || ev.RPC.Proc != 1 {
		return
	}
	m.old = true
	if n := len(ev.Message.Payload); n > 1024 {
		m.violate("RPCRDMA-095", "%d octets", n)
	}
	if m.calls > 1 && !m.blind() {
		m.violate("RPCRDMA-094", "CONF_RDMA is call %d", m.calls)
	}
	if b := ev.RPC.Body; len(b) >= 12 {
		m.limits[1-ev.Dir] = int(min(binary.BigEndian.Uint32(b[4:]), 1<<30))
	}
}

// ccpReply takes the answer of the server: the size of calls.
func (m *rpcMachine) ccpReply(ev *decode.Event, c *rpcCall) {
	if c.prog != progCCP || c.proc != 1 || ev.RPC.Reply.Denied || ev.RPC.Reply.Accept != xdr.Success {
		return
	}
	if n := len(ev.Message.Payload); n > 1024 {
		m.violate("RPCRDMA-095", "an answer of %d octets", n)
	}
	if b := ev.RPC.Body; len(b) >= 12 {
		m.limits[1-ev.Dir] = int(min(binary.BigEndian.Uint32(b), 1<<30))
	}
}
