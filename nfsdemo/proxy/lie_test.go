package proxy_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/nfsdemo/proxy"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

var lies = flag.Int("lies", 40, "seeds of TestProxyOfLiar")

// canary is what another client has filled the memory of the proxy with.
const canary = 0xcc

func stale(b []byte) bool { return bytes.Contains(b, []byte{canary, canary, canary, canary}) }

// octets are without a run of canary.
func octets(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

// message is a call with the opaque p, or a reply with it.
func message(xid uint32, reply bool, p []byte) []byte {
	var b []byte
	if reply {
		b = xdr.AppendReply(nil, &xdr.ReplyHeader{XID: xid})
	} else {
		b = xdr.AppendCall(nil, &xdr.CallHeader{XID: xid, RPCVers: 2, Prog: 400200, Vers: 1, Proc: 1})
	}
	return xdr.AppendOpaque(b, p)
}

func header(h rpcrdma.Header) []byte {
	h.Vers, h.Credit = 1, 8
	return h.Append(nil)
}

func record(msg []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, 1<<31|uint32(len(msg))), msg...)
}

// nextRecord returns nil at the end of the stream.
func nextRecord(c net.Conn) (msg []byte) {
	for {
		var mark [4]byte
		if _, err := io.ReadFull(c, mark[:]); err != nil {
			return nil
		}
		n := binary.BigEndian.Uint32(mark[:])
		piece := make([]byte, n&(1<<31-1))
		if _, err := io.ReadFull(c, piece); err != nil {
			return nil
		}
		if msg = append(msg, piece...); n>>31 == 1 {
			return msg
		}
	}
}

// lying returns a liar at one end of a connection, as client or server.
func lying(c net.Conn, client bool, rnd *rand.Rand) (*rdmaptest.Liar, error) {
	said := rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096}.Append(nil)
	var p *rdmaptest.Peer
	var err error
	if client {
		p, _, err = rdmaptest.Initiate(c, &mpa.Config{IRD: 8, ORD: 8, PrivateData: said})
	} else {
		p, _, err = rdmaptest.Respond(c, &mpa.Config{IRD: 8, ORD: 8}, said)
	}
	if err != nil {
		return nil, err
	}
	return rdmaptest.NewLiar(p, rnd), nil
}

func listenTCP(t *testing.T) net.Listener {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	return l
}

// start runs a proxy between RDMA clients and a server on TCP, or the other way round.
func start(t *testing.T, clients bool) (p *proxy.Proxy, dialed *atomic.Int32, front string, back net.Listener) {
	t.Helper()
	back = listenTCP(t)
	p, dialed = new(proxy.Proxy), new(atomic.Int32)
	l := listenTCP(t)
	serve := p.Serve
	if clients {
		p.Dial = func(ctx context.Context, _ rpc.Handler) (proxy.Server, error) {
			dialed.Add(1)
			return transport.DialStream(ctx, "tcp", back.Addr().String(), nil)
		}
	} else {
		serve = p.ServeStream
		p.Dial = func(ctx context.Context, _ rpc.Handler) (proxy.Server, error) {
			return transport.Dial(ctx, "tcp", back.Addr().String(), &transport.Config{RFC5666: &transport.RFC5666{NoConfigCall: true}})
		}
	}
	served := make(chan error, 1)
	go func() { served <- serve(l) }()
	t.Cleanup(func() { p.Close(); <-served })
	return p, dialed, l.Addr().String(), back
}

// taint has another client of the proxy pass octets of its own, of many sizes, through its memory.
func taint(t *testing.T, front string, back net.Listener) {
	t.Helper()
	c := must(transport.Dial(t.Context(), "tcp", front, nil))(t)
	defer c.Close()
	go func() {
		s, err := back.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer s.Close()
		for m := nextRecord(s); m != nil; m = nextRecord(s) {
			_, _ = s.Write(record(message(binary.BigEndian.Uint32(m), true, bytes.Repeat([]byte{canary}, len(m)))))
		}
	}()
	for _, n := range []int{100, 3000, 9000, 60_000, 120_000, 250_000} {
		var r rpc.Reply
		err := c.Do(t.Context(), &rpc.Call{
			Prog: 400200, Vers: 1, Proc: 1, Args: xdr.AppendOpaque(nil, bytes.Repeat([]byte{canary}, n)), MaxResults: n + 200,
		}, &r)
		if err != nil {
			t.Fatal(err)
		}
		r.Release()
	}
}

