package transport_test

import (
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// Expected answers of TestBadCalls.
const (
	wantDrop     = "drop"
	wantErrVers  = "ERR_VERS"
	wantErrChunk = "ERR_CHUNK"
	wantGarbage  = "GARBAGE_ARGS"
)

// badCalls are Sends that break a rule, some for each verdict, and what the rule says (RFC 8166 Section 4.5); all headers
// are in the tables of rpcrdma. Read segments name memory of 64 octets that the peer really offers.
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
	return []struct {
		name string
		send []byte
		want string
	}{
		{"27 octets", make([]byte, 27), wantDrop},
		{"version 2", append(words(1, 2, 8, 0, 0, 0, 0), rpcCall(1, procNull)...), wantErrVers},
		{"version 0, unknown proc", words(1, 0, 8, 77, 0, 0, 0), wantErrVers},
		{"unknown proc", words(1, 1, 8, 5, 0, 0, 0), wantErrChunk},
		{"RDMA_DONE", words(1, 1, 8, 3), wantDrop},
		{"RDMA_ERROR", words(1, 1, 8, 4, 2), wantDrop},
		{"a reply", append(header(rpcrdma.Header{XID: 1}), rpcReply(1)...), wantDrop},
		{"RDMA_NOMSG without a chunk", header(rpcrdma.Header{XID: 1, Type: rpcrdma.MsgTypeNoMsg}), wantErrChunk},
		{"XIDs differ", append(header(rpcrdma.Header{XID: 1}), rpcCall(2, procNull)...), wantErrChunk},
		{"cut RPC header", append(header(rpcrdma.Header{XID: 1}), rpcCall(1, procNull)[:30]...), wantErrChunk},
		{"wrong position", msg(1, procSum, []chunks.ReadSegment{read(40, seg)}, words(64)...), wantErrChunk},
		{"not eligible", msg(1, procFill, []chunks.ReadSegment{read(44, seg)}, words(64)...), wantErrChunk},
		{"too large", msg(1, procSum, []chunks.ReadSegment{read(44, huge)}, words(1<<21)...), wantErrChunk},
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
