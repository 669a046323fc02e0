package cases

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// rdmapVersion1 is RV of a control octet (RFC 5040 Section 4.1); the opcode goes below.
const rdmapVersion1 = 0x40

// untagged returns the ULPDU of a message of one segment.
func untagged(opcode uint8, qn, msn uint32, body []byte) []byte {
	s := ddp.Segment{Last: true, Control: rdmapVersion1 | opcode, QN: qn, MSN: msn}
	return append(s.Append(nil), body...)
}

// tagged returns the ULPDU of a message of one segment.
func tagged(op verbs.Opcode, stag ddp.STag, to uint64, body []byte) []byte {
	s := ddp.Segment{Tagged: true, Last: true, Control: rdmapVersion1 | uint8(op), STag: stag, TO: to}
	return append(s.Append(nil), body...)
}

// readRequest returns the body of a Read Request (RFC 5040 Section 4.4).
func readRequest(size uint32, stag ddp.STag, to uint64) []byte {
	b := words(0x51ac0700, 0, 0, size, uint32(stag))
	return binary.BigEndian.AppendUint64(b, to)
}

// words returns big-endian 32-bit words.
func words(v ...uint32) []byte {
	var b []byte
	for _, w := range v {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

// Nudge returns an RDMA Write of no octets.
func Nudge() []byte { return tagged(verbs.OpWrite, 1, 0, nil) }

// Target is what the octets need to know about the peer.
type Target struct {
	Prog, Vers uint32 // the program whose procedure 0 is called
	Inline     int    // the largest Send of the cases, in octets, which it says it accepts
	Receives   int    // the largest Send that it says it accepts
	Grant      int    // credits that it has granted
	XID        uint32 // the calls count from here
	Handle     string // octets of an NFSv3 file handle that can be read; "": none
}

// call returns the NULL call of the target's program.
func (g Target) call(xid uint32) []byte {
	return xdr.AppendCall(nil, &xdr.CallHeader{XID: xid, RPCVers: xdr.RPCVersion, Prog: g.Prog, Vers: g.Vers})
}

// header returns a header of version 1.
func header(xid uint32, t rpcrdma.MsgType, l chunks.Lists) []byte {
	h := rpcrdma.Header{XID: xid, Vers: rpcrdma.Version, Credit: credits, Type: t, Lists: l}
	return h.Append(nil)
}

// credits is how many credits the probe asks for.
const credits = 8

// null returns an RDMA_MSG with a NULL call.
func (g Target) null(xid uint32) []byte {
	return append(header(xid, rpcrdma.MsgTypeMsg, chunks.Lists{}), g.call(xid)...)
}

// UsualRequest returns the MPA Request of all tries except those about Requests: revision 2, CRC, Reads both
// ways, thresholds of 4096 octets.
func UsualRequest() []byte { return usual().bytes() }

func usual() request {
	return request{mpa.Request{Frame: mpa.Frame{
		Rev: 2, CRC: true, Enhanced: true, Word: mpa.Enhanced{IRD: 16, ORD: 4},
		PrivateData: rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096}.Append(nil),
	}}}
}

type request struct{ mpa.Request }

// bytes returns the frame; all frames that are built here can be encoded.
func (r request) bytes() []byte {
	b, err := r.Append(nil)
	if err != nil {
		panic(err)
	}
	return b
}
