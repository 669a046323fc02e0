package transport_test

import (
	"sync/atomic"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// privates are what peers say about their receive buffers, and what holds then.
var privates = []struct {
	name string
	data []byte
	recv int // what the peer takes
}{
	{"1 KiB", rpcrdma.PrivateData{SendSize: 1024, RecvSize: 1024}.Append(nil), 1024},
	{"nothing", nil, 1024},
	{"unknown version", []byte{0xf6, 0xab, 0x0e, 0x18, 2, 0, 63, 63}, 1024},
	{"64 KiB", rpcrdma.PrivateData{SendSize: 65536, RecvSize: 65536}.Append(nil), 65536},
	{"2 KiB behind other data", append([]byte("other"), rpcrdma.PrivateData{SendSize: 8192, RecvSize: 2048}.Append(nil)...), 2048},
}

// TestClientThreshold makes calls of many sizes to servers with several receive
// sizes: no Send is ever longer (RFC 8797 Section 4.2). The engine below the server
// has receives of exactly that size, and would end the connection.
func TestClientThreshold(t *testing.T) {
	for _, tt := range privates {
		t.Run(tt.name, func(t *testing.T) {
			cfg := testConfig()
			cfg.InlineSend = 64 << 10
			var longest atomic.Int64
			c := rawServer(t, rawConfig(tt.data, tt.recv), cfg, func(p *rawPeer, h *rpcrdma.Header, msg []byte) {
				longest.Store(max(longest.Load(), int64(h.Size()+len(msg))))
				lists := h.Lists
				lists.Read = nil
				lists.Reply.Clear()
				p.send(header(rpcrdma.Header{XID: h.XID, Credit: 5, Lists: lists}), rpcReply(h.XID, words(0, 0)...))
			})
			for n := 0; n < 70000; n = n*5/4 + 1 {
				mustDo(t, c, itemCall(procSum, filled(n)))
				mustDo(t, c, &rpc.Call{Prog: testProg, Vers: testVers, Proc: procList, Args: make([]byte, n&^3), MaxResults: n})
			}
			if got := int(longest.Load()); got > tt.recv || got < tt.recv*3/4 {
				t.Errorf("longest Send %d octets, peer takes %d", got, tt.recv)
			}
		})
	}
}

// TestServerThreshold asks for replies of many sizes, with and without a reply
// chunk.
func TestServerThreshold(t *testing.T) {
	cfg := testConfig()
	cfg.InlineSend = 64 << 10
	_, addr := startServer(t, newEcho(), cfg)
	for _, tt := range privates {
		t.Run(tt.name, func(t *testing.T) {
			p := rawClient(t, addr, rawConfig(tt.data, tt.recv))
			reply := chunks.WriteChunk{p.offer(make([]byte, 80000), region.RemoteWrite)}
			longest := 0
			for n := uint32(0); n < 18000; n = n*5/4 + 1 {
				for _, lists := range []chunks.Lists{{}, {Reply: reply, HasReply: true}} {
					p.send(header(rpcrdma.Header{XID: n, Credit: 3, Lists: lists}), rpcCall(n, procList, words(n)...))
					m, err := p.conn.Recv(testCtx(t))
					if err != nil {
						t.Fatal(err)
					}
					longest = max(longest, len(m.Data))
					reply = chunks.WriteChunk{p.offerAgain(m, reply[0])}
				}
			}
			if longest > tt.recv || longest < tt.recv*3/4 {
				t.Errorf("longest Send %d octets, we take %d", longest, tt.recv)
			}
		})
	}
}

// offerAgain offers memory anew if the message has invalidated seg.
func (p *rawPeer) offerAgain(m *verbs.Message, seg chunks.Segment) chunks.Segment {
	if m.Invalidated == 0 {
		return seg
	}
	return p.offer(make([]byte, seg.Length), region.RemoteWrite)
}

// TestInline: Inline returns the sizes agreed in the start-up.
func TestInline(t *testing.T) {
	sc, cc := testConfig(), testConfig()
	sc.InlineSend, sc.InlineRecv = 8192, 2048
	cc.InlineSend, cc.InlineRecv = 3000, 65536
	_, c := pair(t, newEcho(), sc, cc)
	if send, recv := c.Inline(); send != 2048 || recv != 8192 {
		t.Errorf("inline %d and %d octets, want 2048 and 8192", send, recv)
	}
	for _, n := range []int{1900, 2100, 3000, 8100, 8300} {
		p := filled(n)
		call := echoCall(p)
		call.MaxResults = xdr.Pad(n) + n + 8
		checkEcho(t, mustDo(t, c, call), p, nil)
	}
}
