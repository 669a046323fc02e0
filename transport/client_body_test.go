package transport_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// slowServer is a server by hand that takes Sends of 256 KiB and reads only when it is told to.
type slowServer struct {
	t *testing.T
	p *rdmaptest.Peer
	c *transport.Client
	// xid is that of the last call; the next one is the next number.
	xid uint32
}

// bodySize is more than the sockets of newSlowServer hold, and fits a Send.
const bodySize = 100 << 10

// newSlowServer has answered one call.
func newSlowServer(t *testing.T) *slowServer {
	t.Helper()
	lc := net.ListenConfig{}
	l := must(lc.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	nc := must(net.Dial("tcp", l.Addr().String()))(t)
	peer, err := l.Accept()
	noErr(t, err)
	noErr(t, errors.Join(nc.(*net.TCPConn).SetWriteBuffer(4096), peer.(*net.TCPConn).SetReadBuffer(4096)))
	s := &slowServer{t: t}
	ready := make(chan error, 1)
	go func() {
		var err error
		private := rpcrdma.PrivateData{SendSize: 4096, RecvSize: 256 << 10}.Append(nil)
		s.p, _, err = rdmaptest.Respond(peer, &mpa.Config{IRD: 4, ORD: 4}, private)
		ready <- err
	}()
	if s.c, err = transport.NewClient(t.Context(), nc, &transport.Config{Timeouts: transport.Timeouts{Close: time.Second}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		peer.Close()
		s.c.Close()
	})
	noErr(t, <-ready)
	if send, _ := s.c.Inline(); send != 256<<10 {
		t.Fatalf("Sends of %d octets", send)
	}
	done := make(chan error, 1)
	go func() { done <- s.do(t.Context(), &rpc.Call{Prog: 100003, Vers: 3}) }()
	d := xdr.NewDecoder(s.read())
	s.xid = d.Uint32()
	s.reply(s.xid)
	noErr(t, <-done)
	return s
}

// do makes a call and drops its reply.
func (s *slowServer) do(ctx context.Context, call *rpc.Call) error {
	var r rpc.Reply
	defer r.Release()
	return s.c.Do(ctx, call, &r)
}

// read returns the next Send of the client.
func (s *slowServer) read() (send []byte) {
	s.t.Helper()
	for {
		seg, payload, err := s.p.NextSegment()
		noErr(s.t, err)
		if seg.QN != ddp.QNSend || seg.Tagged {
			s.t.Fatalf("the client sent %v", seg)
		}
		if send = append(send, payload...); seg.Last {
			return send
		}
	}
}

// reply answers a call.
func (s *slowServer) reply(xid uint32) {
	s.t.Helper()
	h := rpcrdma.Header{XID: xid, Vers: 1, Credit: 8}
	b := xdr.AppendReply(h.Append(nil), &xdr.ReplyHeader{XID: xid})
	noErr(s.t, s.p.SendSegment(s.p.Untagged(uint8(verbs.OpSend), ddp.QNSend), b))
}

// write is a WRITE of data. Its handle has 56 octets, and all arguments before the data 80.
func write(data []byte, free func()) *rpc.Call {
	args := append(xdr.AppendUint32(nil, 56), make([]byte, 56+8+4+4)...)
	args = xdr.AppendUint32(args, uint32(len(data)))
	return &rpc.Call{Prog: 100003, Vers: 3, Proc: 7, Args: args, Item: data, ItemPos: len(args), Free: free}
}

// A reply that comes before the call was written does not end the call: the caller would change memory
// that is still being sent.
func TestReplyBeforeItsCall(t *testing.T) {
	s := newSlowServer(t)
	data := bytes.Repeat([]byte("stag"), bodySize/4)
	want := bytes.Clone(data)
	done := make(chan error, 1)
	go func() {
		err := s.do(t.Context(), write(data, nil))
		clear(data) // as Do lets its caller
		done <- err
	}()
	waitFor(t, "the call is posted", func() bool { return s.c.Stats().Calls == 2 })
	s.reply(s.xid + 1)
	waitFor(t, "the reply is here", func() bool { return s.c.Stats().InFlight == 0 })
	select {
	case err := <-done:
		t.Fatalf("the call ended before it was sent: %v", err)
	case <-time.After(10 * time.Millisecond): // what a client that does not wait needs to show it
	}
	if got := s.read(); !bytes.HasSuffix(got, want) {
		t.Error("other octets were sent")
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// The memory of a cancelled call is free when its Send was written and its reply is here, in this
// order or the other one, or when the connection has ended.
func TestCancelledBody(t *testing.T) {
	for name, end := range map[string]func(s *slowServer){
		"reply last":  func(s *slowServer) { s.read(); s.reply(s.xid + 1) },
		"reply first": func(s *slowServer) { s.reply(s.xid + 1); s.read() },
		"connection":  func(s *slowServer) { s.c.Conn().Abort(io.ErrUnexpectedEOF) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSlowServer(t)
			freed := make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- s.do(ctx, write(make([]byte, bodySize), func() { close(freed) })) }()
			waitFor(t, "the call is posted", func() bool { return s.c.Stats().Calls == 2 })
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			select {
			case <-freed:
				t.Fatal("memory is free that is being sent")
			default:
			}
			end(s)
			<-freed
		})
	}
}

// A call that the end of its connection fails while its Send is being written ends when the engine has let go of its
// memory: the caller may change it then, or send it on another connection.
func TestBodyOfLostConnection(t *testing.T) {
	for range 100 { // the engine and the caller race for who is last
		s := newSlowServer(t)
		freed, done := make(chan struct{}), make(chan error, 1)
		go func() { done <- s.do(t.Context(), write(make([]byte, bodySize), func() { close(freed) })) }()
		waitFor(t, "the call is posted", func() bool { return s.c.Stats().Calls == 2 })
		s.c.Conn().Abort(io.ErrUnexpectedEOF)
		if err := <-done; err == nil {
			t.Error("a call without a reply succeeded")
		}
		select {
		case <-freed:
		default:
			t.Fatal("the call has ended, and its memory is being sent")
		}
	}
}

// Memory that a call lends for its Send is in use meanwhile.
func TestBodyInUse(t *testing.T) {
	s := newSlowServer(t)
	m := rpc.Alloc(bodySize)
	call := write(m.Bytes(), nil)
	call.ItemMemory = m
	done := make(chan error, 1)
	go func() { done <- s.do(t.Context(), call) }()
	waitFor(t, "the call is posted", func() bool { return s.c.Stats().Calls == 2 })
	again := write(m.Bytes(), nil)
	again.ItemMemory = m
	if err := s.do(t.Context(), again); !errors.Is(err, rpc.ErrMemoryInUse) {
		t.Errorf("used twice: %v", err)
	}
	s.read()
	s.reply(s.xid + 1)
	if err := <-done; err != nil || m.InUse() {
		t.Errorf("%v, in use: %v", err, m.InUse())
	}
	if st := s.c.Stats(); st.Registered != 0 {
		t.Errorf("%d registrations of memory that was sent", st.Registered)
	}
}
