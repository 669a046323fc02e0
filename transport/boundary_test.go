package transport_test

import (
	"bytes"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/rpc"
)

// TestClientInlineEdge makes calls of every size around the peer's receive size: the
// longest Send has exactly that many octets, header included (RFC 8797 Section 4.2).
func TestClientInlineEdge(t *testing.T) {
	const size = 2048
	priv := rpcrdma.PrivateData{SendSize: size, RecvSize: size}.Append(nil)
	var longest atomic.Int64
	c := rawServer(t, rawConfig(priv, size), nil, func(p *rawPeer, h *rpcrdma.Header, msg []byte) {
		longest.Store(max(longest.Load(), int64(h.Size()+len(msg))))
		p.send(header(rpcrdma.Header{XID: h.XID}), rpcReply(h.XID, words(0, 0)...))
	})
	for n := size - 200; n <= size+8; n += 4 {
		mustDo(t, c, &rpc.Call{Prog: testProg, Vers: testVers, Proc: procNull, Args: make([]byte, n)})
		mustDo(t, c, itemCall(procSum, filled(n)))
	}
	if got := longest.Load(); got != size {
		t.Errorf("longest Send of %d octets, but the peer takes %d", got, size)
	}
}

// TestRoomToTheOctet offers a result exactly the memory it needs, and one unit less:
// the former is used up, the latter is ERR_CHUNK and nothing is written, nor is
// anything ever written beyond it (RFC 8166 Section 4.5.3).
func TestRoomToTheOctet(t *testing.T) {
	_, addr := startServer(t, newEcho(), nil)
	p := rawClient(t, addr, rawConfig(plainPrivate(), 4096))
	const item, list = 1001, 2000
	for _, tt := range []struct {
		name       string
		proc, arg  uint32
		need, less int
		lists      func(c chunks.WriteChunk) chunks.Lists
	}{
		{"write chunk", procFill, item, item, 1, func(c chunks.WriteChunk) chunks.Lists {
			return chunks.Lists{Write: []chunks.WriteChunk{c}}
		}},
		{"reply chunk", procList, list, 24 + 4*list, 1, func(c chunks.WriteChunk) chunks.Lists {
			return chunks.Lists{Reply: c, HasReply: true}
		}},
	} {
		for _, room := range []int{tt.need + 7, tt.need, tt.need - tt.less, tt.need - 4} {
			mem := bytes.Repeat([]byte{0xa5}, tt.need+64)
			whole := p.offer(mem, region.RemoteWrite)
			first, rest := whole, whole
			first.Length = 77
			rest.Offset, rest.Length = 77, uint32(room-77)
			p.send(header(rpcrdma.Header{XID: 9, Lists: tt.lists(chunks.WriteChunk{first, rest})}), rpcCall(9, tt.proc, words(tt.arg)...))
			h, _ := p.recv()
			used := h.Reply
			if len(h.Write) > 0 {
				used = h.Write[0]
			}
			tail := mem
			switch {
			case room < tt.need && (h.Type != rpcrdma.MsgTypeError || h.Err != rpcrdma.ErrChunk):
				t.Errorf("%s with %d octets for %d: answer %+v", tt.name, room, tt.need, h)
			case room >= tt.need && (h.Type == rpcrdma.MsgTypeError || int(used.Room()) != tt.need):
				t.Errorf("%s with %d octets for %d: %d used, answer %+v", tt.name, room, tt.need, used.Room(), h)
			}
			if room >= tt.need {
				tail = mem[tt.need:]
				if tt.proc == procFill && (!bytes.Equal(mem[:item], filled(item)) || h.Write[0][0].Length != 77) {
					t.Errorf("%s with %d octets: other octets, or other segments: %+v", tt.name, room, h.Write)
				}
			}
			if bytes.Count(tail, []byte{0xa5}) != len(tail) {
				t.Errorf("%s with %d octets for %d: written where nothing belongs", tt.name, room, tt.need)
			}
		}
	}
}

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

// TestQueuedCallsOfDeadConnection: calls that wait for memory leave the queue with
// their connection.
func TestQueuedCallsOfDeadConnection(t *testing.T) {
	cfg := testConfig()
	cfg.MaxPayload, cfg.Limits.Memory = 128<<10, 256<<10
	s, addr := startServer(t, newEcho(), cfg)
	holder := dial(t, addr, nil)
	back := overdraw(t, s, 100<<10)
	end := pulling(t, s, "127.0.0.2", 4)
	waitFor(t, "one is pulled, the others wait", func() bool { st := s.Stats(); return st.Pulls == 1 && st.Waiting == 3 })
	end.Close()
	waitFor(t, "the queue is empty", func() bool { return s.Stats().Waiting == 0 })
	waitFor(t, "nothing runs", func() bool { return s.Stats().InFlight == 0 && s.Stats().Connections == 1 })
	back()
	mustDo(t, holder, itemCall(procSum, filled(100_000)))
	waitFor(t, "all memory is back", func() bool { return s.Stats().Held == 0 })
}
