package transport_test

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// tcpFront passes clients on TCP on to an RDMA server.
func tcpFront(t *testing.T, limits transport.Limits) (l net.Listener, stats func() (held int64, conns int, refused uint64)) {
	t.Helper()
	_, addr := startServer(t, newEcho(), nil)
	inner := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	l = must(transport.NewStreamListener(inner, &transport.Config{Limits: limits}))(t)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				b, err := transport.DialConn(t.Context(), "tcp", addr, testConfig())
				if err != nil {
					a.Close()
					return
				}
				_ = transport.Relay(a, b)
			}()
		}
	}()
	return l, func() (int64, int, uint64) {
		st := l.(interface{ Stats() rpc.Stats }).Stats()
		return st.Held, st.Connections, st.TooMany
	}
}

func dialFront(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c := must(net.Dial("tcp", l.Addr().String()))(t)
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

// TestStreamListenerConns: connections beyond the limit are closed and counted; the place of one that ends is free.
func TestStreamListenerConns(t *testing.T) {
	l, stats := tcpFront(t, transport.Limits{Conns: 3, PerClient: transport.ClientLimits{Conns: 2}})
	first := dialFront(t, l)
	dialFront(t, l)
	waitFor(t, "two are there", func() bool { _, n, _ := stats(); return n == 2 })
	if _, err := dialFront(t, l).Read(make([]byte, 1)); err != io.EOF {
		t.Error(err)
	}
	if _, _, n := stats(); n != 1 {
		t.Errorf("%d counted", n)
	}
	first.Close()
	waitFor(t, "one has ended", func() bool { _, n, _ := stats(); return n == 1 })
	mustDo(t, streamOver(t, dialFront(t, l)), &nullCall)
}

// TestStreamListenerMemory: what clients begin to send, or do not read, counts as memory; those that are slow lose it when
// another needs it.
func TestStreamListenerMemory(t *testing.T) {
	const limit = 4 << 20
	for _, x := range []struct {
		name string
		send func(c net.Conn)
	}{
		{"half records", func(c net.Conn) {
			c.Write(append(binary.BigEndian.AppendUint32(nil, 1<<31|1<<20), rawCall(1, procEcho)[4:]...))
		}},
		{"replies are not read", func(c net.Conn) {
			p := xdr.AppendOpaque(nil, filled(60_000))
			for xid := uint32(1); xid < 1000; xid++ {
				b := append(rawCall(xid, procEcho), p...)
				binary.BigEndian.PutUint32(b, 1<<31|uint32(len(b)-4))
				if _, err := c.Write(b); err != nil {
					return
				}
			}
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			l, stats := tcpFront(t, transport.Limits{Memory: limit, PerClient: transport.ClientLimits{Memory: -1}})
			const clients = 16
			for range clients {
				c := dialFront(t, l)
				go x.send(c)
			}
			waitFor(t, "they hold memory", func() bool { held, _, _ := stats(); return held > limit/2 })
			for range 50 {
				if held, _, _ := stats(); held > limit {
					t.Fatalf("%d octets are held, of %d", held, limit)
				}
				time.Sleep(10 * time.Millisecond)
			}
			begun := time.Now()
			mustDo(t, streamOver(t, dialFront(t, l)), echoCall(filled(100)))
			if d := time.Since(begun); d > 8*time.Second {
				t.Errorf("another was answered after %v", d)
			}
		})
	}
}
