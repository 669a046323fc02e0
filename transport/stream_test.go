package transport_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// startStream serves h on loopback TCP and connects a client.
func startStream(t testing.TB, h rpc.Handler, cfg *transport.Config) (*transport.Server, *transport.StreamClient) {
	t.Helper()
	s := &transport.Server{Handler: h, Config: cfg}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.ServeStream(l) }()
	c, err := transport.DialStream(testCtx(t), "tcp", l.Addr().String(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		s.Close()
		if err := <-served; !errors.Is(err, transport.ErrServerClosed) {
			t.Errorf("ServeStream: %v", err)
		}
	})
	return s, c
}

func TestStreamEcho(t *testing.T) {
	s, c := startStream(t, newEcho(), nil)
	for _, n := range []int{0, 1, 2, 3, 4, 1000, 4096, 70001, 1 << 20} {
		p := filled(n)
		r := mustDo(t, c, echoCall(p))
		d := xdr.NewDecoder(r.Results)
		if got := d.Opaque(8 << 20); !bytes.Equal(got, p) {
			t.Fatalf("%d octets came back as %d different ones", n, len(got))
		}
		if w := d.Uint32(); w != 0xfeedface || d.Err() != nil || d.Len() != 0 {
			t.Fatalf("%d octets: after the item %#x, %v, %d octets left", n, w, d.Err(), d.Len())
		}
		r.Release()
	}
	if st := s.Stats(); st.Calls != 9 || st.Replies != 9 || st.OctetsRead != 0 {
		t.Errorf("server's statistics: %+v", st)
	}
}

func TestStreamConcurrent(t *testing.T) {
	_, c := startStream(t, newEcho(), nil)
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 50 {
				n := (g*50+i)*37%5000 + 1
				var r rpc.Reply
				if err := c.Do(testCtx(t), wordCall(procFill, uint32(n)), &r); err != nil {
					t.Error(err)
					return
				}
				d := xdr.NewDecoder(r.Results)
				if got := d.Opaque(1 << 20); !bytes.Equal(got, filled(n)) {
					t.Errorf("fill %d: wrong octets", n)
				}
				r.Release()
			}
		})
	}
	wg.Wait()
}

func TestStreamCancelAndClose(t *testing.T) {
	h := newEcho()
	_, c := startStream(t, h, nil)
	ctx, cancel := context.WithCancel(testCtx(t))
	got := make(chan error, 1)
	go func() { got <- tryCtx(ctx, c, &rpc.Call{Prog: testProg, Vers: testVers, Proc: procBlock}) }()
	<-h.enter
	cancel()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled call: %v", err)
	}
	h.leave <- struct{}{}
	mustDo(t, c, &rpc.Call{Prog: testProg, Vers: testVers})

	go func() {
		got <- try(t, c, &rpc.Call{Prog: testProg, Vers: testVers, Proc: procBlock})
	}()
	<-h.enter
	c.Close()
	if err := <-got; !errors.Is(err, net.ErrClosed) {
		t.Errorf("call on a closed connection: %v", err)
	}
	close(h.leave)
}

func TestStreamShutdownDrains(t *testing.T) {
	h := newEcho()
	s, c := startStream(t, h, nil)
	got := make(chan error, 1)
	go func() {
		got <- try(t, c, &rpc.Call{Prog: testProg, Vers: testVers, Proc: procBlock})
	}()
	<-h.enter
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(testCtx(t)) }()
	for !s.IsClosing() {
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-down:
		t.Fatalf("Shutdown returned %v with a call running", err)
	default:
	}
	close(h.leave)
	if err := <-got; err != nil {
		t.Errorf("call during Shutdown: %v", err)
	}
	if err := <-down; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if n := s.Stats().Connections; n != 0 {
		t.Errorf("%d connections left", n)
	}
}

func TestStreamShutdownOutOfTime(t *testing.T) {
	h := newEcho()
	s, c := startStream(t, h, nil)
	got := make(chan error, 1)
	go func() {
		got <- try(t, c, &rpc.Call{Prog: testProg, Vers: testVers, Proc: procBlock})
	}()
	<-h.enter
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v", err)
	}
	if err := <-got; err == nil {
		t.Error("the call was answered though its server was aborted")
	}
}

func TestStreamTooBig(t *testing.T) {
	_, c := startStream(t, newEcho(), &transport.Config{MaxPayload: 4096})
	err := try(t, c, echoCall(make([]byte, 4096)))
	if e, ok := errors.AsType[*rpc.RPCError](err); !ok || e.Reason != rpc.ReasonTooBig {
		t.Errorf("call above MaxPayload: %v", err)
	}
	mustDo(t, c, &rpc.Call{Prog: testProg, Vers: testVers})
}
