package probe

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rpcrdma"
)

// rareTwists returns twists that few conversations show: they test the probe, and are no cases for clients.
func rareTwists() []twist {
	be := binary.BigEndian
	return []twist{
		{Name: "credits-late", Does: "grants no credit from the ninth reply of a connection on", Rule: "RPCRDMA-063", Out: func(c *relayConn, f []byte) [][]byte {
			if u := ulpdu(f); c.outs > 8 && whole(u) && len(u) >= ddp.UntaggedLen+16 {
				put(u, ddp.UntaggedLen+8, 0)
			}
			return asIs(c.seal(f))
		}},
		{Name: "write-order", Does: "returns Write chunks in the opposite order", Rule: "RPCRDMA-031", Out: lists(func(l *chunks.Lists) { slices.Reverse(l.Write) })},
		{Name: "segment-order", Does: "returns the segments of a Write chunk in the opposite order", Rule: "RPCRDMA-031", Out: lists(func(l *chunks.Lists) {
			for _, w := range l.Write {
				slices.Reverse(w)
			}
		})},
		{Name: "unused-length", Does: "returns an unused Reply chunk as if it were full", Rule: "RPCRDMA-042", In: looks, Out: func(c *relayConn, f []byte) [][]byte {
			return lists(func(l *chunks.Lists) {
				if o := c.offered.Load(); o != nil && o.HasReply && l.HasReply {
					l.Reply = o.Reply
				}
			})(c, f)
		}},
		{Name: "no-pad", Does: "sends no pad of MPA", Rule: "", Out: func(c *relayConn, f []byte) [][]byte {
			n := mpa.HeaderLen + len(ulpdu(f))
			return asIs(c.seal(append(f[:n:n], make([]byte, mpa.CRCLen)...)))
		}},
		{Name: "takes-long-crc", Does: "does not check the CRC of FPDUs of 512 octets and more", Rule: "MPA-034", In: func(c *relayConn, f []byte) [][]byte {
			if len(f) < 512 {
				return asIs(f)
			}
			return asIs(c.seal(f))
		}},
		{Name: "takes-msn-16", Does: "compares the low halves of MSNs only", Rule: "DDP-016", In: mends(func(c *relayConn, u []byte) {
			if isSend(u) {
				if be.Uint32(u[14:]) == 0 {
					c.msn++
				}
				if be.Uint16(u[12:]) == uint16(c.msn) {
					put(u, 10, c.msn)
				}
			}
		})},
		{Name: "takes-crc-end", Does: "does not check the last octet of a CRC", Rule: "MPA-034", In: func(c *relayConn, f []byte) [][]byte {
			g := c.seal(slices.Clone(f))
			if n := len(f) - 1; bytes.Equal(g[:n], f[:n]) {
				return asIs(g)
			}
			return asIs(f)
		}},
		{Name: "position", Does: "takes a chunk at Position 0 for one behind the call", Rule: "", In: mends(func(_ *relayConn, u []byte) {
			if b := u[min(len(u), ddp.UntaggedLen):]; whole(u) && len(b) >= 48 && be.Uint32(b[16:]) == 1 && be.Uint32(b[20:]) == 0 {
				put(b, 20, 40)
			}
		})},
		{Name: "mismatch-order", Does: "gives the versions of PROG_MISMATCH in the opposite order", Rule: "RPC-010", Out: reply(func(b []byte, at int) []byte {
			if len(b) >= at+32 && be.Uint32(b[at+20:]) == 2 {
				low, high := be.Uint32(b[at+24:]), be.Uint32(b[at+28:])
				put(put(b, at+24, high+1), at+28, low)
			}
			return b
		})},
	}
}

// lists returns an Out that changes the chunk lists of Sends.
func lists(change func(l *chunks.Lists)) func(*relayConn, []byte) [][]byte {
	return header(28, func(b []byte) []byte {
		var h rpcrdma.Header
		n, err := h.Decode(slices.Clone(b), nil)
		if err != nil || h.Lists.Empty() {
			return b
		}
		change(&h.Lists)
		return append(h.Append(nil), b[n:]...)
	})
}

// mends is repair for frames whose CRC is right: wrong ones are passed on.
func mends(change func(c *relayConn, u []byte)) func(*relayConn, []byte) [][]byte {
	return func(c *relayConn, f []byte) [][]byte {
		if good := c.seal(slices.Clone(f)); bytes.Equal(good, f) {
			return repair(change)(c, f)
		}
		return asIs(f)
	}
}
