package transport_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// rawPeer is one end of an RDMA connection without RPC-over-RDMA: the test makes its
// Sends by hand, legal or not, with values that differ from ours.
type rawPeer struct {
	t    testing.TB
	conn *rdmap.Conn
}

// rawConfig is a peer that says priv and receives Sends of recv octets.
func rawConfig(priv []byte, recv int) *rdmap.Config {
	return &rdmap.Config{
		Startup:  rdmap.Startup{PrivateData: priv, Accept: func(*mpa.Request) ([]byte, error) { return priv, nil }, IRD: 7, ORD: 3, MULPDU: 1001},
		Receives: rdmap.Receives{Size: recv, Count: 200},
		Timeouts: rdmap.Timeouts{Close: time.Second},
	}
}

// usualPrivate is what a peer with 4 KiB thresholds and remote invalidation says.
func usualPrivate() []byte {
	return rpcrdma.PrivateData{RemoteInvalidate: true, SendSize: 4096, RecvSize: 4096}.Append(nil)
}

// plainPrivate is the same without remote invalidation: memory can be offered again.
func plainPrivate() []byte {
	return rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096}.Append(nil)
}

// rawClient connects to a server under test.
func rawClient(t testing.TB, addr string, cfg *rdmap.Config) *rawPeer {
	t.Helper()
	if cfg == nil {
		cfg = rawConfig(usualPrivate(), 4096)
	}
	nc := must(net.Dial("tcp", addr))(t)
	return rawOver(t, nc, cfg)
}

func rawOver(t testing.TB, nc net.Conn, cfg *rdmap.Config) *rawPeer {
	t.Helper()
	p := &rawPeer{t, rdmap.Client(nc, cfg)}
	noErr(t, p.conn.Handshake(testCtx(t)))
	t.Cleanup(func() { p.conn.Abort(nil); <-p.conn.Done() })
	return p
}

// rawServer connects a client under test to a hand-made server. Calls of serve run
// in their own goroutine, one per Send received, in order.
func rawServer(t testing.TB, cfg *rdmap.Config, client *transport.Config, serve func(p *rawPeer, h *rpcrdma.Header, msg []byte)) *transport.Client {
	t.Helper()
	if cfg == nil {
		cfg = rawConfig(usualPrivate(), 4096)
	}
	if client == nil {
		client = testConfig()
	}
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		nc, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		p := &rawPeer{t, rdmap.Server(nc, cfg)}
		if err := p.conn.Handshake(testCtx(t)); err != nil {
			t.Error(err)
			return
		}
		p.loop(serve)
	}()
	c := must(transport.Dial(testCtx(t), "tcp", l.Addr().String(), client))(t)
	t.Cleanup(func() {
		c.Close()
		l.Close()
		<-done
	})
	return c
}

// loop hands every Send to serve until the connection ends.
func (p *rawPeer) loop(serve func(p *rawPeer, h *rpcrdma.Header, msg []byte)) {
	greeted := false
	for {
		m, err := p.conn.Recv(context.Background())
		if err != nil {
			p.conn.Abort(nil)
			<-p.conn.Done()
			return
		}
		var h rpcrdma.Header
		n, err := h.Decode(m.Data, nil)
		if err != nil {
			p.t.Errorf("client sent a bad header: %v", err)
			continue
		}
		if !greeted && rpcProc(m.Data[n:]) == procNull {
			greeted = true // the client asks for the grant
			p.send(header(rpcrdma.Header{XID: h.XID}), rpcReply(h.XID))
			continue
		}
		greeted = true
		serve(p, &h, m.Data[n:])
	}
}

// send makes a Send of the parts.
func (p *rawPeer) send(parts ...[]byte) {
	p.t.Helper()
	var b []byte
	for _, part := range parts {
		b = append(b, part...)
	}
	if err := p.conn.Send(testCtx(p.t), b); err != nil && !errors.Is(err, net.ErrClosed) {
		p.t.Errorf("raw Send: %v", err)
	}
}

// recv returns the next Send from the peer.
func (p *rawPeer) recv() (h rpcrdma.Header, payload []byte) {
	p.t.Helper()
	m, err := p.conn.Recv(testCtx(p.t))
	if err != nil {
		p.t.Fatalf("waiting for an answer: %v", err)
	}
	n, err := h.Decode(m.Data, nil)
	if err != nil {
		p.t.Fatalf("answer: %v", err)
	}
	return h, m.Data[n:]
}

// wantEnd waits until the connection is over and returns why.
func (p *rawPeer) wantEnd() error {
	p.t.Helper()
	select {
	case <-p.conn.Done():
	case <-time.After(patience):
		p.t.Fatal("the connection lives on")
	}
	return p.conn.Err()
}

// offer registers mem for remote reading or writing and describes it.
func (p *rawPeer) offer(mem []byte, access region.Access) chunks.Segment {
	p.t.Helper()
	r, err := p.conn.Register(mem, access|region.RemoteInvalidate)
	noErr(p.t, err)
	return chunks.Segment{Handle: chunks.Handle(r.STag()), Length: uint32(len(mem))}
}

// firstCall is a call without arguments that is not NULL, so that the client asks for the grant before.
var firstCall = rpc.Call{Prog: testProg, Vers: testVers, Proc: 99}

// rpcCall is a call message of the test program.
func rpcCall(xid, proc uint32, args ...byte) []byte {
	h := xdr.CallHeader{XID: xid, RPCVers: 2, Prog: testProg, Vers: testVers, Proc: proc}
	return append(xdr.AppendCall(nil, &h), args...)
}

// rpcReply is a successful reply message.
// rpcProc is the procedure of a call message, 1<<32-1 of what is none.
func rpcProc(msg []byte) uint32 {
	if _, typ, ok := xdr.PeekXID(msg); !ok || typ != xdr.MsgCall || len(msg) < 24 {
		return 1<<32 - 1
	}
	return binary.BigEndian.Uint32(msg[20:])
}

func rpcReply(xid uint32, results ...byte) []byte {
	return append(xdr.AppendReply(nil, &xdr.ReplyHeader{XID: xid}), results...)
}

// header is an encoded RPC-over-RDMA header.
func header(h rpcrdma.Header) []byte {
	if h.Vers == 0 {
		h.Vers = 1
	}
	if h.Credit == 0 {
		h.Credit = 8
	}
	return h.Append(nil)
}

// words encodes 32-bit words.
func words(v ...uint32) (b []byte) {
	for _, w := range v {
		b = xdr.AppendUint32(b, w)
	}
	return b
}
