package cases

import (
	"fmt"
	"math"
	"strings"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"

	"github.com/stag-rdma/stag/chunks"
)

// Offsets of words in a NULL call without credentials (RFC 5531 Section 9).
const (
	offType    = 4
	offRPCVers = 8
	offProg    = 12
	offVers    = 16
	offProc    = 20
	offFlavor  = 24
	offCredLen = 28
	offVerfLen = 36
)

func (g *gen) rpcCalls() []Case {
	inline := chunks.Lists{}
	// with is a NULL call with one word changed.
	with := func(name string, at int, v uint32, wants ...[]Want) Try {
		return g.between(name, func(s *script) []byte {
			return append(header(s.bad, rpcrdma.MsgTypeMsg, inline), put32(g.call(s.bad), at, v)...)
		}, wants...)
	}
	each := func(at int, values []uint32, wants ...[]Want) (list []Try) {
		for _, v := range values {
			list = append(list, with(fmt.Sprint(v), at, v, wants...))
		}
		return list
	}
	refused := ok(KindErrChunk, KindGarbageArgs, KindAuthError)
	dropped := tolerate("RFC 5531 has no answer to a message that does not decode", KindDropped)
	var cut []Try
	for n := 0; n < 40; n += 4 {
		cut = append(cut, g.between(fmt.Sprintf("%d octets", n), func(s *script) []byte {
			return append(header(s.bad, rpcrdma.MsgTypeMsg, inline), g.call(s.bad)[:n]...)
		}, refused, dropped, noVerifier(), tolerate("no document names an answer; Linux (6.1) closes the connection, or reads stale octets", KindClosed, KindRPCMismatch)))
	}
	lengths := append(each(offCredLen, []uint32{1, 40, 401, math.MaxInt32, 1 << 31, math.MaxUint32 - 3, math.MaxUint32}, refused, dropped),
		each(offVerfLen, []uint32{1, 401, math.MaxInt32, math.MaxUint32}, refused, dropped)...)
	xids := g.rpc("")
	xids.TwoXIDs = true
	xids.send(append(header(xids.bad, rpcrdma.MsgTypeMsg, inline), g.call(g.xid())...))
	return []Case{
		{Name: "rpc/version", Rule: "RFC 5531 Section 9", Sends: "a NULL call of another RPC version", Tries: each(offRPCVers, []uint32{0, 1, 3, math.MaxUint32}, ok(KindRPCMismatch))},
		{Name: "rpc/program", Rule: "RFC 5531 Section 9", Sends: "procedure 0 of a program that does not exist", Tries: each(offProg, []uint32{0, 0x3ffffff0, math.MaxUint32}, ok(KindProgUnavail))},
		{Name: "rpc/program-version", Rule: "RFC 5531 Section 9", Sends: "procedure 0 of a version that does not exist", Tries: each(offVers, []uint32{1 << 20, math.MaxUint32}, ok(KindProgMismatch))},
		{Name: "rpc/procedure", Rule: "RFC 5531 Section 9", Sends: "a procedure that does not exist", Tries: each(offProc, []uint32{1000, 1 << 31, math.MaxUint32}, ok(KindProcUnavail))},
		{Name: "rpc/reply-to-server", Rule: "RFC 8166 Section 4.5", Sends: "an RPC reply, to a responder", Tries: []Try{with("", offType, 1, ok(KindDropped))}},
		{Name: "rpc/message-type", Rows: []int{18}, Rule: "RFC 5531 Section 9", Sends: "an RPC message that is neither call nor reply", Tries: each(offType, []uint32{2, 7, math.MaxUint32}, errChunk(), dropped)},
		{Name: "rpc/cut", Rows: []int{18}, Rule: "RFC 8166 Section 4.5.2", Sends: "an RPC call that ends inside its header", Tries: cut},
		{Name: "rpc/auth-length", Rows: []int{18}, Rule: "RFC 5531 Section 8.2", Sends: "a NULL call whose credential or verifier claims to be longer than allowed, or than the message", Tries: lengths},
		{Name: "rpc/xids-differ", Rule: "RFC 8166 Section 4.5.2", Sends: "a NULL call whose XID is not rdma_xid", Tries: []Try{xids.then(errChunk(), tolerate(twoXIDs, KindAnswered))}},
		{Name: "rpc/auth-sys", Rows: []int{18}, Rule: "RFC 5531 Section 9", Sends: "a NULL call with an AUTH_SYS credential that does not decode, or with a flavour that does not exist", Tries: g.auth(sysBodies)},
		{Name: "rpc/gss", Rows: []int{29}, Rule: "RFC 2203 Section 5.3.3", Sends: "a NULL call with an RPCSEC_GSS credential of a context that does not exist", Tries: g.auth(gssBodies)},
		{Name: "rpc/replay", Rows: []int{12}, Rule: "RFC 8166 Section 4.5", Sends: "a NULL call with the XID of an earlier one, on the same and on other connections", Tries: g.replays()},
	}
}

// credential is a credential that cannot be accepted.
type credential struct {
	name   string
	flavor xdr.AuthFlavor
	body   []byte
}

