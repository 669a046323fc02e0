package cases

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// codesRDMAP returns codes of RDMAP, all of one error type (RFC 5040 Section 4.8).
func codesRDMAP(etype uint8, codes ...uint8) (list []verbs.TermCode) {
	for _, c := range codes {
		list = append(list, verbs.TermCode{EType: etype, Code: c})
	}
	return list
}

var unexpectedOpcode = codesRDMAP(2, 6)

func (g *gen) badRDMAP() []Case {
	var version, opcode []Try
	for _, v := range []byte{0, 2, 3} {
		version = append(version, g.broken(fmt.Sprint(v), func(s *script) []byte {
			u := untagged(sendOp, 0, s.msn, g.null(s.bad))
			u[1] = u[1]&0x3f | v<<6
			return u
		}, codesRDMAP(2, 5)...))
	}
	on := func(op verbs.Opcode, qn uint32, n int) func(s *script) []byte {
		return func(s *script) []byte {
			msn := uint32(ddp.FirstMSN)
			if qn == ddp.QNSend {
				msn = s.msn
			}
			return untagged(uint8(op), qn, msn, make([]byte, n))
		}
	}
	for op := verbs.Opcode(12); op < 16; op++ {
		opcode = append(opcode, g.broken(fmt.Sprintf("%#x on queue 0", uint8(op)), on(op, 0, 20), unexpectedOpcode...))
	}
	place := []Try{
		g.broken("Send on queue 1", on(verbs.OpSend, 1, 68), unexpectedOpcode...),
		g.broken("Send on queue 2", on(verbs.OpSend, 2, 68), unexpectedOpcode...),
		g.broken("Read Request on queue 0", on(verbs.OpReadRequest, 0, 28), unexpectedOpcode...),
		g.broken("Terminate on queue 0", on(verbs.OpTerminate, 0, 4), unexpectedOpcode...),
		g.broken("RDMA Write, untagged", on(verbs.OpWrite, 0, 8), unexpectedOpcode...),
		g.broken("Read Response, untagged", on(verbs.OpReadResponse, 0, 8), unexpectedOpcode...),
		g.broken("Send, tagged", func(*script) []byte { return tagged(verbs.OpSend, 1, 0, make([]byte, 68)) }, unexpectedOpcode...),
		g.broken("Read Request, tagged", func(*script) []byte { return tagged(verbs.OpReadRequest, 1, 0, make([]byte, 28)) }, unexpectedOpcode...),
	}
	for i := range place {
		place[i].Wants = append(place[i].Wants, siw(append(codesDDP(2, 1, 3), codesDDP(1, 0)[0], verbs.TermCode{Layer: 1}, verbs.TermCode{Layer: 2, Code: 3})...)...)
	}
	invalidate := g.rpc("")
	u := untagged(uint8(verbs.OpSendInvalidate), 0, invalidate.msn, g.null(invalidate.bad))
	invalidate.ulpdu(put32(u, 2, 0x12345600))
	response := func(name string, n int) Try {
		return g.broken(name, func(*script) []byte { return tagged(verbs.OpReadResponse, 0x12345600, 0, make([]byte, n)) }, codesDDP(1, 0, 2)...)
	}
	some, none := response("of 8 octets", 8), response("of no octets", 0)
	some.Wants = append(some.Wants, siw(verbs.TermCode{Layer: 1})...)
	none.Wants = append(none.Wants, otherCode("no document names the error")...)
	none.Wants = append(none.Wants, tolerate("no document says that it must be noticed", KindSilent)...)
	return []Case{
		{Name: "rdmap/version", Rows: []int{17}, Rule: "RFC 5040 Section 7.2", Sends: "a NULL call of another RDMAP version", Tries: version},
		{Name: "rdmap/opcode", Rows: []int{17}, Rule: "RFC 5040 Section 7.2", Sends: "a message with an opcode that RFC 5040 and RFC 7306 do not have", Tries: opcode},
		{Name: "rdmap/wrong-place", Rows: []int{17}, Rule: "RFC 5040 Section 7.2", Sends: "a message on a wrong queue, or in the wrong buffer model", Tries: place},
		{Name: "rdmap/extensions", Rows: []int{15}, Rule: "RFC 7306 Section 8", Sends: "atomics and Immediate Data, on which nobody has agreed", Tries: g.extensions()},
		{Name: "rdmap/invalidate", Rows: []int{14, 17}, Rule: "RFC 5040 Section 7.2", Sends: "a NULL call that invalidates an STag that the server has not offered", Tries: []Try{
			invalidate.want(terminate(append(codesRDMAP(1, 0, 9), codesRDMAP(2, 9)...)...)),
		}},
		{Name: "rdmap/read", Rows: []int{14, 17}, Rule: "RFC 5040 Section 7.2", Sends: "an RDMA Read of memory that the server has not offered", Tries: g.badReads()},
		{Name: "rdmap/read-response", Rows: []int{14, 17}, Rule: "RFC 5040 Section 7.2", Sends: "the response to an RDMA Read that nobody has requested", Tries: []Try{some, none}},
		{Name: "rdmap/terminate", Rows: []int{17}, Rule: "RFC 5040 Section 5.4", Sends: "a Terminate, good or bad: the connection ends, and no Terminate answers it", Tries: g.terminates()},
	}
}

