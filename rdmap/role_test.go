package rdmap_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
)

// TestWatchedAfterWait: if a goroutine begins to wait while the watcher handles a burst, and then reads
// for itself, the connection is watched afterwards.
func TestWatchedAfterWait(t *testing.T) {
	OnWires(t, func(t *testing.T, a, b net.Conn) {
		t.Parallel()
		x, y := rdmaptest.Connect(t, a, b, nil, nil)
		noErr(t, x.Send(t.Context(), nil))
		if _, err := y.Recv(t.Context()); err != nil {
			t.Fatal(err)
		}
		waitIdle(t, x)
		d := x
		burst := func(on bool) {
			d.Mu().Lock()
			if d.Writer().Uncork(); on {
				d.Writer().Cork()
			}
			d.Mu().Unlock()
		}
		burst(true)
		got := make(chan error, 1)
		go func() {
			_, err := x.Recv(t.Context())
			got <- err
		}()
		for waits := false; !waits; time.Sleep(time.Millisecond) {
			x.Role().Mu.Lock()
			waits = x.Role().First() != nil || x.Role().State() == rdmap.Caller
			x.Role().Mu.Unlock()
		}
		burst(false)
		x.Role().Mu.Lock()
		if s := x.Role().State(); s == rdmap.Watcher || s == rdmap.Parked {
			x.Interrupt() // as the ticker does to shrink a staging
		}
		x.Role().Mu.Unlock()
		noErr(t, y.Send(t.Context(), nil))
		noErr(t, <-got)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		reg := MustRegister(t, x, 8, region.RemoteRead)
		if err := y.Read(ctx, make([]byte, 8), reg.STag(), 0); err != nil {
			t.Fatalf("nobody reads: %v", err)
		}
	})
}

// TestInputWhileTaken: input that a watcher noticed while somebody else held the role is read when the
// role is given back, and not only at the next tick.
func TestInputWhileTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := rdmaptest.Pipe()
		h := rdmaptest.NewCollector()
		wire := newRoleWire(t, a)
		x := rdmap.Client(wire, &rdmap.Config{Handler: h, Receives: rdmap.Receives{Count: 1}})
		x.SetLink(newRoleLink(wire))
		ch := make(chan error, 1)
		go func() { ch <- x.Handshake(t.Context()) }()
		p, _, err := rdmaptest.Respond(b, &mpa.Config{IRD: 8, ORD: 8}, nil)
		noErr(t, errors.Join(err, <-ch))
		x.Role().Mu.Lock()
		if !x.Role().Take(rdmap.Caller) {
			t.Error("somebody reads already")
		}
		x.Role().Mu.Unlock()
		from := time.Now()
		noErr(t, p.Send(rdmaptest.ULPDU(t, rdmaptest.Unhex(t, rdmaptest.Gold.Send))))
		synctest.Wait()
		x.Readable()
		x.FreeReader()
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
	c, peer := rdmaptest.Connect(t, a, b, nil, nil)
	defer peer.Abort(nil)
	cause := errors.New("over")
	d := c
	d.HasFailed(cause) // as End does before finish runs
	w, done := new(rdmap.Waiter), make(chan error, 1)
	w.Reset()
	go func() { done <- d.Wait(context.Background(), w) }()
	queued := func() bool {
		d.Role().Mu.Lock()
		defer d.Role().Mu.Unlock()
		return d.Role().First() == w && d.Role().State() != rdmap.Caller
	}
	for until := time.Now().Add(time.Minute); !queued(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Error("a waiter takes the role of a connection that has failed")
			break
		}
	}
	go d.Finish()
	if err := <-done; !errors.Is(err, cause) {
		t.Errorf("it ends with %v", err)
	}
}
