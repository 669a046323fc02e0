package judge_test

import (
	"encoding/binary"
	"strings"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge/internal/twin"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// change does one exchange of a kind, with one thing changed.
func change(kind func(*twin.RPC) *twin.Exchange, f func(*twin.Exchange)) func(*twin.RPC) {
	return func(t *twin.RPC) {
		t.Do(t.Null())
		x := kind(t)
		f(x)
		t.Do(x)
	}
}

// The kinds.
func readFile(t *twin.RPC) *twin.Exchange  { return t.ReadFile(5001) }
func writeFile(t *twin.RPC) *twin.Exchange { return t.WriteFile(5001) }
func readDir(t *twin.RPC) *twin.Exchange   { return t.ReadDir() }
func longList(t *twin.RPC) *twin.Exchange  { return t.ReadDir().LongReply() }

// word changes a word of the header that goes out, at an octet from its start or, negative, from its end.
func word(at int, v uint32) func(*twin.Message) {
	return func(m *twin.Message) {
		b := m.Header.Append(nil)
		if at < 0 {
			at += len(b)
		}
		binary.BigEndian.PutUint32(b[at:], v)
		m.Raw = append(b, m.Body...)
	}
}

// badHeader is a call that is answered by ERR_CHUNK.
func badHeader(kind func(*twin.RPC) *twin.Exchange, f func(*twin.Message)) func(*twin.RPC) {
	return change(kind, func(x *twin.Exchange) {
		f(&x.Call)
		x.Refuse(rpcrdma.ErrChunk)
	})
}

func null(t *twin.RPC) *twin.Exchange { return t.Null() }

// ask does a NULL that the responder answers in another way.
func ask(f func(*twin.Exchange)) func(*twin.RPC) { return change(null, f) }

// ccp begins a connection with CONF_RDMA, so that it is one of RFC 5666.
func ccp(t *twin.RPC) { t.Do(conf(t)) }

func conf(t *twin.RPC) *twin.Exchange {
	return t.Exchange(100417, 1, 1, make12(4096, 4096, 16), make12(4096, 4, 16))
}

func make12(a, b, c uint32) []byte {
	return xdr.AppendUint32(xdr.AppendUint32(xdr.AppendUint32(nil, a), b), c)
}

// pulledReply is a READ whose result the client pulls, and says so (RFC 5666).
func pulledReply(t *twin.RPC) (x *twin.Exchange, done *twin.Exchange) {
	x = t.NFS(nfs3.ProcRead, twin.ReadArgs(3000), twin.ReadRes(3000))
	s := t.NewSegment(3000)
	at := len(x.Reply.Body) - 3000
	x.Reply.Body = x.Reply.Body[:at]
	x.Reply.Header.Read = []chunks.ReadSegment{{Position: uint32(at), Segment: s}}
	done = &twin.Exchange{Dir: twin.I, Reply: twin.Message{Skip: true}}
	done.Call.Header = rpcrdma.Header{XID: x.Call.Header.XID, Vers: 1, Credit: 32, Type: rpcrdma.MsgTypeDone}
	return x, done
}

var rpcrdmaTwins = map[string]func(*twin.RPC){
	"RPCRDMA-001": ask(func(x *twin.Exchange) { x.Call.Raw, x.Reply.Skip = x.Call.Header.Append(nil)[:24], true }),
	"RPCRDMA-002": func(t *twin.RPC) {
		for range 2 {
			x := t.Null()
			x.Call.Header.Vers = 2
			t.Do(x.Refuse(rpcrdma.ErrVers))
		}
	},
	"RPCRDMA-003": badHeader(null, word(12, 9)),
	"RPCRDMA-004": badHeader(readFile, word(16, 2)),
	"RPCRDMA-005": badHeader(null, func(m *twin.Message) { word(20, 1)(m); m.Raw = append(m.Raw[:24], 0, 0, 0, 9) }),
	"RPCRDMA-006": badHeader(writeFile, func(m *twin.Message) { m.Header.Read[0].Offset = ^uint64(0) }),
	"RPCRDMA-007": change(longList, func(x *twin.Exchange) { x.Reply.Body = make([]byte, 4) }),
	"RPCRDMA-008": badHeader(readDir, func(m *twin.Message) { m.Header.Type, m.Body = rpcrdma.MsgTypeNoMsg, nil }),
	"RPCRDMA-009": badHeader(null, func(m *twin.Message) { m.Body = m.Body[:4] }),
	"RPCRDMA-010": badHeader(null, func(m *twin.Message) { m.Body[3] ^= 1 }),

	"RPCRDMA-020": badHeader(writeFile, func(m *twin.Message) { m.Header.Read[0].Position += 2; m.Header.Read[1].Position += 2 }),
	"RPCRDMA-021": func(t *twin.RPC) {
		t.Do(t.Null())
		x := t.Exchange(0x20000000, 1, 1, make([]byte, 64), nil)
		for _, at := range []uint32{80, 60} {
			s := t.NewSegment(8)
			x.Call.Header.Read = append(x.Call.Header.Read, chunks.ReadSegment{Position: at, Segment: s})
			x.Pulls = append(x.Pulls, twin.Pull(s))
		}
		t.Do(x)
	},
	"RPCRDMA-022": badHeader(writeFile, func(m *twin.Message) { m.Header.Read[0].Position = 0; m.Header.Read = m.Header.Read[:1] }),
	"RPCRDMA-023": badHeader(writeFile, func(m *twin.Message) { m.Header.Read[0].Position += 64; m.Header.Read = m.Header.Read[:1] }),
	"RPCRDMA-024": badHeader(writeFile, func(m *twin.Message) { m.Header.Read[1].Position += 4 }),
	"RPCRDMA-025": change(writeFile, func(x *twin.Exchange) {
		x.Call.Header.Read[1].Length -= 8
		x.Pulls[1].Size -= 8
		refuseArgs(x)
	}),
	"RPCRDMA-026": change(writeFile, func(x *twin.Exchange) { x.Call.Header.Read[1].Length += 3; x.Pulls[1].Size += 3 }),
	"RPCRDMA-027": func(t *twin.RPC) {
		t.Do(t.Null())
		x := t.Reduce(t.NFS(nfs3.ProcLookup, twin.DirOp(strings.Repeat("n", 255)), &nfs3.LookupRes{Status: nfs3.ErrNoEnt}), 255)
		t.Do(x.Refuse(rpcrdma.ErrChunk))
	},
	"RPCRDMA-028": change(readFile, func(x *twin.Exchange) { gss(x, 3); x.Refuse(rpcrdma.ErrChunk) }),

	"RPCRDMA-030": change(readFile, func(x *twin.Exchange) { x.Reply.Header.Write = append(x.Reply.Header.Write, chunks.WriteChunk{}) }),
	"RPCRDMA-031": change(readFile, func(x *twin.Exchange) { x.Reply.Header.Write[0][1].Handle++ }),
	"RPCRDMA-032": change(readFile, func(x *twin.Exchange) { x.Reply.Header.Write[0][0].Length++ }),
	"RPCRDMA-033": change(readFile, func(x *twin.Exchange) { x.Reply.Header.Write[0][0].Length -= 4 }),
	"RPCRDMA-034": change(readFile, func(x *twin.Exchange) { x.Writes[1].Data = x.Writes[1].Data[1:] }),
	"RPCRDMA-035": func(t *twin.RPC) {
		x := t.NFS(nfs3.ProcRead, twin.ReadArgs(2000), twin.ReadRes(2000))
		body := x.Reply.Body
		t.Sink(x, chunks.WriteChunk{t.NewSegment(2000)}, 2000)
		x.Reply.Body, x.Writes = body, nil
		x.Reply.Header.Write[0][0].Length = 0
		t.Do(x)
	},
	"RPCRDMA-036": change(readFile, func(x *twin.Exchange) { // NFS3ERR_IO, without attributes
		x.Reply.Body = append(x.Reply.Body[:24:24], 0, 0, 0, 5, 0, 0, 0, 0)
	}),
	"RPCRDMA-037": change(readFile, func(x *twin.Exchange) { x.Reply.Header.Write[0][1].Length -= 9 }),
	"RPCRDMA-038": change(readFile, func(x *twin.Exchange) {
		x.Call.Header.Write[0][1].Length += 99
		x.Reply.Header.Write[0][1].Length += 3
		x.Writes[1].Data = append(x.Writes[1].Data, 0, 0, 0)
	}),
	"RPCRDMA-039": change(readFile, func(x *twin.Exchange) { x.Call.Header.Write[0][1].Length += 3 }),
	"RPCRDMA-040": change(readDir, func(x *twin.Exchange) { x.Reply.Header.HasReply = false }),
	"RPCRDMA-041": change(readFile, func(x *twin.Exchange) { x.Reply.Header.HasReply = true }),
	"RPCRDMA-042": change(longList, func(x *twin.Exchange) {
		x.Reply.Header.Type = rpcrdma.MsgTypeMsg
		for _, w := range x.Writes {
			x.Reply.Body = append(x.Reply.Body, w.Data...)
		}
	}),
	"RPCRDMA-043": change(readDir, func(x *twin.Exchange) { x.Call.Header.HasReply, x.Reply.Header.HasReply = false, false }),
	"RPCRDMA-044": func(t *twin.RPC) { x, _ := pulledReply(t); t.Do(x) },

	"RPCRDMA-045": change(readFile, func(x *twin.Exchange) {
		first := chunks.WriteChunk{{Handle: 0x4400, Length: 5001}}
		unused := chunks.WriteChunk{{Handle: 0x4400}}
		x.Call.Header.Write = append([]chunks.WriteChunk{first}, x.Call.Header.Write...)
		x.Reply.Header.Write = append([]chunks.WriteChunk{unused}, x.Reply.Header.Write...)
	}),
	"RPCRDMA-050": change(null, func(x *twin.Exchange) { x.Writes = []twin.Move{{STag: 0x999, Data: make([]byte, 4)}} }),
	"RPCRDMA-051": change(null, func(x *twin.Exchange) {
		x.Pulls = []decode.ReadRequest{{SinkSTag: 0x77, Size: 4, SourceSTag: 0x999}}
	}),
	"RPCRDMA-052": func(t *twin.RPC) {
		x := t.ReadFile(5001)
		x.Reply.Invalidate = 0
		t.Do(x)
		t.Write(twin.R, x.Writes[0].STag, x.Writes[0].TO, make([]byte, 8))
		t.Do(t.Null())
	},
	"RPCRDMA-053": change(writeFile, func(x *twin.Exchange) { x.Pulls = x.Pulls[:1] }),
	"RPCRDMA-054": change(writeFile, func(x *twin.Exchange) {
		x.Writes = []twin.Move{{STag: x.Pulls[0].SourceSTag, TO: x.Pulls[0].SourceTO, Data: make([]byte, 4)}}
	}),

	"RPCRDMA-060": func(t *twin.RPC) { several(t, func(x *twin.Exchange) { x.Reply.Header.Credit = 2 }, 3) },
	"RPCRDMA-061": func(t *twin.RPC) {
		a, b := t.Null(), t.Null()
		t.Ask(a)
		t.Ask(b)
		t.Answer(a)
		t.Answer(b)
	},
	"RPCRDMA-062": func(t *twin.RPC) { several(t, func(x *twin.Exchange) { x.Call.Header.Credit = 2 }, 3) },
	"RPCRDMA-063": ask(func(x *twin.Exchange) { x.Reply.Header.Credit = 0 }),
	"RPCRDMA-064": ask(func(x *twin.Exchange) { x.Call.Header.Credit = 0 }),

	"RPCRDMA-070": func(t *twin.RPC) {
		t.Private[1].RecvSize = 1024
		t.Do(t.NFS(nfs3.ProcWrite, twin.WriteArgs(1000), twin.WriteRes(1000)))
	},
	"RPCRDMA-071": func(t *twin.RPC) {
		t.Begin()
		t.Frames[1].Startup.PrivateData[4] = 2
		t.Do(t.Null())
	},
	"RPCRDMA-072": func(t *twin.RPC) {
		t.Begin()
		t.Frames[1].Startup.PrivateData[5] |= 2
		t.Do(t.Null())
	},
	"RPCRDMA-073": func(t *twin.RPC) {
		t.Private[1].RemoteInvalidate = false
		x := t.ReadFile(5001)
		x.Reply.Invalidate = x.Writes[0].STag
		t.Do(x)
	},
	"RPCRDMA-074": func(t *twin.RPC) {
		x, y := t.ReadFile(100), t.ReadFile(100)
		t.Do(t.Null())
		t.Ask(x)
		t.Ask(y)
		x.Reply.Invalidate = ddp.STag(y.Call.Header.Write[0][0].Handle)
		t.Answer(x)
		y.Refuse(rpcrdma.ErrChunk)
		t.Answer(y)
	},
	"RPCRDMA-075": ask(func(x *twin.Exchange) { x.Call.Invalidate = 0x12345 }),

	"RPCRDMA-080": ask(func(x *twin.Exchange) { x.Call.Skip = true }),
	"RPCRDMA-081": func(t *twin.RPC) { x := t.Null(); t.Do(x); x.Call.Skip = true; t.Do(x) },
	"RPCRDMA-082": func(t *twin.RPC) {
		x := t.Null()
		t.Do(t.Null())
		t.Ask(x)
		t.Do(x)
	},
	"RPCRDMA-083": ask(func(x *twin.Exchange) { x.Refuse(rpcrdma.ErrCode(7)) }),
	"RPCRDMA-084": ask(func(x *twin.Exchange) { x.Refuse(rpcrdma.ErrChunk); x.Call.Raw = x.Call.Header.Append(nil)[:24] }),
	"RPCRDMA-085": ask(func(x *twin.Exchange) { x.Call.Header.Vers = 2; x.Refuse(rpcrdma.ErrChunk) }),
	"RPCRDMA-086": ask(func(x *twin.Exchange) { x.Refuse(rpcrdma.ErrChunk).Reply.Header.Vers = 3 }),
	"RPCRDMA-087": ask(func(x *twin.Exchange) { x.Refuse(rpcrdma.ErrVers) }),
	"RPCRDMA-088": ask(func(x *twin.Exchange) { word(12, 9)(&x.Call) }),
	"RPCRDMA-089": func(t *twin.RPC) {
		x := t.Null()
		t.Do(x)
		e := &twin.Exchange{Dir: twin.R, Call: twin.Message{Skip: true}}
		e.Reply.Header = rpcrdma.Header{XID: x.Call.Header.XID, Vers: 1, Credit: 1, Type: rpcrdma.MsgTypeError, Err: rpcrdma.ErrChunk}
		t.Do(e)
	},

	"RPCRDMA-090": ask(func(x *twin.Exchange) {
		x.Call.Header.Type, x.Call.Header.Align = rpcrdma.MsgTypeMsgP, 4
		x.Refuse(rpcrdma.ErrChunk)
	}),
	"RPCRDMA-091": func(t *twin.RPC) { _, done := pulledReply(t); t.Do(t.Null()); t.Do(done) },
	"RPCRDMA-092": func(t *twin.RPC) {
		ccp(t)
		x, done := pulledReply(t)
		t.Do(x)
		r := twin.Pull(x.Reply.Header.Read[0].Segment)
		t.ReadRequest(twin.I, r)
		t.Do(done)
		t.ReadResponse(twin.R, r)
	},
	"RPCRDMA-093": func(t *twin.RPC) {
		ccp(t)
		x := t.Null()
		x.Call.Header.Type, x.Call.Header.Align, x.Call.Header.Thresh = rpcrdma.MsgTypeMsgP, 6, 4000
		t.Do(x)
	},
	"RPCRDMA-094": func(t *twin.RPC) { t.Do(t.Null()); ccp(t) },
	"RPCRDMA-095": func(t *twin.RPC) {
		x := conf(t)
		auth(x, xdr.Auth{Flavor: 5, Body: make([]byte, 400)}, xdr.Auth{Flavor: 5, Body: make([]byte, 400)})
		for range 12 {
			x.Call.Header.Reply = append(x.Call.Header.Reply, t.NewSegment(64))
		}
		x.Reply.Header.Reply, _ = twin.Fill(x.Call.Header.Reply, nil)
		x.Call.Header.HasReply, x.Reply.Header.HasReply = true, true
		t.Do(x)
	},
}

// several does n calls at once after a first one, each with one thing changed.
func several(t *twin.RPC, f func(*twin.Exchange), n int) {
	first := t.Null()
	f(first)
	t.Do(first)
	all := make([]*twin.Exchange, n)
	for i := range all {
		all[i] = t.Null()
		f(all[i])
		t.Ask(all[i])
	}
	for _, x := range all {
		t.Answer(x)
	}
}

// refuseArgs makes the reply GARBAGE_ARGS.
func refuseArgs(x *twin.Exchange) { accept(x, xdr.ReplyHeader{Accept: xdr.GarbageArgs}) }

// accept puts a reply without results in place of the reply.
func accept(x *twin.Exchange, h xdr.ReplyHeader) {
	h.XID = x.Reply.Header.XID
	x.Reply.Body = xdr.AppendReply(nil, &h)
}

// auth puts a credential and a verifier into an inline call.
func auth(x *twin.Exchange, cred, verf xdr.Auth) {
	d := xdr.NewDecoder(x.Call.Body)
	var h xdr.CallHeader
	_ = h.Parse(&d)
	h.Cred, h.Verf = cred, verf
	x.Call.Body = append(xdr.AppendCall(nil, &h), d.Rest()...)
}

// gss puts a credential of RPCSEC_GSS with the given service into an inline call (RFC 2203 Section 5.3.1).
func gss(x *twin.Exchange, service uint32) {
	body := xdr.AppendUint32(make12(1, 0, 1), service)
	auth(x, xdr.Auth{Flavor: xdr.RPCSECGSS, Body: xdr.AppendOpaque(body, []byte("ctx1"))}, xdr.Auth{Flavor: xdr.RPCSECGSS, Body: make([]byte, 16)})
}

// rpcrdmaBases are conversations that already break a rule, for the rules about the consequences: the twin
// breaks its own rule in addition.
var rpcrdmaBases = map[string]func(*twin.RPC){
	"RPCRDMA-084": ask(func(x *twin.Exchange) { x.Reply.Skip, x.Call.Raw = true, x.Call.Header.Append(nil)[:24] }),
	"RPCRDMA-088": badHeader(null, word(12, 9)),
}
