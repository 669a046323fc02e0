package transport_test

import (
	"bytes"
	"errors"
	"net"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Expected answers of TestBadCalls.
const (
	wantDrop     = "drop"
	wantErrVers  = "ERR_VERS"
	wantErrChunk = "ERR_CHUNK"
	wantGarbage  = "GARBAGE_ARGS"
)

// badCalls are Sends that break a rule, and what the rule says (RFC 8166 Section
// 4.5). Read segments name memory of 64 octets that the peer really offers.
func badCalls(seg chunks.Segment) []struct {
	name string
	send []byte
	want string
} {
	read := func(pos uint32, s chunks.Segment) chunks.ReadSegment {
		return chunks.ReadSegment{Position: pos, Segment: s}
	}
	msg := func(xid, proc uint32, rs []chunks.ReadSegment, args ...byte) []byte {
		h := header(rpcrdma.Header{XID: xid, Lists: chunks.Lists{Read: rs}})
		return append(h, rpcCall(xid, proc, args...)...)
	}
	huge := seg
	huge.Length = 1 << 21
	wrap := seg
	wrap.Offset = ^uint64(0) - 3
	return []struct {
		name string
		send []byte
		want string
	}{
		{"27 octets", make([]byte, 27), wantDrop},
		{"nothing", nil, wantDrop},
		{"version 2", append(words(1, 2, 8, 0, 0, 0, 0), rpcCall(1, procNull)...), wantErrVers},
		{"version 0, unknown proc", words(1, 0, 8, 77, 0, 0, 0), wantErrVers},
		{"unknown proc", words(1, 1, 8, 5, 0, 0, 0), wantErrChunk},
		{"RDMA_MSGP", append(words(1, 1, 8, 2, 4, 1024, 0, 0, 0), rpcCall(1, procNull)...), wantErrChunk},
		{"RDMA_DONE", words(1, 1, 8, 3), wantDrop},
		{"RDMA_ERROR", words(1, 1, 8, 4, 2), wantDrop},
		{"a reply", append(header(rpcrdma.Header{XID: 1}), rpcReply(1)...), wantDrop},
		{"truncated read list", words(1, 1, 8, 0, 1, 44, 7), wantErrChunk},
		{"boolean of 2", words(1, 1, 8, 0, 2, 0, 0), wantErrChunk},
		{"count of 2^32-1", words(1, 1, 8, 0, 0, 1, 0xffffffff), wantErrChunk},
		{"RDMA_NOMSG without a chunk", header(rpcrdma.Header{XID: 1, Type: rpcrdma.MsgTypeNoMsg}), wantErrChunk},
		{"position 0 in RDMA_MSG", msg(1, procSum, []chunks.ReadSegment{read(0, seg)}, words(64)...), wantErrChunk},
		{"XIDs differ", append(header(rpcrdma.Header{XID: 1}), rpcCall(2, procNull)...), wantErrChunk},
		{"no RPC message", header(rpcrdma.Header{XID: 1}), wantErrChunk},
		{"cut RPC header", append(header(rpcrdma.Header{XID: 1}), rpcCall(1, procNull)[:30]...), wantErrChunk},
		{"msg_type 7", append(header(rpcrdma.Header{XID: 1}), words(1, 7, 2, 0, 0, 0, 0, 0, 0, 0)...), wantErrChunk},
		{"position not a multiple of 4", msg(1, procSum, []chunks.ReadSegment{read(43, seg)}, words(64)...), wantErrChunk},
		{"position beyond the stream", msg(1, procSum, []chunks.ReadSegment{read(48, seg)}, words(64)...), wantErrChunk},
		{"wrong position", msg(1, procSum, []chunks.ReadSegment{read(40, seg)}, words(64)...), wantErrChunk},
		{"not eligible", msg(1, procFill, []chunks.ReadSegment{read(44, seg)}, words(64)...), wantErrChunk},
		{"two chunks", msg(1, procSum, []chunks.ReadSegment{read(44, seg), read(108, seg)}, words(64)...), wantErrChunk},
		{"overlap", msg(1, procSum, []chunks.ReadSegment{read(44, seg), read(48, seg)}, words(64)...), wantErrChunk},
		{"too large", msg(1, procSum, []chunks.ReadSegment{read(44, huge)}, words(1<<21)...), wantErrChunk},
		{"segment wraps", msg(1, procSum, []chunks.ReadSegment{read(44, wrap)}, words(64)...), wantErrChunk},
		{"count too small", msg(1, procSum, []chunks.ReadSegment{read(44, seg)}, words(60)...), wantGarbage},
		{"count too large", msg(1, procSum, []chunks.ReadSegment{read(44, seg)}, words(65)...), wantGarbage},
		{"no count", msg(1, procSum, []chunks.ReadSegment{read(40, seg)}), wantGarbage},
	}
}

// TestBadCalls sends each to one connection, which has to live on.
func TestBadCalls(t *testing.T) {
	s, addr := startServer(t, newEcho(), nil)
	p := rawClient(t, addr, nil)
	seg := p.offer(make([]byte, 64), region.RemoteRead)
	calls := uint64(0)
	for _, tt := range badCalls(seg) {
		t.Run(tt.name, func(t *testing.T) {
			p.send(tt.send)
			if tt.want != wantDrop {
				checkAnswer(t, p, tt.send, tt.want)
			}
			p.send(header(rpcrdma.Header{XID: 99}), rpcCall(99, procNull)) // alive?
			if h, _ := p.recv(); h.XID != 99 {
				t.Fatalf("answer to XID %d", h.XID)
			}
			calls++
		})
	}
	st := s.Stats()
	if st.Calls != calls {
		t.Errorf("%d calls executed, want %d", st.Calls, calls)
	}
	if st.OctetsRead != 0 {
		t.Errorf("%d octets pulled for calls that are refused", st.OctetsRead)
	}
	if n := p.conn.Stats().ReadsIn; n != 0 {
		t.Errorf("%d RDMA Reads", n)
	}
}

// checkAnswer compares a refusal with the rule.
func checkAnswer(t *testing.T, p *rawPeer, send []byte, want string) {
	t.Helper()
	h, payload := p.recv()
	d := xdr.NewDecoder(send)
	if xid, vers := d.Uint32(), d.Uint32(); h.XID != xid || h.Vers != vers {
		t.Errorf("answer names XID %d version %d, want %d and %d", h.XID, h.Vers, xid, vers)
	}
	if h.Credit == 0 {
		t.Error("answer grants no credit")
	}
	switch want {
	case wantErrVers:
		if h.Type != rpcrdma.MsgTypeError || h.Err != rpcrdma.ErrVers || h.Low != 1 || h.High != 1 {
			t.Errorf("answer %+v", h)
		}
	case wantErrChunk:
		if h.Type != rpcrdma.MsgTypeError || h.Err != rpcrdma.ErrChunk {
			t.Errorf("answer %+v", h)
		}
	case wantGarbage:
		var r xdr.ReplyHeader
		pd := xdr.NewDecoder(payload)
		if err := r.Parse(&pd); h.Type != rpcrdma.MsgTypeMsg || err != nil || r.Accept != xdr.GarbageArgs {
			t.Errorf("answer %+v, RPC %+v, %v", h, r, err)
		}
	}
}

// TestRPCRefusals checks the answers that RPC itself has (RFC 5531 Section 9).
func TestRPCRefusals(t *testing.T) {
	_, addr := startServer(t, newEcho(), nil)
	p := rawClient(t, addr, nil)
	refuse := func(name string, h xdr.CallHeader, want xdr.ReplyHeader) {
		t.Run(name, func(t *testing.T) {
			p.send(header(rpcrdma.Header{XID: 5}), xdr.AppendCall(nil, &h))
			_, payload := p.recv()
			var r xdr.ReplyHeader
			d := xdr.NewDecoder(payload)
			if err := r.Parse(&d); err != nil {
				t.Fatal(err)
			}
			r.Verf = xdr.Auth{}
			if g, w := r.Err(), want.Err(); g == nil || g.Error() != w.Error() {
				t.Errorf("answer %v, want %v", g, w)
			}
		})
	}
	h := xdr.CallHeader{XID: 5, RPCVers: 3, Prog: testProg, Vers: testVers}
	refuse("RPC version 3", h, xdr.ReplyHeader{Denied: true, Reject: xdr.RPCMismatch, Low: 2, High: 2})
	h.RPCVers, h.Cred = 2, xdr.Auth{Flavor: xdr.AuthSys, Body: []byte{1}}
	refuse("AUTH_SYS that does not decode", h, xdr.ReplyHeader{Denied: true, Reject: xdr.AuthError, AuthStat: xdr.AuthBadCred})
	h.Cred = xdr.Auth{Flavor: xdr.AuthShort}
	refuse("AUTH_SHORT", h, xdr.ReplyHeader{Denied: true, Reject: xdr.AuthError, AuthStat: xdr.AuthRejectedCred})
}

// TestReplyDoesNotFit wants ERR_CHUNK and nothing written past what was offered
// (RFC 8166 Section 4.5.3).
func TestReplyDoesNotFit(t *testing.T) {
	_, addr := startServer(t, newEcho(), nil)
	p := rawClient(t, addr, nil)
	mem := make([]byte, 64)
	w := chunks.WriteChunk{p.offer(mem, region.RemoteWrite)}
	for _, tt := range []struct {
		name  string
		lists chunks.Lists
		call  []byte
	}{
		{"long reply without a reply chunk", chunks.Lists{}, rpcCall(3, procList, words(2000)...)},
		{"reply chunk too small", chunks.Lists{Reply: w, HasReply: true}, rpcCall(3, procList, words(2000)...)},
		{"write chunk too small", chunks.Lists{Write: []chunks.WriteChunk{w}}, rpcCall(3, procFill, words(65)...)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p.send(header(rpcrdma.Header{XID: 3, Lists: tt.lists}), tt.call)
			if h, _ := p.recv(); h.XID != 3 || h.Type != rpcrdma.MsgTypeError || h.Err != rpcrdma.ErrChunk {
				t.Errorf("answer %+v", h)
			}
			if !bytes.Equal(mem, make([]byte, 64)) {
				t.Error("something was written")
			}
		})
	}
}

