package judge

import (
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// results judges the results that a reply has moved to Write chunks by the upper-layer binding (RFC 8166
// Section 6, RFC 8267 Section 4).
func (m *rpcMachine) results(ev *decode.Event, h *rpcrdma.Header, c *rpcCall) {
	var written uint64
	for _, w := range h.Write {
		written += w.Room()
	}
	bind := bindingOf(c)
	if !c.known || bind == bindingUnknown || ev.RPC == nil || ev.RPC.Reply == nil {
		return
	}
	if bind == bindingNFS4 {
		m.compoundWritten(ev.RPC, h.Write)
		return
	}
	n, found := 0, false
	if r := ev.RPC.Reply; bind == bindingNFS3 && !r.Denied && r.Accept == xdr.Success {
		_, n, found = chunks.NFSv3.FindResult(c.prog, c.progVers, c.proc, ev.RPC.Body)
	}
	offered := uint64(0)
	if len(c.lists.Write) > 0 {
		offered = c.lists.Write[0].Room()
	}
	switch count := uint64(n); {
	case found && !c.gss && len(h.Write) > 1 && h.Write[0].Room() == 0 && written > 0 && offered > 0:
		m.violate("RPCRDMA-045", "%d octets in a later Write chunk, and the first is unused", written)
	case !found && written > 0:
		m.violate("RPCRDMA-036", "%d octets in a Write chunk, and no eligible result", written)
	case !found || c.gss:
	case written == 0 && count > 0 && offered > 0:
		m.violate("RPCRDMA-035", "a result of %d octets inline, although there was a Write chunk of %d", count, offered)
	case written == 0 || written == count:
	case written == (count+3)&^3:
		m.violate("RPCRDMA-038", "%d octets in the Write chunk for a result of %d", written, count)
	default:
		m.violate("RPCRDMA-037", "%d octets in the Write chunk for a result of %d", written, count)
	}
}

// wasPulled judges whether a responder has read the call that it answers. Choice: a call must have been read
// if all of it came by RDMA Read, or if it is a WRITE or SYMLINK that succeeded. Other calls may be refused
// before anything is read, and a call that was sent before may be answered from a duplicate request cache,
// which read it the first time.
func (m *rpcMachine) wasPulled(ev *decode.Event, h *rpcrdma.Header, c *rpcCall) {
	if m.blind() || len(c.lists.Read) == 0 || c.flaw != sound || c.pulled() {
		return
	}
	if ev.RC != nil && len(m.reads.sides[ev.Dir].out) > 0 {
		return // perhaps the responses are missing, or come later in the capture: nothing says what the server has received
	}
	done := ev.RPC != nil && ev.RPC.Reply != nil && ev.RPC.Reply.Accept == xdr.Success && !ev.RPC.Reply.Denied
	if c.typ == rpcrdma.MsgTypeNoMsg || done && !c.again && bindingOf(c) == bindingNFS3 && ev.RPC.StatusCode == 0 {
		m.violate("RPCRDMA-053", "%v to the call in frame %d, whose Read chunks were not all read", h.Type, c.frame)
	}
}
