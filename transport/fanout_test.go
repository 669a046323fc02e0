package transport_test

import (
	"bufio"
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

// serveSerially works on one call at a time per connection, as simple servers do.
func serveSerially(t *testing.T, l net.Listener, h rpc.Handler) {
	t.Helper()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				r := xdr.NewRecordReader(bufio.NewReader(c), 1<<20)
				for {
					msg, err := r.Next(nil)
					if err != nil {
						return
					}
					reply, _ := rpc.ServeMessage(t.Context(), h, c.RemoteAddr(), msg, nil)
					if _, err := c.Write(markedRecord(reply)); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
}

// listenFanout listens with n conns per connection.
func listenFanout(t *testing.T, n int) net.Listener {
	t.Helper()
	cfg := testConfig()
	cfg.Fanout = n
	l := listenAny(t, cfg)
	return l
}

// TestFanout: a serial server works on as many calls of one client as there are lanes,
// and not on one more.
func TestFanout(t *testing.T) {
	const n = 3
	l, h := listenFanout(t, n), newEcho()
	serveSerially(t, l, h)
	c := dial(t, l.Addr().String(), nil)
	mustDo(t, c, &nullCall) // brings the credits
	got := make(chan error, n+1)
	block := func() { got <- try(t, c, &rpc.Call{Prog: testProg, Vers: testVers, Proc: procBlock}) }
	for range n {
		go block()
	}
	for range n {
		select {
		case <-h.enter:
		case <-time.After(patience):
			t.Fatal("the calls wait for each other")
		}
	}
	go block()
	select {
	case <-h.enter:
		t.Error("one call too many at a time")
	case <-time.After(20 * time.Millisecond):
	}
	close(h.leave)
	for range n + 1 {
		if err := <-got; err != nil {
			t.Error(err)
		}
	}
	if st := l.(*transport.Listener).Stats(); st.Accepted != 1 || st.Connections != 1 {
		t.Errorf("%d accepted, %d alive, want one connection", st.Accepted, st.Connections)
	}
}

// TestFanoutClose: an idle lane goes alone, one that owes a reply takes the connection
// with it, and so does the last one.
func TestFanoutClose(t *testing.T) {
	l := listenFanout(t, 3)
	defer l.Close()
	c := dial(t, l.Addr().String(), nil)
	lanes := []net.Conn{accepted(t, l), accepted(t, l), accepted(t, l)}
	if err := lanes[1].Close(); err != nil {
		t.Error(err)
	}
	if _, err := lanes[1].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("Read of a lane that is closed: %v", err)
	}
	got := make(chan error, 1)
	go func() { got <- try(t, c, &nullCall) }()
	var mark [4]byte
	must(io.ReadFull(lanes[0], mark[:]))(t)
	lanes[0].Close()
	if err := <-got; err == nil {
		t.Error("got an answer to a call whose lane was closed")
	}
	if _, err := lanes[2].Read(mark[:]); !errors.Is(err, io.EOF) {
		t.Errorf("Read of a lane whose connection is closed: %v", err)
	}
}

// TestFanoutRetransmission: a call that one lane works on is not given to another.
func TestFanoutRetransmission(t *testing.T) {
	l := listenFanout(t, 2)
	defer l.Close()
	c := dial(t, l.Addr().String(), nil)
	lanes := []net.Conn{accepted(t, l), accepted(t, l)}
	queue := func(xid uint32) (taken bool) {
		x := transport.ResponderOf(lanes[0]).NewCall()
		x.In.RPC.XID = xid
		return transport.Dispatch(lanes[0], x)
	}
	for _, tt := range []struct {
		xid  uint32
		want bool
	}{{7, true}, {7, false}, {8, true}, {8, false}, {7, false}} {
		if got := queue(tt.xid); got != tt.want {
			t.Errorf("call %d: taken %v", tt.xid, got)
		}
	}
	for i, c := range lanes {
		if n := transport.Waiting(c); n != 1 {
			t.Errorf("lane %d has %d calls", i, n)
		}
	}
	c.Close()
}
