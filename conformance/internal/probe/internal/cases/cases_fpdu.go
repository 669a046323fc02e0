package cases

import (
	"encoding/binary"
	"fmt"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
)

var crcMismatch = verbs.TermCode{Layer: mpa.Layer, EType: mpa.EType, Code: uint8(mpa.CodeCRC)}

// last lets f change the last step.
func (s *script) last(f func(st *Step)) *script {
	f(&s.Steps[len(s.Steps)-1])
	return s
}

// flip returns a function that inverts a bit of an octet; at counts from the end if it
// is negative.
func flip(at int) func([]byte) []byte {
	return func(b []byte) []byte {
		if at < 0 {
			b[len(b)+at] ^= 0x10
		} else {
			b[at] ^= 0x10
		}
		return b
	}
}

// cut returns a function that keeps n octets.
func cut(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:n] } }

// padded makes the two-octet pad of an FPDU not zero.
func padded(b []byte) []byte {
	n := len(b) - mpa.CRCLen
	b[n-1], b[n-2] = 0xaa, 0x55
	return mpa.AppendCRC(b[:n], mpa.UpdateCRC(0, b[:n]))
}

func (g *gen) badFPDU() []Case {
	spoiled := func(name string, at int) Try {
		s := g.rpc(name)
		return s.send(g.null(s.bad)).last(func(st *Step) { st.Spoil = flip(at) }).want(terminate(crcMismatch))
	}
	long := g.rpc("in the middle of 1000 octets")
	long.send(append(g.null(long.bad), make([]byte, 1000-68)...)).last(func(st *Step) { st.Spoil = flip(500) })
	first := g.bare("")
	first.send(g.null(first.bad)).last(func(st *Step) { st.Spoil = flip(-1) })
	short := func(n int, octet byte) Try {
		s := g.rpc(fmt.Sprintf("%d octets, control %#x", n, octet))
		u := append([]byte{octet, 0x43}, make([]byte, 20)...)[:n]
		return s.ulpdu(u).want(terminate(verbs.TermCode{Layer: 1}),
			otherCode("no document names a code for a ULPDU that is too short for its header"),
			tolerate("no document names an answer; Linux's siw waits for more octets", KindSilent))
	}
	large := g.rpc("")
	r := usual() // a server may make its receives no longer than what is said here (RFC 8797 Section 4)
	r.PrivateData = rpcrdma.PrivateData{SendSize: 256 << 10, RecvSize: 4096}.Append(nil)
	large.Request = r.bytes()
	large.ulpdu(append(untagged(uint8(verbs.OpSend), 0, large.msn, g.null(large.bad)), make([]byte, 65535-ddp.UntaggedLen-68)...))
	longest := tooLong()
	if g.Receives >= 65535-ddp.UntaggedLen {
		longest = ok(KindAnswered, KindGarbageArgs, KindErrChunk)
	}
	return []Case{
		{Name: "fpdu/bad-crc", Rows: []int{13, 17}, Rule: "RFC 5044 Section 8", Sends: "a NULL call whose FPDU has one bit inverted", Tries: []Try{
			spoiled("in the DDP header", 5), spoiled("in the RPC message", 40), spoiled("in the CRC", -1), long.want(terminate(crcMismatch)),
		}},
		{Name: "fpdu/bad-crc-first", Rows: []int{13, 17}, Rule: "RFC 5044 Section 7.1.2", Sends: "a bad CRC in the very first FPDU, before which the responder may not send any", Tries: []Try{
			first.want(ok(KindClosed), tolerate("Linux's siw (6.1) may not look at the first FPDU until more comes", KindSilent), tolerate("RFC 5044 Section 8 wants a Terminate, Section 7.1.2 forbids it", KindTerminated)),
		}},
		{Name: "fpdu/short-ulpdu", Rows: []int{13}, Rule: "RFC 5041 Section 7.1", Sends: "an FPDU with a right CRC, too short for a DDP header", Tries: []Try{
			short(0, 0), short(1, 0x41), short(13, 0xc1), short(14, 0x41), short(17, 0x41),
		}},
		{Name: "fpdu/longest", Rows: []int{13}, Rule: "RFC 5041 Section 7.1", Sends: "a Send in an FPDU of 65535 octets, the largest length that fits its field", Tries: []Try{
			large.want(longest),
		}},
	}
}

// tooLong wants the answers to a Send that is longer than the receive posted for it.
func tooLong() []Want {
	return append(terminate(verbs.TermCode{Layer: 1, EType: 2, Code: 5}, verbs.TermCode{Layer: 1, EType: 2, Code: 2}),
		tolerate("its receives are longer than any RFC 8797 can name", KindAnswered, KindGarbageArgs, KindErrChunk)...)
}

