package cases

import (
	"fmt"
	"math"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

const sendOp = uint8(verbs.OpSend)

// codesDDP returns codes of DDP, all of one error type (RFC 5041 Section 7.2).
func codesDDP(etype uint8, codes ...uint8) (list []verbs.TermCode) {
	for _, c := range codes {
		list = append(list, verbs.TermCode{Layer: 1, EType: etype, Code: c})
	}
	return list
}

// broken is a try of one ULPDU that breaks a rule, after a NULL call.
func (g *gen) broken(name string, ulpdu func(s *script) []byte, codes ...verbs.TermCode) Try {
	s := g.rpc(name)
	return s.ulpdu(ulpdu(s)).want(terminate(codes...))
}

// second is a try of a Send in two segments, the other of which f spoils.
func (g *gen) second(name string, f func(seg *ddp.Segment), codes ...verbs.TermCode) Try {
	s := g.rpc(name)
	msg := g.null(s.bad)
	s.ulpdu(part(ddp.Segment{MSN: s.msn}, msg[:32]))
	seg := ddp.Segment{Last: true, Control: rdmapVersion1 | sendOp, MSN: s.msn, MO: 32}
	f(&seg)
	return s.ulpdu(append(seg.Append(nil), msg[32:]...)).want(terminate(codes...))
}

func (g *gen) badDDP() []Case {
	null := func(s *script) []byte { return untagged(sendOp, 0, s.msn, g.null(s.bad)) }
	var version, queue, msn, mo, stag []Try
	for _, v := range []byte{0, 2, 3} {
		version = append(version,
			g.broken(fmt.Sprintf("%d, untagged", v), func(s *script) []byte { u := null(s); u[0] = u[0]&^3 | v; return u }, codesDDP(2, 6)...),
			g.broken(fmt.Sprintf("%d, tagged", v), func(*script) []byte {
				u := tagged(verbs.OpWrite, 1, 0, make([]byte, 8))
				u[0] = u[0]&^3 | v
				return u
			}, codesDDP(1, 4)...))
	}
	for _, q := range []uint32{4, 7, 255, math.MaxUint32} {
		queue = append(queue, g.broken(fmt.Sprint(q), func(s *script) []byte { return put32(null(s), 6, q) }, codesDDP(2, 1)...))
	}
	for _, d := range []uint32{math.MaxUint32, 1, 1000, 1 << 31} {
		msn = append(msn, g.broken(fmt.Sprintf("%+d", int32(d)), func(s *script) []byte { return put32(null(s), 10, s.msn+d) }, codesDDP(2, 2, 3)...))
	}
	for _, o := range []uint32{1, 64, 4096, math.MaxUint32} {
		mo = append(mo, g.broken(fmt.Sprint(o), func(s *script) []byte { return put32(null(s), 14, o) }, codesDDP(2, 4, 5)...))
	}
	write := func(h ddp.STag, to uint64, n int) func(*script) []byte {
		return func(*script) []byte { return tagged(verbs.OpWrite, h, to, make([]byte, n)) }
	}
	for _, h := range []ddp.STag{0, 1, 0x12345600, 0x7fffffff, 0xffffffff} {
		stag = append(stag, g.broken(fmt.Sprintf("%#x", uint32(h)), write(h, 0, 8), codesDDP(1, 0, 2)...))
	}
	wrap := []Try{
		g.broken("8 octets at 2^64-4", write(0x12345600, math.MaxUint64-3, 8), codesDDP(1, 0, 2, 3)...),
		g.broken("1 octet at 2^64-1", write(0x12345600, math.MaxUint64, 1), codesDDP(1, 0, 2, 3)...),
		g.broken("1000 octets at 2^63", write(0x12345600, 1<<63, 1000), codesDDP(1, 0, 1, 2, 3)...),
	}
	within := []Try{
		g.second("another opcode", func(s *ddp.Segment) { s.Control = rdmapVersion1 | uint8(verbs.OpSendSE) }, verbs.TermCode{EType: 2, Code: 6}),
		g.second("the next MSN", func(s *ddp.Segment) { s.MSN++; s.MO = 0 }, codesDDP(2, 2, 3)...),
		g.second("a gap", func(s *ddp.Segment) { s.MO += 4 }, codesDDP(2, 4)...),
		g.second("the same octets again", func(s *ddp.Segment) { s.MO = 0 }, codesDDP(2, 4)...),
		g.second("MO near 2^32", func(s *ddp.Segment) { s.MO = math.MaxUint32 - 3 }, codesDDP(2, 4, 5)...),
	}
	const rule = "RFC 5041 Section 7.1"
	return []Case{
		{Name: "ddp/version", Rows: []int{17}, Rule: rule, Sends: "a segment of another DDP version", Tries: version},
		{Name: "ddp/queue", Rows: []int{17}, Rule: rule, Sends: "a NULL call on a queue that does not exist", Tries: queue},
		{Name: "ddp/msn", Rows: []int{7, 17}, Rule: rule, Sends: "a NULL call whose MSN is not the next one", Tries: msn},
		{Name: "ddp/mo", Rows: []int{17}, Rule: rule, Sends: "a NULL call whose only segment has an offset", Tries: mo},
		{Name: "ddp/second-segment", Rows: []int{17}, Rule: rule, Sends: "a NULL call in two segments that do not fit together", Tries: within},
		{Name: "ddp/send-too-long", Rows: []int{5, 17}, Rule: rule, Sends: "a Send of 300,000 octets", Tries: []Try{g.huge()}},
		{Name: "ddp/invented-stag", Rows: []int{14}, Rule: rule, Sends: "an RDMA Write to memory that the server has not offered", Tries: stag},
		{Name: "ddp/to-wrap", Rows: []int{14}, Rule: rule, Sends: "an RDMA Write to an offset at, or beyond, the end of the address space", Tries: wrap},
	}
}

// huge is a Send in many segments, longer than any receive that RFC 8797 can announce.
func (g *gen) huge() Try {
	const octets, each = 300000, 16000
	s := g.rpc("")
	msg := append(g.null(s.bad), make([]byte, octets)...)
	for at := 0; at < len(msg); at += each {
		n := min(each, len(msg)-at)
		s.ulpdu(part(ddp.Segment{Last: at+n == len(msg), MSN: s.msn, MO: uint32(at)}, msg[at:at+n]))
	}
	return s.want(tooLong())
}

func (g *gen) goodDDP() []Case {
	pieces := func(name string, each int, empty bool) Try {
		s := g.rpc(name)
		msg := g.null(s.bad)
		for at := 0; at < len(msg); at += each {
			n := min(each, len(msg)-at)
			s.ulpdu(part(ddp.Segment{Last: at+n == len(msg) && !empty, MSN: s.msn, MO: uint32(at)}, msg[at:at+n]))
			s.last(func(st *Step) { st.Join = true })
		}
		if empty {
			s.ulpdu(part(ddp.Segment{Last: true, MSN: s.msn, MO: uint32(len(msg))}, nil))
		}
		s.msn++
		return s.about(s.bad).last(func(st *Step) { st.Join = false }).want(ok(KindAnswered))
	}
	changed := func(name string, f func(u []byte)) Try {
		s := g.rpc(name)
		u := untagged(sendOp, 0, s.msn, g.null(s.bad))
		f(u)
		return s.ulpdu(u).about(s.bad).want(ok(KindAnswered))
	}
	empty := g.rpc("")
	empty.ulpdu(tagged(verbs.OpWrite, 0x12345600, math.MaxUint64, nil))
	return []Case{
		{Name: "ddp/many-segments", Rows: []int{13}, Rule: "RFC 5041 Section 5.2", Sends: "a NULL call in many segments", Tries: []Try{
			pieces("1 octet each", 1, false), pieces("7 octets each", 7, false), pieces("the last one empty", 20, true),
		}},
		{Name: "ddp/reserved-bits", Rule: "RFC 5041 Section 4.1, RFC 5040 Section 4.1", Sends: "a NULL call with bits set that receivers do not check", Tries: []Try{
			changed("of DDP", func(u []byte) { u[0] |= 0x3c }),
			changed("of RDMAP", func(u []byte) { u[1] |= 0x20 }),
			changed("an Invalidate STag in a plain Send", func(u []byte) { put32(u, 2, 0x12345600) }),
		}},
		{Name: "ddp/empty-write", Rows: []int{14}, Rule: "RFC 5041 Section 5.2", Sends: "an RDMA Write of no octets, whose STag must not be checked, then a NULL call", Tries: []Try{empty.then(ok(KindDropped))}},
	}
}
