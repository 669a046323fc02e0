package transport_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// A call that waits for its turn when its connection is reset is not executed: nobody is there to be
// answered.
func TestCallOfDeadConnection(t *testing.T) {
	var ran atomic.Int32
	begun, gate := make(chan struct{}), make(chan struct{})
	s, addr := served(t, overTCP, rpc.HandlerFunc(func(context.Context, *rpc.Request, *rpc.Response) {
		if ran.Add(1) == 1 {
			close(begun)
			<-gate
		}
	}), &transport.Config{Credits: 1, Reading: transport.Reading{HandlerLimit: -1}}) // one call at a time
	c := sendCall(t, addr, 1)
	must(c.Write(rawCall(2, 1)))(t)
	<-begun
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
	close(gate)
	waitFor(t, "the connection has ended", func() bool { return s.Stats().Connections == 0 })
	if st := s.Stats(); ran.Load() != 1 || st.Late > 1 {
		t.Errorf("%d calls were executed, %+v", ran.Load(), st)
	}
}

// writes is a handler of calls that must not run twice. It keeps the procedures of those that have ended, in order.
type writes struct {
	gate chan struct{} // procedure 1 waits until it is closed
	mu   sync.Mutex
	done []uint32
}

func (w *writes) ServeRPC(_ context.Context, req *rpc.Request, _ *rpc.Response) {
	if req.Proc == 1 {
		<-w.gate
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = append(w.done, req.Proc)
}

// sendCall writes a call to a new connection, which the test closes.
func sendCall(t *testing.T, addr string, proc uint32) net.Conn {
	t.Helper()
	c := must(net.Dial("tcp", addr))(t)
	must(c.Write(rawCall(proc, proc)))(t)
	return c
}

// Describe says that the arguments are the object that a call changes.
func (*writes) Describe(req *rpc.Request) rpc.Traits {
	t := rpc.Traits{Once: true}
	if len(req.Args) > 0 {
		t.Changes[1] = 1 + uint64(req.Args[3])
	}
	return t
}

// TestHangingCallHoldsUpItsObjectOnly: a call that hangs on a disk, and whose connection its client has closed, holds up
// the next call of the same caller for the same object, and no other.
func TestHangingCallHoldsUpItsObjectOnly(t *testing.T) {
	w := &writes{gate: make(chan struct{})}
	s, addr := served(t, overTCP, w, &transport.Config{Reading: transport.Reading{HandlerLimit: -1}})
	release := sync.OnceFunc(func() { close(w.gate) })
	t.Cleanup(release) // before the server is closed
	call := func(proc, object uint32, user string) *rpc.Call {
		c := &rpc.Call{Prog: testProg, Vers: testVers, Proc: proc, Args: words(object)}
		if user != "" {
			cred := xdr.SysCred{MachineName: user}
			c.Cred = cred.Auth()
		}
		return c
	}
	old := dialStream(t, addr, nil)
	do := func(c rpc.Caller, call *rpc.Call) <-chan error {
		done := make(chan error, 1)
		go func() { done <- try(t, c, call) }()
		return done
	}
	hung := do(old, call(1, 7, ""))
	waitFor(t, "the first call runs", func() bool { return s.Stats().InFlight == 1 })
	old.Close()
	<-hung
	next := dialStream(t, addr, nil)
	same := do(next, call(2, 7, ""))
	waitFor(t, "that for the same object has come", func() bool { return s.Stats().InFlight == 2 })
	mustDo(t, next, call(3, 8, ""))
	mustDo(t, next, call(4, 7, "another user"))
	release()
	if err := <-same; err != nil {
		t.Error(err)
	}
	if w.mu.Lock(); !slices.Equal(w.done, []uint32{3, 4, 1, 2}) {
		t.Errorf("they have ended in the order %v", w.done)
	}
	w.mu.Unlock()
}

// slowStart is a listener whose first connection is looked at only after gate is closed.
type slowStart struct {
	net.Listener
	gate  chan struct{}
	first atomic.Bool
}

type slowConn struct {
	*net.TCPConn
	gate chan struct{}
}

func (l *slowStart) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil || !l.first.CompareAndSwap(false, true) {
		return c, err
	}
	return &slowConn{c.(*net.TCPConn), l.gate}, nil
}

func (c *slowConn) RemoteAddr() net.Addr {
	<-c.gate
	return c.TCPConn.RemoteAddr()
}

// Which connection is newer follows from the order in which they were accepted, not from that in which their
// goroutines begin.
func TestLateByOrderOfAccept(t *testing.T) {
	w := &writes{gate: make(chan struct{})}
	close(w.gate)
	slow := &slowStart{gate: make(chan struct{})}
	s, addr := served(t, func(s *transport.Server, l net.Listener) error {
		slow.Listener = l
		return s.ServeStream(slow)
	}, w, nil)
	sendCall(t, addr, 1).Close()
	next := sendCall(t, addr, 2)
	defer next.Close()
	waitFor(t, "the second call has run", func() bool { return s.Stats().Replies == 1 })
	close(slow.gate)
	waitFor(t, "the first connection has ended", func() bool { st := s.Stats(); return st.Accepted == 2 && st.Connections == 1 })
	if st := s.Stats(); !slices.Equal(w.done, []uint32{2}) || st.Late != 1 {
		t.Errorf("%v have run, %d late", w.done, st.Late)
	}
}