// TestClientReplyDoesNotFit is what our own client says about it.
func TestClientReplyDoesNotFit(t *testing.T) {
	_, c := pair(t, newEcho(), nil, nil)
	err := try(t, c, wordCall(procList, 5000))
	if e, ok := errors.AsType[*rpc.RPCError](err); !ok || e.Reason != rpc.ReasonChunk {
		t.Errorf("reply too large: %v", err)
	}
	mustDo(t, c, &nullCall)
}

// TestBadSTag pulls a chunk that does not exist: that connection ends, at RDMA
// level, and the server continues (RFC 8166 Section 4.5.3).
func TestBadSTag(t *testing.T) {
	s, addr := startServer(t, newEcho(), nil)
	good := dial(t, addr, nil)
	p := rawClient(t, addr, nil)
	seg := p.offer(make([]byte, 64), region.RemoteRead)
	seg.Handle ^= 0x5a00
	h := rpcrdma.Header{XID: 1, Lists: chunks.Lists{Read: []chunks.ReadSegment{{Position: 44, Segment: seg}}}}
	p.send(header(h), rpcCall(1, procSum, words(64)...))
	err := p.wantEnd()
	if _, ok := errors.AsType[*verbs.ProtocolError](err); !ok {
		t.Errorf("the peer saw %v", err)
	}
	mustDo(t, good, &nullCall)
	waitFor(t, "the bad connection is gone", func() bool { return s.Stats().Connections == 1 })
	if got := s.Stats().Calls; got != 1 {
		t.Errorf("%d calls executed", got)
	}
}