func (g *gen) goodFPDU() []Case {
	every := g.rpc("")
	n := mpa.FPDULen(len(untagged(0, 0, 0, g.null(0))))
	for k := 1; k < n; k++ {
		xid := g.xid()
		every.send(g.null(xid)).about(xid).last(func(st *Step) { st.Split, st.Await = k, xid })
	}
	one := g.rpc("")
	one.send(g.null(one.bad)).about(one.bad).last(func(st *Step) { st.Piece = 1 })
	pair := g.rpc("two calls")
	for range 2 {
		xid := g.xid()
		pair.send(g.null(xid)).about(xid).last(func(st *Step) { st.Spare, st.Join = true, true })
	}
	pair.last(func(st *Step) { st.Join = false })
	half := g.rpc("one call and a half")
	two := g.xid()
	half.send(g.null(half.bad)).about(half.bad).last(func(st *Step) { st.Spare, st.Join = true, true })
	u := untagged(uint8(verbs.OpSend), 0, half.msn, g.null(two))
	half.about(two).ulpdu(u).last(func(st *Step) { st.Spoil, st.Join = cut(31), true })
	half.ulpdu(u).last(func(st *Step) { st.Spoil = func(b []byte) []byte { return b[31:] } })
	pad := g.rpc("")
	pad.send(append(g.null(pad.bad), 0, 0)).about(pad.bad).last(func(st *Step) { st.Spoil = padded })
	return []Case{
		{Name: "fpdu/split-everywhere", Rows: []int{13}, Rule: "RFC 5044 Section 6", Sends: "a NULL call in two writes, cut at every octet in turn", Tries: []Try{every.want(ok(KindAnswered))}},
		{Name: "fpdu/octet-by-octet", Rows: []int{13}, Rule: "RFC 5044 Section 6", Sends: "a NULL call, one octet at a time", Tries: []Try{one.want(ok(KindAnswered))}},
		{Name: "fpdu/several-per-write", Rows: []int{13}, Rule: "RFC 5044 Section 6", Sends: "several FPDUs in one write", Tries: []Try{
			pair.want(ok(KindAnswered)), half.want(ok(KindAnswered)),
		}},
		{Name: "fpdu/pad-not-zero", Rows: []int{13}, Rule: "RFC 5044 Section 4.1", Sends: "a NULL call whose FPDU has a pad that is not zero", Tries: []Try{
			pad.want(ok(KindAnswered, KindGarbageArgs, KindErrChunk)),
		}},
	}
}

// silent has peers that stop in the middle. The server may be silent, but must serve others.
func (g *gen) silent() []Case {
	hold := ok(KindSilent, KindClosed, KindTerminated)
	request := func(name string, n int) Try {
		t := startup(name, append([]byte{}, UsualRequest()[:n]...), ok(KindSilent, KindClosed))
		t.Hold, t.Cut = true, true
		return t
	}
	quiet := g.bare("")
	quiet.Hold = true
	fpdu := func(name string, n int) Try {
		s := g.rpc(name)
		s.Hold = true
		return s.send(g.null(s.bad)).last(func(st *Step) { st.Spoil = cut(n) }).want(hold)
	}
	send := g.rpc("")
	send.Hold = true
	send.ulpdu(part(ddp.Segment{QN: 0, MSN: send.msn}, g.null(send.bad)[:40]))
	var many []Try
	for range 24 {
		many = append(many, request("", 19), fpdu("", 50))
	}
	ends := g.rpc("")
	ends.send(g.null(ends.bad)).last(func(st *Step) { st.Spoil = cut(50) })
	ends.Finish = true
	return []Case{
		{Name: "slow/half-request", Rows: []int{20}, Rule: "RFC 5044 Section 7.1.2", Sends: "a part of an MPA Request, and nothing more", Tries: []Try{
			request("nothing", 0), request("half the key", 8), request("all but one octet", len(UsualRequest())-1),
		}},
		{Name: "slow/no-fpdu", Rows: []int{16, 20}, Rule: "RFC 5044 Section 7.1.2", Sends: "a good MPA Request and nothing more: the responder must not speak first", Tries: []Try{quiet.want(hold)}},
		{Name: "slow/half-fpdu", Rows: []int{13, 20}, Rule: "RFC 5044 Section 8", Sends: "a part of an FPDU, and nothing more", Tries: []Try{
			fpdu("one octet", 1), fpdu("the length", 2), fpdu("half the header", 12), fpdu("all but the CRC", 88), fpdu("all but one octet", 91),
		}},
		{Name: "slow/half-send", Rows: []int{20}, Rule: "RFC 5041 Section 5.3", Sends: "the first segment of a Send, and nothing more", Tries: []Try{send.want(hold)}},
		{Name: "slow/many", Rows: []int{20}, Rule: "RFC 5044 Section 7.1.2", Sends: "48 connections that stop in the middle, at the same time", Tries: many},
		{Name: "fpdu/cut", Rows: []int{9, 13}, Rule: "RFC 5044 Section 8", Sends: "half of a NULL call's FPDU, then FIN", Tries: []Try{
			ends.want(ok(KindClosed), tolerate("a Terminate where the connection is lost", KindTerminated)),
		}},
	}
}

// part returns the ULPDU of a segment of a Send.
func part(s ddp.Segment, body []byte) []byte {
	s.Control = rdmapVersion1 | uint8(verbs.OpSend)
	return append(s.Append(nil), body...)
}

// put32 writes a word into u.
func put32(u []byte, at int, v uint32) []byte {
	binary.BigEndian.PutUint32(u[at:], v)
	return u
}
