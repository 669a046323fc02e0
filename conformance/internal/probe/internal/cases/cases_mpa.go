package cases

import (
	"encoding/binary"
	"fmt"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// startup is a try that has only a Request.
func startup(name string, octets []byte, wants ...[]Want) Try {
	t := Try{Name: name, Request: octets}
	for _, w := range wants {
		t.Wants = append(t.Wants, w...)
	}
	return t
}

// raw returns a Request with any flags, revision and PD_Length, followed by data.
func raw(flags, rev byte, length uint16, data []byte) []byte {
	b := append([]byte(mpa.RequestKey), flags, rev)
	return append(binary.BigEndian.AppendUint16(b, length), data...)
}

func (g *gen) badStartup() []Case {
	const rule = "RFC 5044 Section 7.1.2"
	closed := ok(KindClosed)
	refused := ok(KindClosed, KindRejected)
	word := mpa.Enhanced{IRD: 4, ORD: 4}.Append(nil)
	reply := append([]byte(mpa.ReplyKey), raw(0x50, 2, 4, word)[16:]...)
	wrong := append([]byte(nil), UsualRequest()...)
	wrong[15] ^= 1
	fpdu := mpa.AppendFPDU(nil, untagged(uint8(verbs.OpSend), ddp.QNSend, ddp.FirstMSN, g.null(g.xid())), true)
	early := tolerate("no document says that a responder must look", KindAccepted)
	ends := func(name string, octets []byte) Try {
		t := startup(name, octets, closed)
		t.Finish, t.Cut = true, true
		return t
	}
	return []Case{
		{Name: "mpa/wrong-key", Rows: []int{16}, Rule: rule, Sends: "a startup frame with a key other than that of a Request", Tries: []Try{
			startup("last octet", wrong, closed),
			startup("that of a Reply", reply, closed),
			startup("not MPA at all", []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), closed),
		}},
		{Name: "mpa/revision", Rows: []int{16}, Rule: rule + ", Appendix C", Sends: "a Request of a revision that does not exist, or of the RDMA Consortium's", Tries: []Try{
			startup("0", raw(0x40, 0, 0, nil), refused),
			startup("3", raw(0x50, 3, 4, word), refused),
			startup("255", raw(0x50, 255, 4, word), refused),
		}},
		{Name: "mpa/private-data-too-long", Rows: []int{16, 18}, Rule: "RFC 5044 Section 7.1.1", Sends: "a Request with PD_Length above 512", Tries: []Try{
			startup("513", raw(0x50, 2, 513, append(word, make([]byte, 509)...)), refused),
			startup("600", raw(0x50, 2, 600, append(word, make([]byte, 596)...)), refused),
			startup("65535, of which 4 come", raw(0x50, 2, 65535, word), refused),
		}},
		{Name: "mpa/no-enhanced-word", Rows: []int{16}, Rule: "RFC 6581 Section 6", Sends: "S=1 without the four octets of the enhanced word", Tries: []Try{
			startup("0 octets", raw(0x50, 2, 0, nil), refused),
			startup("2 octets", raw(0x50, 2, 2, word[:2]), refused),
		}},
		{Name: "mpa/octets-after-request", Rows: []int{16}, Rule: rule, Sends: "a good Request with octets after it, before the Reply", Tries: []Try{
			startup("an FPDU", append(UsualRequest(), fpdu...), refused, early),
			startup("one octet", append(UsualRequest(), 0), refused, early),
		}},
		{Name: "mpa/cut", Rows: []int{13, 16}, Rule: "RFC 5044 Section 8", Sends: "a Request that ends too early, then FIN", Tries: []Try{
			ends("nothing", []byte{}), ends("inside the key", UsualRequest()[:7]), ends("inside the private data", UsualRequest()[:27]),
		}},
	}
}

// good is a try of a legal Request: the NULL call after it must be answered.
func (g *gen) good(name string, r request, wants ...[]Want) Try {
	s := g.bare(name)
	s.Request = r.bytes()
	return g.thenCall(s, append(wants, ok(KindAnswered))...)
}

// thenCall ends s with a NULL call that must be answered.
func (g *gen) thenCall(s *script, wants ...[]Want) Try {
	s.send(g.null(s.bad)).about(s.bad)
	s.Steps[len(s.Steps)-1].Await = s.bad
	return s.want(wants...)
}