// TestSendTooLong sends more than the server has receives for.
func TestSendTooLong(t *testing.T) {
	s, addr := startServer(t, newEcho(), nil)
	p := rawClient(t, addr, nil)
	p.send(header(rpcrdma.Header{XID: 1}), rpcCall(1, procEcho, make([]byte, 5000)...))
	if err := p.wantEnd(); !isTerminate(err) {
		t.Errorf("the peer saw %v", err)
	}
	mustDo(t, dial(t, addr, nil), &nullCall)
	waitFor(t, "the bad connection is gone", func() bool { return s.Stats().Connections == 1 })
}

// TestOverCredit fills the server with more blocked calls than it granted.
func TestOverCredit(t *testing.T) {
	h := newEcho()
	cfg := testConfig()
	cfg.Credits = 4
	s, addr := startServer(t, h, cfg)
	p := rawClient(t, addr, nil)
	for i := range uint32(10) {
		p.send(header(rpcrdma.Header{XID: i}), rpcCall(i, procBlock))
	}
	if err := p.wantEnd(); !errors.Is(err, net.ErrClosed) && !isTerminate(err) {
		t.Errorf("the peer saw %v", err)
	}
	waitFor(t, "its handlers are cancelled", func() bool { return s.Stats().Connections == 0 && s.Stats().InFlight == 0 })
}

func isTerminate(err error) bool {
	_, ok := errors.AsType[*verbs.TerminateError](err)
	return ok
}
