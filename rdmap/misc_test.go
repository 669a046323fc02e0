package rdmap

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/drive"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/internal/enginetest"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestRecvDuringHandshake: the initiator may be ready, and send, before the goroutine that runs the
// responder's Handshake has finished. A goroutine that receives there waits for that.
func TestRecvDuringHandshake(t *testing.T) {
	a, b := rdmaptest.Pipe()
	x, y := Client(a, nil), Server(b, nil)
	go y.Handshake(t.Context())
	for y.snd.State() == engine.StateNew {
		runtime.Gosched()
	}
	got := make(chan error)
	go func() {
		_, err := y.Recv(t.Context())
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatal("Recv before there is a connection:", err)
	case <-time.After(time.Millisecond):
	}
	if err := x.Handshake(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := x.Send(t.Context(), []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
	x.Close()
	y.Close()
}

func TestMisuse(t *testing.T) {
	a, b := rdmaptest.Pipe()
	x := Client(a, nil)
	if err := x.Post([]verbs.WR{{Op: verbs.OpSend}}); err != verbs.ErrNoHandshake {
		t.Error("before the startup:", err)
	}
	if err := x.Serve(); err != verbs.ErrNoHandshake {
		t.Error("Serve before the startup:", err)
	}
	var w Waiter
	w.Reset()
	if err := x.Wait(t.Context(), &w); err != verbs.ErrNoHandshake {
		t.Error("Wait before the startup:", err)
	}
	x.Close()
	b.Close()
	if err := x.Handshake(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Error("startup after Close:", err)
	}

	a, b = rdmaptest.Pipe()
	x, y := connect(t, a, b, &Config{ORD: -1, Handler: newCollector()}, nil)
	for _, tt := range []struct {
		wr   verbs.WR
		want error
	}{
		{verbs.WR{Op: verbs.OpReadResponse}, verbs.ErrBadWR},
		{verbs.WR{Op: verbs.OpTerminate}, verbs.ErrBadWR},
		{verbs.WR{Op: verbs.OpReadRequest, Head: []byte("x")}, verbs.ErrBadWR},
		{verbs.WR{Op: verbs.OpReadRequest}, verbs.ErrNoORD},
	} {
		if err := x.Post([]verbs.WR{{Op: verbs.OpSend}, tt.wr}); err != tt.want {
			t.Errorf("%v: %v, want %v", tt.wr.Op, err, tt.want)
		}
	}
	if x.Stats().SendsOut != 0 {
		t.Error("part of a refused list was sent")
	}
	if _, err := x.Recv(t.Context()); err != verbs.ErrHasHandler {
		t.Error("Recv with a Handler:", err)
	}
	go y.Serve()
	for y.reader.State() != drive.Server {
		time.Sleep(time.Millisecond)
	}
	if err := y.Serve(); err != verbs.ErrServing {
		t.Error("second Serve:", err)
	}
	if x.LocalAddr().String() != "a" || x.RemoteAddr().String() != "b" {
		t.Error("addresses", x.LocalAddr(), x.RemoteAddr())
	}
}

// TestRTR: the ready-to-receive messages of RFC 6581 Section 9.2 are accepted. The one that is a Send is
// not delivered and takes no receive.
func TestRTR(t *testing.T) {
	t.Parallel()
	for _, rtr := range []mpa.RTR{mpa.RTRSend, mpa.RTRWrite, mpa.RTRRead} {
		a, b := rdmaptest.Pipe()
		y := Server(b, &Config{Recvs: 1})
		errs := make(chan error, 1)
		go func() { errs <- y.Handshake(t.Context()) }()
		p, neg, err := rdmaptest.Initiate(a, &mpa.Config{PeerToPeer: true, RTR: rtr, IRD: 1, ORD: 1})
		if err != nil || neg.RTR != rtr {
			t.Fatalf("%v: %v, %v", rtr, neg, err)
		}
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
		msn := byte(1)
		switch rtr {
		case mpa.RTRSend:
			p.Send(enginetest.Patch(t, enginetest.GoldSendZero, 13, 1))
			msn = 2
		case mpa.RTRWrite:
			p.Send(enginetest.Patch(t, enginetest.GoldWrite, 0)[:14])
		case mpa.RTRRead:
			p.Send(enginetest.ReadRequest(t, 1, 2, 0))
		}
		p.Send(enginetest.Patch(t, enginetest.GoldSend, 13, msn))
		if m, err := y.Recv(t.Context()); err != nil || string(m.Data) != "HELLO" {
			t.Fatalf("%v: %v", rtr, err)
		}
		if rtr == mpa.RTRRead {
			if u, err := p.Next(); err != nil || u[1] != 0x42 || len(u) != 14 {
				t.Fatalf("answer to the RTR: %x, %v", u, err)
			}
		}
		a.Close()
		<-y.Done()
	}
}

// TestInsufficientIRD: an accepting Reply with an ORD above our IRD is answered with the Terminate
// 0x2/0x0/0x06 (RFC 6581 Section 8).
func TestInsufficientIRD(t *testing.T) {
	a, b := rdmaptest.Pipe()
	x := Client(a, &Config{IRD: 1, ORD: 1})
	errs := make(chan error, 1)
	go func() { errs <- x.Handshake(t.Context()) }()
	req := make([]byte, 20)
	if _, err := io.ReadFull(b, req); err != nil {
		t.Fatal(err)
	}
	io.CopyN(io.Discard, b, int64(req[19]))
	reply := enginetest.Unhex(t, "4d504120494420526570204672616d65"+"50020004"+"00400040")
	b.Write(reply)
	got, err := io.ReadAll(b)
	want := enginetest.WantTerminate(0x2006<<16, nil, false)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("got %x, %v", got, err)
	}
	b.Close()
	if pe, ok := errors.AsType[*verbs.ProtocolError](<-errs); !ok || pe.Code != (verbs.TermCode{Layer: 2, EType: 0, Code: 6}) {
		t.Fatalf("%v", pe)
	}
	<-x.Done()
}

func TestConfigDefaults(t *testing.T) {
	c := (*Config)(nil).withDefaults()
	if c.IRD != DefaultIRD || c.ORD != DefaultORD || c.RecvSize != DefaultRecvSize || c.Recvs != DefaultRecvs ||
		c.Pool != DefaultPool || c.Domain == nil || c.Logger == nil || c.MULPDU != 0 {
		t.Errorf("%+v", c)
	}
	c = (&Config{IRD: -1, ORD: 1 << 20, MULPDU: 5, Recvs: -3}).withDefaults()
	if c.IRD != 0 || c.ORD != maxDepth || c.MULPDU != 128 || c.Recvs != 0 {
		t.Errorf("%+v", c)
	}
	c = (&Config{
		RecvSize: -1, RecvQuota: -1, SendQueue: -1, MaxTakeovers: -1,
		WriteTimeout: -1, StallTimeout: -1, FPDUTimeout: -1, CloseTimeout: -1,
	}).withDefaults()
	if c.RecvSize != DefaultRecvSize || c.RecvQuota != 0 || c.SendQueue != DefaultSendQueue || c.MaxTakeovers != DefaultMaxTakeovers ||
		c.WriteTimeout != DefaultWriteTimeout || c.StallTimeout != DefaultStallTimeout || c.CloseTimeout != DefaultCloseTimeout {
		t.Errorf("negative settings: %+v", c)
	}
	if c.FPDUTimeout != -1 {
		t.Errorf("FPDUTimeout %v, want no bound", c.FPDUTimeout)
	}
}

// TestErrorTypes: the four kinds are told apart, and net.ErrClosed finds the dead
// connection.
func TestErrorTypes(t *testing.T) {
	cut := &verbs.ConnError{Op: "read", Err: os.ErrDeadlineExceeded}
	if !errors.Is(cut, net.ErrClosed) || !errors.Is(cut, os.ErrDeadlineExceeded) || !cut.Timeout() {
		t.Error(cut)
	}
	if (&verbs.ConnError{Op: "read", Err: io.EOF}).Timeout() {
		t.Error("io.EOF counts as a timeout")
	}
	local := &verbs.LocalError{Code: verbs.TermCode{}, Err: enginetest.ErrTest}
	if !errors.Is(local, enginetest.ErrTest) || !errors.Is(verbs.ErrClosed, net.ErrClosed) {
		t.Error(local)
	}
	for _, err := range []error{
		cut, local, engine.VioVersion.Error(enginetest.ErrTest), &verbs.TerminateError{}, &verbs.RejectError{},
	} {
		if err.Error() == "" || bytes.Count([]byte(err.Error()), []byte("rdmap: ")) != 1 {
			t.Errorf("%q", err)
		}
	}
}

// TestWaiterHints: a completion that is too late for one wait is only a hint for the next.
func TestWaiterHints(t *testing.T) {
	var w Waiter
	w.Reset()
	w.wake()
	w.Reset()
	if w.Done() {
		t.Fatal("a hint completed the Waiter")
	}
	w.Complete(enginetest.ErrTest)
	if !w.Done() || w.Err() != enginetest.ErrTest {
		t.Fatal("the Waiter is not complete")
	}
	w.Reset()
	if w.Done() || w.Err() != nil {
		t.Fatal("Reset left the Waiter complete")
	}
}
