package transport_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// relayBetween relays between two pipes, and returns their other ends and how the Relay ends.
func relayBetween() (client, server net.Conn, over chan error) {
	client, a := net.Pipe()
	b, server := net.Pipe()
	over = make(chan error, 1)
	go func() { over <- transport.Relay(a, b) }()
	return client, server, over
}

func aCall(xid uint32) []byte {
	return markedRecord(xdr.AppendCall(nil, &xdr.CallHeader{XID: xid, RPCVers: 2, Prog: 400200, Vers: 1, Proc: 1}))
}

func aReply(xid uint32) []byte { return markedRecord(xdr.AppendReply(nil, &xdr.ReplyHeader{XID: xid})) }

// TestRelayEnds: whatever a server does that answers nothing, its client sees an end. One that is idle, or slow, stays.
func TestRelayEnds(t *testing.T) {
	for _, x := range []struct {
		name   string
		server func(s net.Conn) // after it has read call 7
		within time.Duration    // 0: it stays
	}{
		{"silence", func(net.Conn) {}, 4 * time.Minute},
		{"half a mark", func(s net.Conn) { s.Write(aReply(7)[:2]) }, time.Minute},
		{"half a record", func(s net.Conn) { s.Write(aReply(7)[:9]) }, time.Minute},
		{"the rest an octet a time", func(s net.Conn) {
			s.Write(markedRecord(make([]byte, 1<<20))[:100])
			for {
				time.Sleep(5 * time.Second)
				if _, err := s.Write([]byte{0}); err != nil {
					return
				}
			}
		}, 3 * time.Minute},
		{"fragments without end", func(s net.Conn) {
			for {
				time.Sleep(time.Second)
				if _, err := s.Write([]byte{0, 0, 0, 0}); err != nil {
					return
				}
			}
		}, time.Minute},
		{"answers to others", func(s net.Conn) {
			for xid := uint32(8); ; xid++ {
				time.Sleep(time.Second)
				if _, err := s.Write(aReply(xid)); err != nil {
					return
				}
			}
		}, 4 * time.Minute},
		{"an answer", func(s net.Conn) { s.Write(aReply(7)) }, 0},
		{"a late answer, in pieces", func(s net.Conn) {
			time.Sleep(2 * time.Minute)
			for _, b := range aReply(7) {
				time.Sleep(time.Second)
				s.Write([]byte{b})
			}
		}, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, s, over := relayBetween()
				defer c.Close()
				defer s.Close()
				go io.Copy(io.Discard, c)
				must(c.Write(aCall(7)))(t)
				must(io.ReadFull(s, make([]byte, len(aCall(7)))))(t)
				begun := time.Now()
				done := make(chan struct{})
				go func() {
					x.server(s)
					close(done)
				}()
				defer func() { <-done }()
				defer s.Close()
				select {
				case err := <-over:
					if x.within == 0 || time.Since(begun) > x.within {
						t.Errorf("it ended after %v: %v", time.Since(begun), err)
					}
					if _, ok := errors.AsType[*rpc.SlowPeerError](err); !ok {
						t.Error(err)
					}
				case <-time.After(time.Hour):
					if x.within != 0 {
						t.Error("it has not ended")
					}
					c.Close()
					<-over
				}
			})
		})
	}
}

// TestRelayReplyMemory: the replies for which a server lets clients wait count as memory until they have come.
func TestRelayReplyMemory(t *testing.T) {
	const clients = 8
	inner := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	l, err := transport.NewListener(inner, &transport.Config{Limits: transport.Limits{Memory: 4 << 20, PerClient: transport.ClientLimits{Memory: -1}}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	came := make(chan struct{}, clients)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				for r := xdr.NewRecordReader(c, 1<<20); ; {
					msg, err := r.Next(nil)
					if err != nil {
						return
					}
					if xid, _, _ := xdr.PeekXID(msg); rpcProc(msg) == procNull {
						_, _ = c.Write(markedRecord(rpcReply(xid))) // it asks for the grant
						continue
					}
					came <- struct{}{} // and there is no answer
				}
			}()
		}
	}()
	var calls sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer calls.Wait()
	defer cancel()
	for range clients {
		c := must(transport.Dial(t.Context(), "tcp", l.Addr().String(), nil))(t)
		defer c.Close()
		calls.Go(func() {
			var r rpc.Reply
			_ = c.Do(ctx, &rpc.Call{Prog: 400200, Vers: 1, Proc: 1, MaxResults: 1 << 20}, &r) // it ends with ctx
		})
	}
	for n, waiting := 0, 0; n+waiting < clients; {
		select {
		case <-came:
			n++
		case <-time.After(10 * time.Millisecond):
			waiting = l.Stats().Waiting
		}
		if n > 4 {
			t.Fatalf("%d MiB are on their way, of 4", n)
		}
	}
}