func (g *gen) goodStartup() []Case {
	var depths, data, flags, rtr []Try
	policy := tolerate("a responder may refuse by R=1 (RFC 5044 Section 7.1.2); Linux's siw does", KindRejected)
	for _, d := range [][2]uint16{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {0x3ffe, 0x3ffe}, {mpa.NotNegotiated, mpa.NotNegotiated}} {
		r := usual()
		r.Word.IRD, r.Word.ORD = d[0], d[1]
		try := g.good(fmt.Sprintf("IRD %d, ORD %d", d[0], d[1]), r, policy)
		if d[1] == 0x3ffe {
			try.Excused = map[string]string{"MPA-014": "nobody has so many; the initiator may lower its ORD"}
		}
		depths = append(depths, try)
	}
	for _, n := range []int{0, 1, 7, 8, 9, 100, 255, 256, 507, 508} {
		r := usual()
		r.PrivateData = make([]byte, n)
		data = append(data, g.good(fmt.Sprintf("%d octets", n), r,
			tolerate("more private data than it takes: Linux (6.1) takes less than 256 octets", KindRejected, KindClosed)))
	}
	vary := func(name string, f func(r *request)) Try {
		r := usual()
		f(&r)
		return g.good(name, r, policy)
	}
	flags = []Try{
		vary("reserved bits", func(r *request) { r.Reserved = 0x0f }),
		vary("R, which receivers do not check", func(r *request) { r.Rejected = true }),
		vary("no CRC requested", func(r *request) { r.CRC = false }),
	}
	plain := []Try{
		vary("revision 1", func(r *request) { r.Rev, r.Enhanced = 1, false }),
		vary("revision 2 without S", func(r *request) { r.Enhanced = false }),
	}
	s1 := g.bare("revision 1 with S, which is reserved there")
	s1.Request = raw(0x50, 1, 0, nil)
	plain = append(plain, g.thenCall(s1, ok(KindAnswered), policy))
	marked := g.good("", func() request { r := usual(); r.Markers = true; return r }(),
		tolerate("Linux's siw cannot insert markers and refuses, against the MUST of RFC 5044 Section 4.3", KindRejected))
	for _, o := range []mpa.RTR{mpa.RTRWrite, mpa.RTRRead, mpa.RTRSend} {
		rtr = append(rtr, g.peerToPeer(o))
	}
	piece := g.good("", usual(), tolerate("Linux's siw (6.1) may not reassemble a Request that comes in pieces", KindSilent))
	piece.Piece = 1
	return []Case{
		{Name: "mpa/depths", Rows: []int{16}, Rule: "RFC 6581 Section 9.1", Sends: "a legal Request, with read depths from 0 to not negotiated", Tries: depths},
		{Name: "mpa/private-data", Rows: []int{16}, Rule: "RFC 5044 Section 7.1.1", Sends: "a legal Request, with private data of all lengths that has no meaning to RPC-over-RDMA", Tries: data},
		{Name: "mpa/flags", Rows: []int{16}, Rule: "RFC 5044 Section 7.1.1", Sends: "a legal Request, with flags that receivers do not check", Tries: flags},
		{Name: "mpa/plain", Rows: []int{16}, Rule: "RFC 6581 Section 10", Sends: "a legal Request that is not enhanced", Tries: plain},
		{Name: "mpa/markers", Rows: []int{16}, Rule: "RFC 5044 Section 4.3", Sends: "a legal Request that asks for markers", Tries: []Try{marked}},
		{Name: "mpa/peer-to-peer", Rows: []int{16}, Rule: "RFC 6581 Section 9.2", Sends: "a legal Request with A=1, then that ready-to-receive message", Tries: rtr},
		{Name: "mpa/octet-by-octet", Rows: []int{13, 16}, Rule: "RFC 5044 Section 7.1.1", Sends: "a legal Request, one octet at a time", Tries: []Try{piece}},
	}
}

// peerToPeer sends the ready-to-receive message o as the first FPDU.
func (g *gen) peerToPeer(o mpa.RTR) Try {
	r := usual()
	r.Word.PeerToPeer, r.Word.RTR = true, o
	s := g.bare("RTR " + o.String())
	s.Request, s.RTR = r.bytes(), o
	switch o {
	case mpa.RTRWrite:
		s.ulpdu(tagged(verbs.OpWrite, 1, 0, nil))
	case mpa.RTRRead:
		s.ulpdu(untagged(uint8(verbs.OpReadRequest), ddp.QNRequest, ddp.FirstMSN, readRequest(0, 1, 0)))
	case mpa.RTRSend:
		s.send(nil)
	}
	return g.thenCall(s, ok(KindAnswered), tolerate("it offers other ready-to-receive messages (RFC 6581 Section 9.2), or none", KindRejected))
}
