package probe

import (
	"encoding/binary"
	"slices"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
)

// twist is one way to be wrong: a server that is wrong in one respect, made out of a good one. A relay between it and its
// clients changes what it sends, or repairs what a client sends, so that the server accepts it. Twists test that the
// probe catches such servers, and are the hostile servers that it plays to clients. The functions get octets of their
// own.
type twist struct {
	Name string
	Does string // in words
	Rule string // of the judge, that a server like this breaks; "": none that an octet shows

	// Reply changes the MPA Reply; nil octets end the connection.
	Reply func([]byte) []byte
	// Out returns what the client gets for an FPDU of the server, and In what the server gets for one of the client.
	Out, In func(*relayConn, []byte) [][]byte
}

// asIs passes a frame on.
func asIs(f []byte) [][]byte { return [][]byte{f} }

// ulpdu returns the ULPDU of an FPDU without markers. It aliases f.
func ulpdu(f []byte) []byte {
	return f[mpa.HeaderLen:min(len(f), mpa.HeaderLen+int(binary.BigEndian.Uint16(f)))]
}

// fpdu frames a ULPDU.
func (c *relayConn) fpdu(u []byte) []byte { return mpa.AppendFPDU(nil, u, c.crcs.Load()) }

// seal makes the CRC of an FPDU right.
func (c *relayConn) seal(f []byte) []byte {
	if !c.crcs.Load() || len(f) < mpa.CRCLen {
		return f
	}
	return mpa.AppendCRC(f[:len(f)-mpa.CRCLen], mpa.UpdateCRC(0, f[:len(f)-mpa.CRCLen]))
}

// isSend reports whether a ULPDU is a segment of a Send.
func isSend(u []byte) bool {
	return len(u) >= ddp.UntaggedLen && u[0]&0x80 == 0 && verbs.Opcode(u[1]&0x0f).IsSend()
}

// whole reports whether a ULPDU is a Send in one segment.
func whole(u []byte) bool {
	return isSend(u) && u[0]&0x40 != 0 && binary.BigEndian.Uint32(u[14:]) == 0
}

// sends returns an Out that changes the ULPDUs of Sends.
func sends(change func(u []byte) []byte) func(*relayConn, []byte) [][]byte {
	return func(c *relayConn, f []byte) [][]byte {
		if u := ulpdu(f); whole(u) {
			return asIs(c.fpdu(change(slices.Clone(u))))
		}
		return asIs(f)
	}
}

// header returns an Out that changes the RPC-over-RDMA message in Sends that have at least n octets.
func header(n int, change func(b []byte) []byte) func(*relayConn, []byte) [][]byte {
	return sends(func(u []byte) []byte {
		if len(u) < ddp.UntaggedLen+n {
			return u
		}
		return append(u[:ddp.UntaggedLen:ddp.UntaggedLen], change(u[ddp.UntaggedLen:])...)
	})
}

// reply is header for accepted RPC replies without chunks; at is where the RPC message begins.
func reply(change func(b []byte, at int) []byte) func(*relayConn, []byte) [][]byte {
	const at = 28
	return header(at+24, func(b []byte) []byte {
		be := binary.BigEndian
		if be.Uint32(b[12:]) != 0 || be.Uint32(b[16:])|be.Uint32(b[20:])|be.Uint32(b[24:]) != 0 || be.Uint32(b[at+4:]) != 1 || be.Uint32(b[at+8:]) != 0 {
			return b
		}
		return change(b, at)
	})
}

// before returns an Out that sends a further ULPDU before each Send.
func before(extra func() []byte) func(*relayConn, []byte) [][]byte {
	return func(c *relayConn, f []byte) [][]byte {
		if whole(ulpdu(f)) {
			return [][]byte{c.fpdu(extra()), f}
		}
		return asIs(f)
	}
}

// looks notes what a call offers, and passes it on.
func looks(c *relayConn, f []byte) [][]byte {
	if u := ulpdu(f); whole(u) {
		var h rpcrdma.Header
		if _, err := h.Decode(slices.Clone(u[ddp.UntaggedLen:]), nil); err == nil && !h.Lists.Empty() {
			c.offered.Store(&h.Lists)
		}
	}
	return asIs(f)
}

// put stores a word.
func put(b []byte, at int, v uint32) []byte {
	binary.BigEndian.PutUint32(b[at:], v)
	return b
}

// tagged returns a tagged segment.
func tagged(op verbs.Opcode, stag ddp.STag, to uint64, payload []byte) []byte {
	s := ddp.Segment{Tagged: true, Last: true, DV: ddp.Version, Control: 0x40 | uint8(op), STag: stag, TO: to}
	return append(s.Append(nil), payload...)
}

// terminates returns an Out that changes the payload of Terminates.
func terminates(change func(b []byte)) func(*relayConn, []byte) [][]byte {
	return func(c *relayConn, f []byte) [][]byte {
		u := slices.Clone(ulpdu(f))
		if len(u) < ddp.UntaggedLen+4 || u[0]&0x80 != 0 || verbs.Opcode(u[1]&0x0f) != verbs.OpTerminate {
			return asIs(f)
		}
		change(u[ddp.UntaggedLen:])
		return asIs(c.fpdu(u))
	}
}

// repair returns an In that makes wrong ULPDUs right, so that the server takes them.
func repair(change func(c *relayConn, u []byte)) func(*relayConn, []byte) [][]byte {
	return func(c *relayConn, f []byte) [][]byte {
		if u := ulpdu(f); len(u) >= 2 {
			change(c, u)
		}
		return asIs(c.seal(f))
	}
}
