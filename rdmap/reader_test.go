package rdmap

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/drive"
	"github.com/stag-rdma/stag/rdmap/internal/enginetest"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
)

// TestWatchedAfterWait: if a goroutine begins to wait while the watcher handles a burst, and then reads
// for itself, the connection is watched afterwards.
func TestWatchedAfterWait(t *testing.T) {
	OnWires(t, func(t *testing.T, a, b net.Conn) {
		t.Parallel()
		x, y := Connect(t, a, b, nil, nil)
		if err := x.Send(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := y.Recv(t.Context()); err != nil {
			t.Fatal(err)
		}
		WaitCold(t, x)
		burst := func(on bool) {
			x.mu.Lock()
			if x.writer.Uncork(); on {
				x.writer.Cork()
			}
			x.mu.Unlock()
		}
		burst(true)
		got := make(chan error, 1)
		go func() {
			_, err := x.Recv(t.Context())
			got <- err
		}()
		for waits := false; !waits; time.Sleep(time.Millisecond) {
			x.reader.mu.Lock()
			waits = x.reader.first != nil || x.reader.State() == drive.Waiter
			x.reader.mu.Unlock()
		}
		burst(false)
		x.reader.mu.Lock()
		if s := x.reader.State(); s == drive.Watcher || s == drive.Parked {
			x.interrupt() // as the ticker does to shrink a staging
		}
		x.reader.mu.Unlock()
		if err := y.Send(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		reg := MustRegister(t, x, 8, region.RemoteRead)
		if err := y.Read(ctx, make([]byte, 8), reg.STag(), 0); err != nil {
			t.Fatalf("nobody reads: %v", err)
		}
	})
}

// TestWatchedThenBusy goes back and forth between idle and busy.
func TestWatchedThenBusy(t *testing.T) {
	OnWires(t, func(t *testing.T, a, b net.Conn) {
		t.Parallel()
		x, y := Connect(t, a, b, nil, nil)
		go y.Serve()
		_, reg := make([]byte, 8), MustRegister(t, y, 8, region.RemoteRead)
		for range 3 {
			time.Sleep(2*tickEvery + tickEvery/2)
			for range 3 {
				if err := x.Read(t.Context(), make([]byte, 8), reg.STag(), 0); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// TestInputWhileTaken: input that a watcher noticed while somebody else held the role is read when the
// role is given back, and not only at the next tick.
func TestInputWhileTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := rdmaptest.Pipe()
		h := NewCollector()
		wire := newRoleWire(t, a)
		x := Client(wire, &Config{Handler: h, Receives: Receives{Count: 1}})
		x.link = newRoleLink(wire)
		ch := make(chan error, 1)
		go func() { ch <- x.Handshake(t.Context()) }()
		p, _, err := rdmaptest.Respond(b, &mpa.Config{IRD: 8, ORD: 8}, nil)
		if err := errors.Join(err, <-ch); err != nil {
			t.Fatal(err)
		}
		x.reader.mu.Lock()
		if !x.reader.Take(drive.Waiter) {
			t.Error("somebody reads already")
		}
		x.reader.mu.Unlock()
		from := time.Now()
		if err := p.Send(enginetest.ULPDU(t, enginetest.Unhex(t, enginetest.GoldSend))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		x.readable()
		x.freeReader()
		<-h.Got
		if d := time.Since(from); d != 0 {
			t.Errorf("read after %v", d)
		}
		x.Abort(nil)
		<-x.Done()
		b.Close()
	})
}

// TestWaitAfterFailure: after the connection has failed, a waiter leaves the reading role to finish, and does not take it
// again and again only to find nothing to read.
func TestWaitAfterFailure(t *testing.T) {
	a, b := rdmaptest.Pipe()
	c, peer := Connect(t, a, b, nil, nil)
	defer peer.Abort(nil)
	cause := errors.New("over")
	c.mu.Lock()
	c.snd.Fail(cause, false, false, nil) // as end does before finish runs
	c.mu.Unlock()
	w, done := new(Waiter), make(chan error, 1)
	w.Reset()
	go func() { done <- c.Wait(context.Background(), w) }()
	queued := func() bool {
		c.reader.mu.Lock()
		defer c.reader.mu.Unlock()
		return c.reader.first == w && c.reader.State() != drive.Waiter
	}
	for until := time.Now().Add(time.Minute); !queued(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Error("a waiter takes the role of a connection that has failed")
			break
		}
	}
	go c.finish()
	if err := <-done; !errors.Is(err, cause) {
		t.Errorf("it ends with %v", err)
	}
}
