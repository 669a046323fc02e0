package transport_test

import (
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// wantSum checks the reply of procSum.
func wantSum(t *testing.T, p *rawPeer, xid uint32, data []byte) {
	t.Helper()
	h, payload := p.recv()
	d := xdr.NewDecoder(payload)
	var r xdr.ReplyHeader
	if err := r.Parse(&d); err != nil || h.XID != xid || r.Err() != nil {
		t.Fatalf("answer %+v, RPC %+v, %v", h, r, err)
	}
	if n, v := d.Uint32(), d.Uint32(); int(n) != len(data) || v != sum(data) {
		t.Errorf("%d octets arrived as %d, sum %d, want %d", len(data), n, v, sum(data))
	}
}

// TestPositionZero sends long calls as peers may build them: the stream in several
// segments of odd lengths, with and without another chunk behind it
// (RFC 8166 Section 3.5.3).
func TestPositionZero(t *testing.T) {
	_, addr := startServer(t, newEcho(), nil)
	p := rawClient(t, addr, rawConfig(plainPrivate(), 4096))
	data := filled(5003)
	reduced := rpcCall(1, procSum, words(uint32(len(data)))...)
	stream := xdr.AppendPad(append(append([]byte(nil), reduced...), data...), len(data))
	cut := func(pos uint32, mem []byte, at ...int) (list []chunks.ReadSegment) {
		from := 0
		for _, to := range append(at, len(mem)) {
			list = append(list, chunks.ReadSegment{Position: pos, Segment: p.offer(mem[from:to], region.RemoteRead)})
			from = to
		}
		return list
	}
	for _, tt := range []struct {
		name string
		read []chunks.ReadSegment
		want bool
	}{
		{"one segment", cut(0, stream), true},
		{"odd segments", cut(0, stream, 1, 3, 47, 48, 5000), true},
		{"and a read chunk", append(cut(0, reduced, 13), cut(44, data, 999)...), true},
		{"XID inside differs", cut(0, append(words(2), stream[4:]...)), false},
		{"cut RPC header", cut(0, stream[:36]), false},
		{"not a call", cut(0, append(words(1, 1), stream[8:]...)), false},
		{"read chunk of nothing eligible", append(cut(0, rpcCall(1, procFill, words(9)...)), cut(44, data[:8])...), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p.send(header(rpcrdma.Header{XID: 1, Type: rpcrdma.MsgTypeNoMsg, Lists: chunks.Lists{Read: tt.read}}))
			if tt.want {
				wantSum(t, p, 1, data)
				return
			}
			if h, _ := p.recv(); h.Type != rpcrdma.MsgTypeError || h.Err != rpcrdma.ErrChunk {
				t.Errorf("answer %+v, want ERR_CHUNK", h)
			}
		})
	}
	// A read chunk of no octets is legal, and costs no Read: its memory is looked at by nobody.
	none := []chunks.ReadSegment{{Position: 44, Segment: chunks.Segment{Handle: 0xdead00}}}
	p.send(header(rpcrdma.Header{XID: 2, Lists: chunks.Lists{Read: none}}), rpcCall(2, procSum, words(0)...))
	wantSum(t, p, 2, nil)
}
