package transport_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// hostileServer is behind a Listener for one RDMA client, which has called it with this XID.
func hostileServer(t *testing.T, room int) (s net.Conn, xid uint32, l *transport.Listener, over, answer chan error) {
	t.Helper()
	back, err := net.Listen("tcp", "127.0.0.1:0")
	noErr(t, err)
	t.Cleanup(func() { back.Close() })
	l, over = startBehind(t, back.Addr().String(), nil)
	c := connect(t, "rdma", l.Addr().String(), nil)
	answer = make(chan error, 1)
	go func() { answer <- try(t, c, &rpc.Call{Prog: 400200, Vers: 1, Proc: 1, MaxResults: room}) }()
	if s, err = back.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.SetDeadline(time.Now().Add(patience))
	answerNull(t, s)
	xid, _, _ = xdr.PeekXID(readRecordOf(t, s))
	return s, xid, l, over, answer
}

// beginning is the start of a reply whose record has n octets.
func beginning(xid uint32, n int) []byte {
	b := binary.BigEndian.AppendUint32(nil, 1<<31|uint32(n))
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, xid), 1)
}

// TestListenTooLarge: a reply for which its client has no room is refused, and the client is told; record.TestCheck shows that it is not kept.
func TestListenTooLarge(t *testing.T) {
	for _, x := range []struct {
		name       string
		room, size int
		pieces     []int // fragments, before the rest in one
	}{
		{"inline", 0, 1 << 20, nil},
		{"a reply chunk", 20_000, 1 << 20, nil},
		{"in fragments", 20_000, 1 << 20, []int{0, 4, 4, 0, 9000}},
	} {
		t.Run(x.name, func(t *testing.T) {
			s, xid, l, over, answer := hostileServer(t, x.room)
			msg := make([]byte, x.size)
			copy(msg, beginning(xid, 0)[4:])
			var b []byte
			rest := msg
			for _, n := range x.pieces {
				b = append(xdr.AppendRecordMark(b, n, false), rest[:n]...)
				rest = rest[n:]
			}
			b = append(xdr.AppendRecordMark(b, len(rest), true), rest...)
			must(s.Write(b))(t)
			err := <-answer
			if e, ok := errors.AsType[*rpc.RPCError](err); !ok || e.Reason != rpc.ReasonChunk {
				t.Error(err)
			}
			if n := l.Stats().Errors; n != 1 {
				t.Errorf("%d counted", n)
			}
			s.Close()
			<-over
			_, _ = io.Copy(io.Discard, s)
		})
	}
}

// TestListenReplyMemory: the replies for which a server lets clients wait count as memory until they have come.
func TestListenReplyMemory(t *testing.T) {
	const clients = 8
	inner := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	l, err := transport.NewListener(inner, &transport.Config{Limits: transport.Limits{Memory: 4 << 20, PerClient: transport.ClientLimits{Memory: -1}}})
	noErr(t, err)
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