var sysBodies = []credential{
	{"AUTH_SYS of no octets", xdr.AuthSys, nil},
	{"AUTH_SYS, cut", xdr.AuthSys, words(1)},
	{"AUTH_SYS, a machine name of 2^32-1 octets", xdr.AuthSys, words(1, math.MaxUint32, 0, 0, 0)},
	{"AUTH_SYS, a machine name of 256 octets", xdr.AuthSys, append(words(1, 256), make([]byte, 272)...)},
	{"AUTH_SYS, 2^32-1 groups", xdr.AuthSys, words(1, 0, 0, 0, math.MaxUint32)},
	{"AUTH_SYS, 17 groups", xdr.AuthSys, append(words(1, 0, 0, 0, 17), make([]byte, 68)...)},
	{"flavour 77", 77, words(1, 2, 3)},
}

// gssBodies are rpc_gss_cred_t (RFC 2203 Section 5.3.1): version, procedure, sequence
// number, service, handle.
var gssBodies = []credential{
	{"no octets", 6, nil},
	{"cut", 6, words(1, 0, 1)},
	{"service none", 6, words(1, 0, 1, 1, 4, 0xdeadbeef)},
	{"service integrity", 6, words(1, 0, 1, 2, 4, 0xdeadbeef)},
	{"service privacy", 6, words(1, 0, 1, 3, 4, 0xdeadbeef)},
	{"service 77", 6, words(1, 0, 1, 77, 4, 0xdeadbeef)},
	{"DESTROY", 6, words(1, 3, 1, 1, 4, 0xdeadbeef)},
	{"a handle of 2^32-1 octets", 6, words(1, 0, 1, 2, math.MaxUint32)},
	{"version 77", 6, words(77, 0, 1, 2, 4, 0xdeadbeef)},
}

func (g *gen) auth(creds []credential) (list []Try) {
	for _, c := range creds {
		t := g.between(c.name, func(s *script) []byte {
			h := xdr.CallHeader{XID: s.bad, RPCVers: xdr.RPCVersion, Prog: g.Prog, Vers: g.Vers, Cred: xdr.Auth{Flavor: c.flavor, Body: c.body}}
			return xdr.AppendCall(header(s.bad, rpcrdma.MsgTypeMsg, chunks.Lists{}), &h)
		}, ok(KindAuthError), tolerate("refused, but differently", KindGarbageArgs, KindErrChunk, KindDropped))
		if strings.Contains(c.name, "machine name") {
			t.Wants = append(t.Wants, tolerate(linux+"counts the name in words, modulo 2^30", KindAnswered)...)
		}
		list = append(list, t)
	}
	return list
}

// replays are calls with one XID: twice on a connection, and on two more.
func (g *gen) replays() []Try {
	xid := g.xid()
	one := func(name string, times int) Try {
		s := g.rpc(name)
		s.bad = xid
		for range times {
			s.send(g.null(xid)).last(func(st *Step) { st.Await = xid })
		}
		s.Again = times > 1
		return s.about(xid).then(ok(KindAnswered))
	}
	return []Try{one("twice", 2), one("on another connection", 1), one("and on a third", 1)}
}

func (g *gen) credits() []Case {
	ask := func(v uint32) Try {
		return g.between(fmt.Sprint(v), func(s *script) []byte {
			s.about(s.bad)
			return put32(g.null(s.bad), 4*wordCredit, v)
		}, ok(KindAnswered))
	}
	n := 4*g.Grant + 64
	flood := g.rpc(fmt.Sprintf("%d calls", n))
	for range n {
		xid := g.xid()
		flood.send(g.null(xid)).about(xid).last(func(st *Step) { st.Join = true })
	}
	flood.last(func(st *Step) { st.Join = false })
	full := func(name string, octets int, plain bool) Try {
		s := g.bare(name)
		if plain {
			r := usual()
			r.PrivateData = nil
			s.Request = r.bytes()
		}
		hello := g.xid()
		s.Hello = hello
		s.send(g.null(hello)).last(func(st *Step) { st.Await = hello })
		msg := g.null(s.bad)
		msg = append(msg, make([]byte, octets-len(msg))...)
		return s.about(s.bad).ulpduSend(msg).then(ok(KindAnswered, KindGarbageArgs, KindErrChunk))
	}
	return []Case{
		{Name: "credits/asked", Rows: []int{6}, Rule: "RFC 8166 Section 3.3.1", Sends: "a NULL call that asks for no credits, or for 2^32-1", Tries: []Try{ask(0), ask(1), ask(math.MaxUint32)}},
		{Name: "credits/overrun", Rows: []int{6, 7}, Rule: "RFC 8166 Section 3.3.1", Sends: "many more NULL calls at once than credits were granted", Tries: []Try{
			flood.want(ok(KindAnswered), terminate(codesDDP(2, 2)...)),
		}},
		{Name: "credits/full-send", Rows: []int{5}, Rule: "RFC 8166 Section 3.3.3, RFC 8797 Section 4", Sends: "a NULL call, padded to exactly the size that the server says it accepts", Tries: []Try{
			full(fmt.Sprintf("%d octets", g.Inline), g.Inline, false), full("1024 octets, the default", rpcrdma.DefaultInline, true),
		}},
	}
}

// ulpduSend sends msg in segments that any peer accepts.
func (s *script) ulpduSend(msg []byte) *script {
	const each = 1200
	for at := 0; at < len(msg); at += each {
		n := min(each, len(msg)-at)
		s.ulpdu(part(ddp.Segment{Last: at+n == len(msg), MSN: s.msn, MO: uint32(at), Control: rdmapVersion1 | uint8(verbs.OpSend)}, msg[at:at+n]))
	}
	s.msn++
	return s
}
