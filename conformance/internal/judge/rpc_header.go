package judge

import (
	"errors"
	"slices"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// header judges the form of a header. It returns nil if not even the fixed words are there.
func (m *rpcMachine) header(ev *decode.Event, b []byte) (*rpcrdma.Header, flaw) {
	h := ev.Header
	if h == nil {
		m.violate("RPCRDMA-001", "%d octets", len(b))
		return nil, tooShort
	}
	bad, ok := errors.AsType[*rpcrdma.HeaderError](ev.Err)
	if ok && h.Type == rpcrdma.MsgTypeError && len(b) == errChunkSize && b[errChunkSize-1] == byte(rpcrdma.ErrChunk) {
		h.Err, ok = rpcrdma.ErrChunk, false // whole in any version: it has that of the call
	}
	if !ok && h.Size() > len(b) { // the error in the segment hides the error in the header
		m.doubt[ev.Dir] = true
		return h, unjudged
	}
	if !ok {
		m.trailing(h, b)
		return h, sound
	}
	fl := wrongHeader
	switch err := bad.Err; {
	case errors.Is(err, rpcrdma.ErrRunt):
		m.violate("RPCRDMA-001", "%d octets of %v", len(b), h.Type)
		fl = tooShort
	case errors.Is(err, rpcrdma.ErrVersion):
		m.version(ev, h)
		fl = wrongVers
	case errors.Is(err, rpcrdma.ErrProc):
		m.violate("RPCRDMA-003", "rdma_proc %d", uint32(h.Type))
	case errors.Is(err, rpcrdma.ErrCodeUnknown):
		m.violate("RPCRDMA-083", "rdma_err %d", uint32(h.Err))
	case errors.Is(err, chunks.ErrWrap):
		m.violate("RPCRDMA-006", "%v", err)
	case errors.Is(err, xdr.ErrRange):
		m.violate("RPCRDMA-004", "%v", err)
	case errors.Is(err, xdr.ErrShort):
		m.violate("RPCRDMA-005", "%v", err)
	default: // more than the decoder accepts: no violation, but it cannot be judged
		m.doubt[ev.Dir], fl = true, unjudged
	}
	return h, fl
}

// trailing judges octets after a header that is the whole message.
func (m *rpcMachine) trailing(h *rpcrdma.Header, b []byte) {
	if h.Type == rpcrdma.MsgTypeMsg || h.Type == rpcrdma.MsgTypeMsgP {
		return
	}
	if n := len(b) - h.Size(); n > 0 {
		m.violate("RPCRDMA-007", "%d octets after the header of %v", n, h.Type)
	}
}

// errChunkSize is the length of an RDMA_ERROR with ERR_CHUNK, octets.
const errChunkSize = 20

// version judges a version that is not 1. Trying one is no violation: the responder says which it supports.
// Using one again after it was refused is a violation, and so is a reply whose version differs from that of
// its call.
func (m *rpcMachine) version(ev *decode.Event, h *rpcrdma.Header) {
	switch c := m.sides[1-ev.Dir].calls[h.XID]; {
	case c != nil && c.vers != h.Vers:
		m.violate("RPCRDMA-002", "rdma_vers %d in the reply to a call of version %d", h.Vers, c.vers)
	case c == nil && slices.Contains(m.sides[ev.Dir].refused, h.Vers):
		m.violate("RPCRDMA-002", "rdma_vers %d was refused before", h.Vers)
	}
}
