package cases

import (
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// piece is a segment of a message: n octets of it, which say that they belong at off.
type piece struct{ off, n int }

// cutting is a way to send a message in pieces.
type cutting struct {
	name string
	lies bool // a receiver must not take it for whole
	cut  func(n int) []piece
}

// honest is how much of a call no cutting lies about: its header, up to the procedure. So a server that believes
// a lie still calls NULL.
const honest = 48

// parts returns the first octets as they are, and n octets in all: four pieces of equal size follow.
func parts(n int) (ps [5]piece) {
	ps[0].n = min(honest, n)
	for i, at := 1, ps[0].n; i < len(ps); i++ {
		end := at + (n-at)/(len(ps)-i)
		ps[i], at = piece{at, end - at}, end
	}
	return ps
}

func cuttings() []cutting {
	lie := func(name string, f func(p [5]piece) []piece) cutting {
		return cutting{name, true, func(n int) []piece { return f(parts(n)) }}
	}
	return []cutting{
		{"five segments", false, func(n int) []piece { p := parts(n); return p[:] }},
		{"seven octets each", false, func(n int) (ps []piece) {
			for at := 0; at < n; at += 7 {
				ps = append(ps, piece{at, min(7, n-at)})
			}
			return ps
		}},
		{"empty ones among them", false, func(n int) []piece {
			p := parts(n)
			return []piece{{0, 0}, p[0], p[1], {p[2].off, 0}, p[2], p[3], p[4], {n, 0}}
		}},
		lie("one twice, and one never", func(p [5]piece) []piece { return []piece{p[0], p[1], p[1], p[3], p[4]} }),
		lie("all in one place", func(p [5]piece) []piece {
			at := p[1].off
			return []piece{p[0], {at, p[1].n}, {at, p[2].n}, {at, p[3].n}, {at, p[4].n}}
		}),
		lie("two exchanged", func(p [5]piece) []piece { return []piece{p[0], p[2], p[1], p[3], p[4]} }),
		lie("backwards", func(p [5]piece) []piece { return []piece{p[0], p[4], p[3], p[2], p[1]} }),
		lie("one again", func(p [5]piece) []piece { return []piece{p[0], p[1], p[2], p[2], p[3], p[4]} }),
		lie("one left out", func(p [5]piece) []piece { return []piece{p[0], p[1], p[3], p[4]} }),
		lie("overlapping", func(p [5]piece) []piece { return []piece{p[0], p[1], {p[2].off - 4, p[2].n + 4}, p[3], p[4]} }),
		lie("overlapping, with as many octets in all", func(p [5]piece) []piece {
			return []piece{p[0], p[1], {p[2].off - 4, p[2].n}, {p[3].off - 4, p[3].n}, {p[4].off - 4, p[4].n + 4}}
		}),
		lie("a gap", func(p [5]piece) []piece { return []piece{p[0], p[1], {p[2].off + 4, p[2].n - 4}, p[3], p[4]} }),
		lie("the second half of one first", func(p [5]piece) []piece {
			h := p[2].n / 2
			return []piece{p[0], p[1], {p[2].off + h, p[2].n - h}, {p[2].off, h}, p[3], p[4]}
		}),
	}
}

// namedCall is a NULL call with a credential that makes it long enough to be cut.
func (g *gen) namedCall(xid uint32) []byte {
	name := make([]byte, 200)
	for i := range name {
		name[i] = 'a' + byte(i%26)
	}
	cred := xdr.SysCred{MachineName: string(name)}
	return xdr.AppendCall(nil, &xdr.CallHeader{XID: xid, RPCVers: xdr.RPCVersion, Prog: g.Prog, Vers: g.Vers, Cred: cred.Auth()})
}

// liars are messages in pieces, right and wrong. A receiver that counts octets, and does not look where they
// belong, hands up memory that nobody has written.
func (g *gen) liars() []Case {
	var sends, goodSends, responses, goodResponses []Try
	for _, c := range cuttings() {
		send, resp := g.cutSend(c), g.cutResponse(c)
		if c.lies {
			sends, responses = append(sends, send), append(responses, resp)
		} else {
			goodSends, goodResponses = append(goodSends, send), append(goodResponses, resp)
		}
	}
	return []Case{
		{Name: "liar/send", Rows: []int{10, 14}, Rule: "RFC 5041 Section 7.1", Sends: "a NULL call whose segments repeat, move, overlap or lack octets", Tries: sends},
		{Name: "liar/send-pieces", Rows: []int{13}, Rule: "RFC 5041 Section 5.2", Sends: "a NULL call in segments that are right", Tries: goodSends},
		{Name: "liar/read-response", Rows: []int{10, 14}, Rule: "RFC 5041 Section 5.2.1, RFC 5040 Section 5.5", Sends: "a NULL call in a read chunk, and a Read Response whose segments repeat, move, overlap or lack octets", Tries: responses},
		{Name: "liar/read-response-pieces", Rows: []int{10}, Rule: "RFC 5040 Section 5.2", Sends: "a NULL call in a read chunk, and a Read Response in segments that are right", Tries: goodResponses},
	}
}

func (g *gen) cutSend(c cutting) Try {
	s := g.rpc(c.name)
	msg := append(header(s.bad, rpcrdma.MsgTypeMsg, s.Lists), g.namedCall(s.bad)...)
	ps := c.cut(len(msg))
	for i, p := range ps {
		s.ulpdu(part(ddp.Segment{Last: i == len(ps)-1, MSN: s.msn, MO: uint32(p.off)}, msg[p.off:p.off+p.n]))
	}
	s.msn++
	if c.lies {
		return s.want(terminate(codesDDP(2, 4, 5)...))
	}
	return s.about(s.bad).want(ok(KindAnswered))
}

func (g *gen) cutResponse(c cutting) Try {
	s := g.rpc(c.name)
	seg := s.memory(g.namedCall(s.bad), ReadCut)
	s.Memory[len(s.Memory)-1].cut = c.cut
	s.send(s.long(seg))
	if c.lies {
		return s.want(terminate(append(codesDDP(1, 1), codesRDMAP(2, 0xff, 7)...)...), otherCode("no document names a code for it"))
	}
	return s.about(s.bad).then(ok(KindAnswered))
}

// respondCut answers a Read in pieces.
func (w *Watcher) respondCut(cut func(n int) []piece, sink ddp.STag, to uint64, data []byte) {
	ps := cut(len(data))
	for i, p := range ps {
		s := ddp.Segment{Tagged: true, Last: i == len(ps)-1, Control: rdmapVersion1 | uint8(verbs.OpReadResponse), STag: sink, TO: to + uint64(p.off)}
		w.out = append(w.out, append(s.Append(nil), data[p.off:p.off+p.n]...))
	}
}
