package judge

import (
	"bytes"
	"errors"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// rpcCall judges the RPC call that an event brought.
func (m *rpcMachine) rpcCall(ev *decode.Event, c *rpcCall) {
	r := ev.RPC
	if r.Call == nil {
		m.badCall(r)
		// A wrong rpcvers has its own answer; a call with any other bad header is not decodable.
		if c.wrongRPC = r.Err == nil; !c.wrongRPC {
			c.flaw = wrongCall
		}
		return
	}
	h := r.Call
	c.known, c.prog, c.progVers, c.proc, c.gss = true, h.Prog, h.Vers, h.Proc, h.Cred.Protected()
	m.auth(h)
	m.args(r, c)
}

// rpcOf judges a call that an event completed by the last octets of its Read chunks.
func (m *rpcMachine) rpcOf(ev *decode.Event) {
	r := ev.RPC
	if r == nil || !r.Pulled {
		return
	}
	c := m.sides[ev.Dir].calls[r.XID]
	switch {
	case c == nil || c.flaw != sound || c.wrongArgs:
	case c.known:
		m.args(r, c)
	case r.Call == nil && r.Err == nil || errors.Is(r.Err, decode.ErrNotPlaced):
	default:
		m.rpcCall(ev, c)
		if c.known {
			m.reduced(ev, c, nil)
		}
	}
}

// badCall judges a call whose header does not decode.
func (m *rpcMachine) badCall(r *decode.RPC) {
	bad, ok := errors.AsType[*xdr.DecodeError](r.Err)
	switch {
	case r.Err == nil:
		m.violate("RPC-002", "rpcvers is not 2")
	case !ok:
	case (bad.Field == "cred" || bad.Field == "verf") && errors.Is(bad, xdr.ErrRange):
		m.violate("RPC-003", "%v", bad)
	case errors.Is(bad, xdr.ErrShort):
		m.violate("RPC-004", "%v", bad)
	}
}

// auth judges the credential and the verifier of a call.
func (m *rpcMachine) auth(h *xdr.CallHeader) {
	for _, a := range []*xdr.Auth{&h.Cred, &h.Verf} {
		if a.Flavor == xdr.AuthNone && len(a.Body) > 0 {
			m.violate("RPC-007", "AUTH_NONE of %d octets", len(a.Body))
			return
		}
	}
	if h.Cred.Flavor != xdr.AuthSys {
		return
	}
	sys := &m.sys
	switch err := sys.Parse(h.Cred.Body); {
	case err != nil:
		m.violate("RPC-008", "%v", err)
	case !bytes.Equal(sys.Append(m.buf[:0]), h.Cred.Body):
		m.violate("RPC-014", "pad of the machine name in AUTH_SYS")
	case h.Verf.Flavor != xdr.AuthNone:
		m.violate("RPC-009", "verifier %v", h.Verf.Flavor)
	}
}

// lastProc are the last procedures of NFS and MOUNT.
var lastProc = map[served]uint32{{100003, 3, 0}: uint32(nfs3.ProcCommit), {100003, 4, 0}: 1, {100005, 3, 0}: 5}

// rpcReply judges the RPC reply that an event brought to a call.
func (m *rpcMachine) rpcReply(ev *decode.Event, c *rpcCall) {
	r := ev.RPC
	if r == nil || !r.IsReply {
		return
	}
	if r.Reply == nil {
		m.badReply(r)
		return
	}
	m.verdict(r, c)
	if m.replyEnd(r) && c.known {
		if last, ok := lastProc[served{c.prog, c.progVers, 0}]; ok && c.proc > last {
			m.violate("RPC-019", "SUCCESS of procedure %d of program %d, version %d, whose last is %d", c.proc, c.prog, c.progVers, last)
		}
		m.server.serves(c)
		m.res(r, c)
		m.ccpReply(ev, c)
	}
}

// badReply judges a reply whose header does not decode.
func (m *rpcMachine) badReply(r *decode.RPC) {
	bad, ok := errors.AsType[*xdr.DecodeError](r.Err)
	switch {
	case !ok:
	case bad.Field == "verf" && errors.Is(bad, xdr.ErrRange):
		m.violate("RPC-003", "%v", bad)
	case errors.Is(bad, xdr.ErrRange):
		m.violate("RPC-005", "%v", bad)
	case errors.Is(bad, xdr.ErrShort):
		m.violate("RPC-006", "%v", bad)
	}
}

// verdict judges a reply that refuses its call.
func (m *rpcMachine) verdict(r *decode.RPC, c *rpcCall) {
	h := r.Reply
	inRange := func(v uint32) bool { return h.Low > h.High || h.Low <= v && v <= h.High }
	switch {
	case c.wrongRPC && !(h.Denied && h.Reject == xdr.RPCMismatch):
		m.violate("RPC-011", "the call in frame %d is not of version 2", c.frame)
	case h.Denied && h.Reject == xdr.RPCMismatch && !c.wrongRPC && inRange(xdr.RPCVersion):
		m.violate("RPC-010", "RPC_MISMATCH %d to %d, the call has %d", h.Low, h.High, xdr.RPCVersion)
	case h.Denied && h.Reject == xdr.RPCMismatch && !c.wrongRPC:
		m.violate("RPC-011", "RPC_MISMATCH, and the call in frame %d is of version 2", c.frame)
	case h.Denied && h.Reject == xdr.AuthError && (h.AuthStat == xdr.AuthOK || h.AuthStat == xdr.AuthInvalidResp || h.AuthStat == xdr.AuthFailed):
		m.violate("RPC-015", "%v", h.AuthStat)
	case !h.Denied && h.Accept == xdr.ProgMismatch && c.known && inRange(c.progVers):
		m.violate("RPC-010", "PROG_MISMATCH %d to %d, the call has %d", h.Low, h.High, c.progVers)
	case !h.Denied && h.Accept == xdr.GarbageArgs && c.goodArgs:
		m.violate("RPC-016", "the arguments in frame %d decode", c.frame)
	case !h.Denied && (h.Accept == xdr.ProgUnavail && m.server.served[served{c.prog, 0, 0}] || h.Accept == xdr.ProcUnavail && m.server.served[served{c.prog, c.progVers, c.proc}]):
		m.violate("RPC-018", "%v, and the server has served program %d, version %d, procedure %d", h.Accept, c.prog, c.progVers, c.proc)
	}
	switch {
	case !h.Denied && h.Verf.Flavor == xdr.AuthSys:
		m.violate("RPC-017", "verifier %v of %d octets", h.Verf.Flavor, len(h.Verf.Body))
	case !h.Denied && h.Verf.Flavor == xdr.AuthNone && len(h.Verf.Body) > 0:
		m.violate("RPC-007", "AUTH_NONE of %d octets", len(h.Verf.Body))
	}
}

// replyEnd judges whether a refusal ends after its header. It reports whether there are results.
func (m *rpcMachine) replyEnd(r *decode.RPC) bool {
	if !r.Reply.Denied && r.Reply.Accept == xdr.Success {
		return true
	}
	if n := len(r.Body); n > 0 {
		m.violate("RPC-013", "%d octets after a refusal", n)
	}
	return false
}
