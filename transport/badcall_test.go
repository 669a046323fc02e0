package transport_test

import (
	"bytes"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// TestBadCalls sends what breaks a rule, once for each verdict, to one connection, which has to live on (RFC 8166 Section
// 4.5). All headers, and what is wrong with calls that were pulled, are in the tables of rpcrdma.
func TestBadCalls(t *testing.T) {
	s, addr := startServer(t, newEcho(), nil)
	p := rawClient(t, addr, nil)
	inChunk := header(rpcrdma.Header{XID: 1, Lists: chunks.Lists{Read: []chunks.ReadSegment{chunkAt(44, p.offer(make([]byte, 64), readable))}}})
	calls := uint64(0)
	for _, tt := range []struct {
		name       string
		send, want []byte // nil: it is dropped
	}{
		{"a reply", append(header(rpcrdma.Header{XID: 1}), rpcReply(1)...), nil},
		{"version 2", append(words(1, 2, 8, 0, 0, 0, 0), rpcCall(1, procNull)...), words(1, 2, 8, 4, 1, 1, 1)},
		{"unknown proc", words(1, 1, 8, 5, 0, 0, 0), words(1, 1, 8, 4, 2)},
		{"count too small", append(inChunk, rpcCall(1, procSum, words(60)...)...), append(header(rpcrdma.Header{XID: 1}), words(1, 1, 0, 0, 0, 4)...)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p.send(tt.send)
			if tt.want != nil {
				if m, err := p.conn.Recv(testCtx(t)); err != nil || !bytes.Equal(m.Data, tt.want) {
					t.Errorf("answer %x, %v", m.Data, err)
				}
			}
			p.send(header(rpcrdma.Header{XID: 99}), rpcCall(99, procNull)) // alive?
			if h, _ := p.recv(); h.XID != 99 {
				t.Fatalf("answer to XID %d", h.XID)
			}
			calls++
		})
	}
	if st := s.Stats(); st.Calls != calls || st.OctetsRead != 0 || p.conn.Stats().ReadsIn != 0 {
		t.Errorf("%d calls executed, want %d; %d octets pulled for calls that are refused", st.Calls, calls, st.OctetsRead)
	}
}

// TestPositionZero sends long calls as peers may build them: the stream in several segments of odd lengths, with and
// without another chunk behind it (RFC 8166 Section 3.5.3), and one of another XID.
func TestPositionZero(t *testing.T) {
	_, addr := startServer(t, newEcho(), nil)
	p := rawClient(t, addr, rawConfig(plainPrivate(), 4096))
	data := filled(5003)
	reduced := rpcCall(1, procSum, words(uint32(len(data)))...)
	stream := xdr.AppendPad(append(append([]byte(nil), reduced...), data...), len(data))
	cut := func(pos uint32, mem []byte, at ...int) (list []chunks.ReadSegment) {
		from := 0
		for _, to := range append(at, len(mem)) {
			list = append(list, chunkAt(pos, p.offer(mem[from:to], region.RemoteRead)))
			from = to
		}
		return list
	}
	good := append(header(rpcrdma.Header{XID: 1}), rpcReply(1, words(uint32(len(data)), sum(data))...)...)
	for _, tt := range []struct {
		name string
		read []chunks.ReadSegment
		want []byte
	}{
		{"odd segments", cut(0, stream, 1, 3, 47, 48, 5000), good},
		{"and a read chunk", append(cut(0, reduced, 13), cut(44, data, 999)...), good},
		{"XID inside differs", cut(0, append(words(2), stream[4:]...)), words(1, 1, 8, 4, 2)},
	} {
		p.send(header(rpcrdma.Header{XID: 1, Type: rpcrdma.MsgTypeNoMsg, Lists: chunks.Lists{Read: tt.read}}))
		if m, err := p.conn.Recv(testCtx(t)); err != nil || !bytes.Equal(m.Data, tt.want) {
			t.Errorf("%s: answer %x, %v", tt.name, m.Data, err)
		}
	}
	// A read chunk of no octets is legal, and costs no Read: its memory is looked at by nobody.
	none := []chunks.ReadSegment{chunkAt(44, chunks.Segment{Handle: 0xdead00})}
	p.send(header(rpcrdma.Header{XID: 2, Lists: chunks.Lists{Read: none}}), rpcCall(2, procSum, words(0)...))
	if h, reply := p.recv(); h.XID != 2 || !bytes.Equal(reply, rpcReply(2, words(0, 0)...)) {
		t.Errorf("a chunk of nothing: %+v, %x", h, reply)
	}
}