// extensions are the messages of RFC 7306, to a server that need not know them.
func (g *gen) extensions() []Try {
	request := func(name string, op verbs.Opcode, qn uint32, n int, codes ...verbs.TermCode) Try {
		s := g.rpc(name)
		msn := s.msn
		if qn != ddp.QNSend {
			msn = ddp.FirstMSN
		}
		return s.ulpdu(untagged(uint8(op), qn, msn, make([]byte, n))).want(terminate(append(codes, unexpectedOpcode...)...))
	}
	protection := append(codesRDMAP(1, 0, 1, 2, 3), codesRDMAP(2, 7)...)
	immediate := func(op verbs.Opcode) Try {
		s := g.rpc(op.String())
		s.ulpdu(untagged(uint8(op), ddp.QNSend, s.msn, make([]byte, 8)))
		s.msn++
		return s.then(terminate(unexpectedOpcode...), tolerate("it knows RFC 7306", KindDropped))
	}
	return []Try{
		immediate(verbs.OpImmediate), immediate(verbs.OpImmediateSE),
		request("Atomic Request", verbs.OpAtomicRequest, ddp.QNRequest, 52, protection...),
		request("Atomic Request of 4 octets", verbs.OpAtomicRequest, ddp.QNRequest, 4, protection...),
		request("Atomic Response", verbs.OpAtomicResponse, ddp.QNResponse, 12, append(codesDDP(2, 1, 2), codesRDMAP(2, 0xff)...)...),
		request("Flush Request", verbs.OpFlushRequest, ddp.QNRequest, 20, protection...),
		request("Verify Request", verbs.OpVerifyRequest, ddp.QNRequest, 16, protection...),
		request("Flush Response", verbs.OpFlushResponse, ddp.QNResponse, 0, append(codesDDP(2, 1, 2), codesRDMAP(2, 0xff)...)...),
	}
}

func (g *gen) badReads() []Try {
	read := func(name string, body []byte, codes ...verbs.TermCode) Try {
		t := g.broken(name, func(s *script) []byte { return untagged(uint8(verbs.OpReadRequest), ddp.QNRequest, s.req, body) }, codes...)
		t.Wants = append(t.Wants, Want{Kind: KindTerminated, Codes: codesDDP(2, 2), Verdict: Tolerated, Why: "it serves no RDMA Reads at all"})
		return t
	}
	protection := codesRDMAP(1, 0, 2, 3)
	length := append(codesRDMAP(2, 7), codesDDP(2, 5)...)
	short := read("a request of 27 octets", readRequest(8, 1, 0)[:27], length...)
	long := read("a request of 29 octets", append(readRequest(8, 1, 0), 0), length...)
	for _, t := range []*Try{&short, &long} {
		t.Wants = append(t.Wants, otherCode("no document names a code for it")...)
	}
	return []Try{
		read("1 octet of STag 0", readRequest(1, 0, 0), protection...),
		read("1 octet of STag 1", readRequest(1, 1, 0), protection...),
		read("2^32-1 octets", readRequest(math.MaxUint32, 0x12345600, 0), protection...),
		read("8 octets at 2^64-4", readRequest(8, 0x12345600, math.MaxUint64-3), codesRDMAP(1, 0, 2, 3, 4)...),
		short, long,
	}
}