// TestProxyOfLiar: a proxy passes on only what a client or server on RDMA has sent for that message, however it permutes,
// repeats, leaves out, overlaps and splits the segments of its Sends and Read Responses; and nothing that others have
// left in its memory.
//
// spec: rdmap 7.5 liar
func TestProxyOfLiar(t *testing.T) {
	t.Run("client", func(t *testing.T) {
		p, dialed, front, back := start(t, true)
		passed := 0
		for seed := range *lies {
			rnd := rand.New(rand.NewPCG(uint64(seed), 183))
			if seed%10 == 0 {
				taint(t, front, back)
			}
			c := must(net.Dial("tcp", front))(t)
			l := must(lying(c, true, rnd))(t)
			call := message(7, false, octets(1+rnd.IntN(1<<(2+rnd.IntN(15)))))
			before, ended, came := dialed.Load(), make(chan struct{}), make(chan []byte)
			go func() {
				s, err := back.Accept()
				if err != nil { // nothing was passed on
					came <- nil
					return
				}
				defer s.Close()
				got := nextRecord(s)
				if got != nil {
					_, _ = s.Write(record(message(7, true, nil)))
				}
				<-ended
				came <- got
			}()
			var mem []byte
			if len(call) < 4000 && rnd.IntN(2) == 0 {
				l.Say(append(header(rpcrdma.Header{XID: 7}), call...))
			} else {
				mem = call
				seg := chunks.Segment{Handle: 5, Length: uint32(len(call))}
				l.Say(header(rpcrdma.Header{XID: 7, Type: rpcrdma.MsgTypeNoMsg, Lists: chunks.Lists{Read: []chunks.ReadSegment{{Segment: seg}}}}))
			}
			if !l.Short { // otherwise there may be no answer
				l.Listen(mem)
			}
			l.End()
			close(ended)
			for len(p.Clients()) > 0 {
				time.Sleep(time.Millisecond)
			}
			if dialed.Load() == before {
				back.(*net.TCPListener).SetDeadline(time.Unix(1, 0))
			}
			got := <-came
			back.(*net.TCPListener).SetDeadline(time.Time{})
			check(t, seed, got, call, l)
			if bytes.Equal(got, call) {
				passed++
			}
		}
		some(t, passed)
	})
	t.Run("server", func(t *testing.T) {
		_, _, front, back := start(t, false)
		passed := 0
		for seed := range *lies {
			rnd := rand.New(rand.NewPCG(uint64(seed), 184))
			c := must(net.Dial("tcp", front))(t)
			reply := message(7, true, octets(1+rnd.IntN(1<<(2+rnd.IntN(15)))))
			over := make(chan *rdmaptest.Liar)
			go func() {
				defer close(over)
				s, err := back.Accept()
				if err != nil {
					t.Error(err)
					return
				}
				l, err := lying(s, false, rnd)
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { l.End(); over <- l }()
				null, ok := l.Listen(nil) // the proxy asks for the grant
				if !ok {
					return
				}
				xid := binary.BigEndian.Uint32(null)
				l.Say(append(header(rpcrdma.Header{XID: xid}), xdr.AppendReply(nil, &xdr.ReplyHeader{XID: xid})...))
				if l.Short || l.Caught {
					return
				}
				if _, ok := l.Listen(nil); !ok {
					return
				}
				if len(reply) < 4000 && rnd.IntN(2) == 0 {
					l.Say(append(header(rpcrdma.Header{XID: 7}), reply...))
				} else {
					seg := chunks.Segment{Handle: 5, Length: uint32(len(reply))}
					l.Say(header(rpcrdma.Header{XID: 7, Type: rpcrdma.MsgTypeNoMsg, Lists: chunks.Lists{Read: []chunks.ReadSegment{{Segment: seg}}}}))
				}
				if !l.Short {
					l.Listen(reply)
				}
			}()
			must(c.Write(record(message(7, false, nil))))(t)
			got := nextRecord(c)
			c.Close()
			l := <-over
			if l == nil {
				return
			}
			check(t, seed, got, reply, l)
			if bytes.Equal(got, reply) {
				passed++
			}
		}
		some(t, passed)
	})
}

// check fails unless got, if it is anything, is what a liar has really sent.
func check(t *testing.T, seed int, got, want []byte, l *rdmaptest.Liar) {
	t.Helper()
	switch {
	case stale(got):
		t.Fatalf("seed %d: octets of another client", seed)
	case got != nil && l.Caught:
		t.Fatalf("seed %d: a lie was passed on", seed)
	case got != nil && !bytes.Equal(got, want) && !(l.Short && bytes.HasPrefix(want, got)):
		t.Fatalf("seed %d: %d octets that nobody sent", seed, len(got))
	case got == nil && !l.Caught && !l.Short:
		t.Fatalf("seed %d: a whole message was not passed on", seed)
	}
}

func some(t *testing.T, passed int) {
	t.Helper()
	if passed == 0 || passed > *lies*4/5 {
		t.Errorf("%d of %d messages passed: the test shows nothing", passed, *lies)
	}
}
