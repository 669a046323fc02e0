package probe

import (
	"bytes"
	"encoding/binary"
	"slices"
	"time"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// twists returns the twists that show in most conversations. The rules of a Reply and of a Send count from octet 0 of the frame or the ULPDU.
func twists() []twist {
	return slices.Concat(startups(), lies(), blind())
}

// startups are wrong MPA Replies.
func startups() []twist {
	flag := func(set, clear byte) func([]byte) []byte {
		return func(b []byte) []byte { b[16] = b[16]&^clear | set; return b }
	}
	// word changes the enhanced word, if there is one.
	word := func(change func(w uint32) uint32) func([]byte) []byte {
		return func(b []byte) []byte {
			if len(b) >= mpa.StartupHeaderLen+4 && b[16]&0x10 != 0 {
				put(b, mpa.StartupHeaderLen, change(binary.BigEndian.Uint32(b[mpa.StartupHeaderLen:])))
			}
			return b
		}
	}
	// private changes the private data of RPC-over-RDMA.
	private := func(change func(p []byte)) func([]byte) []byte {
		return func(b []byte) []byte {
			at := mpa.StartupHeaderLen
			if b[16]&0x10 != 0 {
				at += 4
			}
			if len(b) >= at+8 && binary.BigEndian.Uint32(b[at:]) == 0xf6ab0e18 {
				change(b[at:])
			}
			return b
		}
	}
	return []twist{
		{Name: "reply-key", Does: "begins with the key of a Request", Rule: "MPA-001", Reply: func(b []byte) []byte { copy(b, mpa.RequestKey); return b }},
		{Name: "reply-no-key", Does: "begins with something that is no key", Rule: "MPA-003", Reply: func(b []byte) []byte { b[0] ^= 1; return b }},
		{Name: "reply-revision", Does: "answers with revision 3", Rule: "MPA-005", Reply: func(b []byte) []byte { b[17] = 3; return b }},
		{Name: "reply-long", Does: "announces 600 octets of private data", Rule: "MPA-004", Reply: func(b []byte) []byte { b[18], b[19] = 2, 88; return b }},
		{Name: "reply-reserved", Does: "sets reserved flags", Rule: "MPA-008", Reply: flag(0x0f, 0)},
		{Name: "reply-not-enhanced", Does: "answers an enhanced Request without S", Rule: "MPA-012", Reply: func(b []byte) []byte {
			if b[16]&0x10 == 0 {
				return b
			}
			b = append(b[:mpa.StartupHeaderLen:mpa.StartupHeaderLen], b[min(len(b), mpa.StartupHeaderLen+4):]...)
			binary.BigEndian.PutUint16(b[18:], uint16(len(b)-mpa.StartupHeaderLen))
			return flag(0, 0x10)(b)
		}},
		{Name: "reply-shallow", Does: "has an IRD below the ORD of the Request", Rule: "MPA-014", Reply: word(func(w uint32) uint32 { return w &^ 0x3fff0000 })},
		{Name: "reply-deep", Does: "has an ORD above the IRD of the Request", Rule: "MPA-015", Reply: word(func(w uint32) uint32 { return w&^0x3fff | 0x2000 })},
		{Name: "reply-peer-to-peer", Does: "sets A, which the Request has not", Rule: "MPA-018", Reply: word(func(w uint32) uint32 { return w | 0x8000c000 })},
		{Name: "private-reserved", Does: "sets the reserved flags of the private data", Rule: "RPCRDMA-072", Reply: private(func(p []byte) { p[5] |= 0xfe })},
		{Name: "private-version", Does: "has private data of version 2", Rule: "RPCRDMA-071", Reply: private(func(p []byte) { p[4] = 2 })},
		{Name: "reply-cut", Does: "ends the connection in the middle of the Reply", Rule: "", Reply: func([]byte) []byte { return nil }},
		{Name: "reply-rejects", Does: "rejects every connection", Rule: "", Reply: flag(0x20, 0)},
	}
}

// slow is how long a server takes for a reply whose calls must meet others on the way.
const slow = 10 * time.Millisecond

// lies are wrong frames.
func lies() []twist {
	be := binary.BigEndian
	control := func(change func(u []byte)) func(*relayConn, []byte) [][]byte {
		return sends(func(u []byte) []byte { change(u); return u })
	}
	return []twist{
		{Name: "pad", Does: "sends pads that are not zero", Rule: "MPA-031", Out: func(c *relayConn, f []byte) [][]byte {
			for i := mpa.HeaderLen + len(ulpdu(f)); i < len(f)-mpa.CRCLen; i++ {
				f[i] = 0x5a
			}
			return asIs(c.seal(f))
		}},
		{Name: "crc", Does: "sends wrong CRCs", Rule: "MPA-030", Out: func(c *relayConn, f []byte) [][]byte {
			if c.crcs.Load() {
				f[len(f)-1] ^= 1
			}
			return asIs(f)
		}},
		{Name: "length", Does: "sends a wrong ULPDU_Length", Rule: "MPA-030", Out: func(c *relayConn, f []byte) [][]byte {
			be.PutUint16(f, be.Uint16(f)-4)
			return asIs(c.seal(f))
		}},
		{Name: "ddp-reserved", Does: "sets the reserved bits of DDP", Rule: "DDP-003", Out: control(func(u []byte) { u[0] |= 0x3c })},
		{Name: "ddp-version", Does: "sends DDP version 2", Rule: "DDP-002", Out: control(func(u []byte) { u[0] = u[0]&^3 | 2 })},
		{Name: "rdmap-reserved", Does: "sets the reserved bit of RDMAP", Rule: "RDMAP-002", Out: control(func(u []byte) { u[1] |= 0x20 })},
		{Name: "rdmap-version", Does: "sends RDMAP version 0", Rule: "RDMAP-001", Out: control(func(u []byte) { u[1] &= 0x3f })},
		{Name: "opcode", Does: "sends an opcode that does not exist", Rule: "RDMAP-003", Out: control(func(u []byte) { u[1] = 0x5f })},
		{Name: "queue", Does: "sends replies to queue 1", Rule: "RDMAP-005", Out: control(func(u []byte) { put(u, 6, 1) })},
		{Name: "no-queue", Does: "sends replies to queue 7", Rule: "DDP-004", Out: control(func(u []byte) { put(u, 6, 7) })},
		{Name: "msn", Does: "sends wrong MSNs", Rule: "DDP-005", Out: control(func(u []byte) { put(u, 10, be.Uint32(u[10:])+5) })},
		{Name: "mo", Does: "sends a wrong MO", Rule: "DDP-007", Out: control(func(u []byte) { put(u, 14, 4) })},
		{Name: "invalidate-field", Does: "fills the Invalidate STag of Sends that invalidate nothing", Rule: "RDMAP-006", Out: control(func(u []byte) {
			if !verbs.Opcode(u[1] & 0x0f).Invalidates() {
				put(u, 2, 0x1234)
			}
		})},
		{Name: "invalidate", Does: "invalidates an STag that nobody has offered", Rule: "RPCRDMA-074", Out: control(func(u []byte) { u[1] = u[1]&^0x0f | byte(verbs.OpSendInvalidate); put(u, 2, 0x1234) })},
		{Name: "write-anywhere", Does: "writes to memory that nobody has offered", Rule: "RPCRDMA-050", Out: before(func() []byte { return tagged(verbs.OpWrite, 0xdead, 64, make([]byte, 16)) })},
		{Name: "writes-read-chunk", Does: "writes to memory that is offered for reading", Rule: "RPCRDMA-054", In: looks, Out: func(c *relayConn, f []byte) [][]byte {
			if l := c.offered.Load(); whole(ulpdu(f)) && l != nil && len(l.Read) > 0 {
				return [][]byte{c.fpdu(tagged(verbs.OpWrite, ddp.STag(l.Read[0].Handle), l.Read[0].Offset, make([]byte, 4))), f}
			}
			return asIs(f)
		}},
		{Name: "reads-write-chunk", Does: "reads memory that is offered for writing", Rule: "RPCRDMA-054", In: looks, Out: func(c *relayConn, f []byte) [][]byte {
			u, l := ulpdu(f), c.offered.Load()
			if len(u) >= ddp.UntaggedLen && u[0]&0x80 == 0 && be.Uint32(u[6:]) == ddp.QNRequest {
				c.reads++
			}
			if !whole(u) || l == nil || len(l.Write) == 0 || len(l.Write[0]) == 0 || c.reads > 0 {
				return asIs(f)
			}
			c.reads++
			s := ddp.Segment{Last: true, DV: ddp.Version, Control: 0x40 | uint8(verbs.OpReadRequest), QN: ddp.QNRequest, MSN: ddp.FirstMSN}
			to := l.Write[0][0]
			b := append(s.Append(nil), make([]byte, 28)...)
			put(put(put(b, ddp.UntaggedLen, 0x51), ddp.UntaggedLen+12, 4), ddp.UntaggedLen+16, uint32(to.Handle))
			be.PutUint64(b[ddp.UntaggedLen+20:], to.Offset)
			return [][]byte{c.fpdu(b), f}
		}},
		{Name: "read-response", Does: "answers a Read that nobody has asked for", Rule: "RDMAP-030", Out: before(func() []byte { return tagged(verbs.OpReadResponse, 0xdead, 64, make([]byte, 16)) })},
		{Name: "runt", Does: "sends replies of 8 octets", Rule: "RPCRDMA-001", Out: header(8, func(b []byte) []byte { return b[:8] })},
		{Name: "xid", Does: "answers with an XID that no call has", Rule: "RPCRDMA-010", Out: header(16, func(b []byte) []byte { return put(b, 0, be.Uint32(b)^0x80000000) })},
		{Name: "xids", Does: "answers with an XID that no call has, twice", Rule: "RPCRDMA-080", Out: reply(func(b []byte, at int) []byte {
			x := be.Uint32(b) ^ 0x80000000
			return put(put(b, 0, x), at, x)
		})},
		{Name: "version", Does: "answers with rdma_vers 2", Rule: "RPCRDMA-002", Out: header(16, func(b []byte) []byte { return put(b, 4, 2) })},
		{Name: "credits", Does: "grants no credit", Rule: "RPCRDMA-063", Out: header(16, func(b []byte) []byte { return put(b, 8, 0) })},
		{Name: "overgrants", Does: "grants twice the credits that it serves", Rule: "", In: func(c *relayConn, f []byte) [][]byte {
			if whole(ulpdu(f)) && c.calls.Add(1) > max(c.granted.Load(), 1) {
				c.client.Close()
				return nil
			}
			return asIs(f)
		}, Out: func(c *relayConn, f []byte) [][]byte {
			u := slices.Clone(ulpdu(f))
			if !whole(u) || len(u) < ddp.UntaggedLen+16 {
				return asIs(f)
			}
			time.Sleep(slow)
			c.calls.Add(-1)
			n := be.Uint32(u[ddp.UntaggedLen+8:])
			c.granted.Store(int32(min(n, 1<<20)))
			put(u, ddp.UntaggedLen+8, 2*n)
			return asIs(c.fpdu(u))
		}},
		{Name: "type", Does: "answers with rdma_proc 9", Rule: "RPCRDMA-003", Out: header(16, func(b []byte) []byte { return put(b, 12, 9) })},
		{Name: "lists", Does: "announces chunks by the word 2", Rule: "RPCRDMA-004", Out: header(28, func(b []byte) []byte { return put(b, 16, 2) })},
		{Name: "read-list", Does: "offers a Read list", Rule: "RPCRDMA-044", Out: reply(func(b []byte, at int) []byte {
			l := []byte{0, 0, 0, 1, 0, 0, 0, 28, 0, 0, 0, 9, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0}
			return append(append(bytes.Clone(b[:16]), l...), b[16:]...)
		})},
		{Name: "reply-chunk", Does: "returns a Reply chunk that nobody has offered", Rule: "RPCRDMA-041", Out: reply(func(b []byte, at int) []byte {
			return append(append(put(bytes.Clone(b[:at]), 24, 1), 0, 0, 0, 0), b[at:]...)
		})},
		{Name: "twice", Does: "sends every reply twice", Rule: "RPCRDMA-081", Out: func(c *relayConn, f []byte) [][]byte {
			u := ulpdu(f)
			if !whole(u) {
				return asIs(f)
			}
			u = put(bytes.Clone(u), 10, be.Uint32(u[10:])+c.shift)
			c.shift++
			return [][]byte{c.fpdu(u), c.fpdu(put(bytes.Clone(u), 10, be.Uint32(u[10:])+1))}
		}},
		{Name: "refuses", Does: "answers every call by ERR_CHUNK", Rule: "", Out: reply(func(b []byte, _ int) []byte {
			return append(put(bytes.Clone(b[:12]), 8, 32), 0, 0, 0, 4, 0, 0, 0, 2)
		})},
		{Name: "verifier", Does: "answers with a verifier of AUTH_SYS", Rule: "RPC-017", Out: reply(func(b []byte, at int) []byte { return put(b, at+12, 1) })},
		{Name: "none-verifier", Does: "answers with an AUTH_NONE that is not empty", Rule: "RPC-007", Out: reply(func(b []byte, at int) []byte {
			return append(append(put(bytes.Clone(b[:at+20]), at+16, 4), 1, 2, 3, 4), b[at+20:]...)
		})},
		{Name: "accept-stat", Does: "answers with accept_stat 9", Rule: "RPC-005", Out: reply(func(b []byte, at int) []byte { return put(b, at+20, 9) })},
		{Name: "results", Does: "returns results of NULL", Rule: "RPC-012", Out: reply(func(b []byte, at int) []byte { return append(b, 0, 0, 0, 1) })},
		{Name: "garbage", Does: "answers every call by GARBAGE_ARGS", Rule: "", Out: reply(func(b []byte, at int) []byte { return put(b, at+20, 4)[:at+24] })},
		{Name: "silent", Does: "never answers", Rule: "", Out: func(*relayConn, []byte) [][]byte { return nil }},
		{Name: "half-frame", Does: "sends half an FPDU and falls silent", Rule: "", Out: func(c *relayConn, f []byte) [][]byte {
			if c.outs > 1 {
				return nil
			}
			return asIs(f[:len(f)/2])
		}},
		{Name: "hangs-up", Does: "ends the connection after the first reply", Rule: "", Out: func(c *relayConn, f []byte) [][]byte {
			if c.outs > 1 {
				c.client.Close()
				return nil
			}
			return asIs(f)
		}},
		{Name: "terminates", Does: "answers the first call by a Terminate about its CRC, which is right", Rule: "RDMAP-060", Out: sends(func([]byte) []byte {
			s := ddp.Segment{Last: true, DV: ddp.Version, Control: 0x40 | uint8(verbs.OpTerminate), QN: ddp.QNTerminate, MSN: ddp.FirstMSN}
			return append(s.Append(nil), 0x20, 0x02, 0, 0)
		})},
		{Name: "terminate-reserved", Does: "sets reserved bits of its Terminates", Rule: "RDMAP-053", Out: terminates(func(b []byte) { b[3] |= 1 })},
		{Name: "terminate-code", Does: "gives codes that do not exist in its Terminates", Rule: "RDMAP-052", Out: terminates(func(b []byte) { b[1] = 0x77 })},
	}
}

// blind are servers that take what they must refuse.
func blind() []twist {
	be := binary.BigEndian
	return []twist{
		{Name: "takes-crc", Does: "does not check CRCs", Rule: "MPA-034", In: repair(func(*relayConn, []byte) {})},
		{Name: "takes-ddp-version", Does: "does not check the version of DDP", Rule: "DDP-014", In: repair(func(_ *relayConn, u []byte) { u[0] = u[0]&^3 | ddp.Version })},
		{Name: "takes-rdmap-version", Does: "does not check the version of RDMAP", Rule: "RDMAP-007", In: repair(func(_ *relayConn, u []byte) { u[1] = u[1]&^0xc0 | 0x40 })},
		{Name: "takes-msn", Does: "does not check MSNs", Rule: "DDP-016", In: repair(func(c *relayConn, u []byte) {
			if isSend(u) {
				if be.Uint32(u[14:]) == 0 {
					c.msn++
				}
				put(u, 10, c.msn)
			}
		})},
		{Name: "takes-queue", Does: "takes Sends from any queue", Rule: "RDMAP-007", In: repair(func(_ *relayConn, u []byte) {
			if isSend(u) {
				put(u, 6, ddp.QNSend)
			}
		})},
		{Name: "takes-stag", Does: "ignores RDMA Writes to STags that do not exist", Rule: "", In: func(_ *relayConn, f []byte) [][]byte {
			if u := ulpdu(f); len(u) > ddp.TaggedLen && u[0]&0x80 != 0 && verbs.Opcode(u[1]&0x0f) == verbs.OpWrite {
				return nil
			}
			return asIs(f)
		}},
		{Name: "takes-rdma-version", Does: "does not check rdma_vers", Rule: "RPCRDMA-085", In: repair(func(_ *relayConn, u []byte) {
			if whole(u) && len(u) >= ddp.UntaggedLen+28 {
				put(u, ddp.UntaggedLen+4, 1)
			}
		})},
		{Name: "takes-lists", Does: "ignores chunk lists that are broken", Rule: "RPCRDMA-088", In: repair(func(_ *relayConn, u []byte) {
			if b := u[min(len(u), ddp.UntaggedLen):]; whole(u) && len(b) >= 28 && be.Uint32(b[12:]) == 0 && be.Uint32(b[16:]) > 1 {
				put(b, 16, 0)
			}
		})},
		{Name: "drops", Does: "drops every call but the first while one is waiting", Rule: "", In: func(c *relayConn, f []byte) [][]byte {
			if whole(ulpdu(f)) && c.ins > 2 {
				return nil
			}
			return asIs(f)
		}},
	}
}