func (g *gen) terminates() []Try {
	send := func(name string, bodies ...[]byte) Try {
		s := g.rpc(name)
		for i, b := range bodies {
			s.ulpdu(untagged(uint8(verbs.OpTerminate), ddp.QNTerminate, uint32(i+1), b))
			s.last(func(st *Step) { st.Join = i+1 < len(bodies) })
		}
		return s.want(ok(KindClosed), siw(verbs.TermCode{Layer: 2, Code: 3}))
	}
	plain := (&verbs.Terminate{Code: verbs.TermCode{Layer: 1, EType: 2, Code: 1}}).Append(nil)
	return []Try{
		send("a good one", plain),
		send("twice", plain, plain),
		send("of no octets", nil),
		send("of 3 octets", plain[:3]),
		send("headers announced that do not follow", words(0x1201e000)),
		send("a code that does not exist", words(0xf7ff0000)),
		send("of 200 octets", append(append([]byte{}, plain...), make([]byte, 196)...)),
	}
}

func (g *gen) goodRDMAP() []Case {
	nothing := g.rpc("")
	nothing.Responses = 1
	nothing.ulpdu(untagged(uint8(verbs.OpReadRequest), ddp.QNRequest, nothing.req, readRequest(0, 0x12345600, math.MaxUint64)))
	flood := g.rpc("")
	for i := range uint32(200) {
		flood.ulpdu(untagged(uint8(verbs.OpReadRequest), ddp.QNRequest, flood.req+i, readRequest(0, 1, 0))).last(func(st *Step) { st.Join = true })
	}
	flood.last(func(st *Step) { st.Join = false })
	event := g.rpc("")
	event.ulpdu(untagged(uint8(verbs.OpSendSE), 0, event.msn, g.null(event.bad))).about(event.bad)
	noReads := []Want{{Kind: KindTerminated, Codes: codesDDP(2, 2), Verdict: Tolerated, Why: "it serves no RDMA Reads at all"}}
	return []Case{
		{Name: "rdmap/read-nothing", Rows: []int{14}, Rule: "RFC 5040 Section 5.2", Sends: "an RDMA Read of no octets, whose STag must not be checked, then a NULL call", Tries: []Try{
			nothing.then(ok(KindDropped), noReads),
		}},
		{Name: "rdmap/reads-beyond-ird", Rows: []int{7, 17}, Rule: "RFC 5040 Section 6.1", Sends: "200 RDMA Reads of no octets at once, then a NULL call", Tries: []Try{
			flood.then(ok(KindDropped), terminate(codesDDP(2, 2)...), siw(codesRDMAP(2, 7)...)),
		}},
		{Name: "rdmap/solicited-event", Rule: "RFC 5040 Section 5.3", Sends: "a NULL call by a Send with Solicited Event", Tries: []Try{event.want(ok(KindAnswered))}},
	}
}

// procRead is READ of NFSv3 (RFC 1813 Section 3.3.6).
const procRead = 6

// reads are READs of lengths that MPA must pad: no answer to NULL has such a length.
func (g *gen) reads() []Case {
	if g.Handle == "" {
		return nil
	}
	c := Case{Name: "chunks/read-odd", Rows: []int{11}, Rule: "RFC 5044 Section 4.1, RFC 8166 Section 3.4.6.2", Sends: "NFSv3 READs of 1, 2, 3 and 5 octets into write chunks of those lengths"}
	for _, n := range []int{1, 2, 3, 5} {
		s := g.rpc(fmt.Sprint(n))
		s.Fills = true
		lists := chunks.Lists{Write: []chunks.WriteChunk{{s.room(n)}}}
		s.send(append(header(s.bad, rpcrdma.MsgTypeMsg, lists), g.read(s.bad, n)...))
		c.Tries = append(c.Tries, s.about(s.bad).then(ok(KindAnswered)))
	}
	return []Case{c}
}

// read returns a READ of the first n octets.
func (g *gen) read(xid uint32, n int) []byte {
	cred := xdr.SysCred{MachineName: "probe"}
	b := xdr.AppendCall(nil, &xdr.CallHeader{XID: xid, RPCVers: xdr.RPCVersion, Prog: g.Prog, Vers: g.Vers, Proc: procRead, Cred: cred.Auth()})
	b = binary.BigEndian.AppendUint32(b, uint32(len(g.Handle)))
	b = append(b, g.Handle...)
	b = append(b, make([]byte, -len(g.Handle)&3)...)
	return append(b, words(0, 0, uint32(n))...)
}
