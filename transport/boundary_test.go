package transport_test

import (
	"errors"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
)

func isProtocol(err error) bool {
	_, ok := errors.AsType[*verbs.ProtocolError](err)
	return ok
}

// TestServersWriteFails offers write chunks that the server cannot write to: the
// connection ends, no reply says that the data are there, and the server continues.
func TestServersWriteFails(t *testing.T) {
	s, addr := startServer(t, newEcho(), nil)
	good := dial(t, addr, nil)
	for name, spoil := range map[string]func(p *rawPeer, seg *chunks.Segment){
		"unknown STag":  func(_ *rawPeer, seg *chunks.Segment) { seg.Handle ^= 0x5a00 },
		"beyond bounds": func(_ *rawPeer, seg *chunks.Segment) { seg.Offset = 1 },
		"no right":      func(p *rawPeer, seg *chunks.Segment) { *seg = p.offer(make([]byte, 5000), region.RemoteRead) },
	} {
		for _, reply := range []bool{false, true} {
			p := rawClient(t, addr, nil)
			seg := p.offer(make([]byte, 5000), region.RemoteWrite)
			spoil(p, &seg)
			h := rpcrdma.Header{XID: 1, Lists: chunks.Lists{Write: []chunks.WriteChunk{{seg}}}}
			call := rpcCall(1, procFill, words(5000)...)
			if reply {
				h.Lists = chunks.Lists{Reply: chunks.WriteChunk{seg}, HasReply: true}
				call = rpcCall(1, procList, words(1244)...)
			}
			p.send(header(h), call)
			if m, err := p.conn.Recv(testCtx(t)); err == nil {
				t.Errorf("%s: a reply of %d octets came all the same", name, len(m.Data))
			}
			if err := p.wantEnd(); !isProtocol(err) {
				t.Errorf("%s: the peer saw %v", name, err)
			}
			mustDo(t, good, &nullCall)
		}
	}
	waitFor(t, "the bad connections are gone", func() bool { return s.Stats().Connections == 1 && s.Stats().InFlight == 0 })
}
