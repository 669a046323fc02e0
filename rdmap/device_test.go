package rdmap_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// devices connects two Devices.
func devices(t *testing.T, c rdmaptest.Card, ca, cb *rdmap.Config) (a, b *rdmap.Conn) {
	t.Helper()
	x, y := c.Devices()
	return rdmaptest.Connect(t, x, y, ca, cb)
}

// TestDevice: what a Conn does, it does over a card.
func TestDevice(t *testing.T) {
	ctx, mem := t.Context(), []byte("in the memory of the other side")
	a, b := devices(t, rdmaptest.Card{Windows: true, Depth: 2}, &rdmap.Config{Startup: rdmap.Startup{PrivateData: []byte("hello")}},
		&rdmap.Config{Startup: rdmap.Startup{ORD: 1}})
	if got := b.PeerPrivateData(); !bytes.HasPrefix(got, []byte("hello\x00")) {
		t.Errorf("private data %q", got)
	}
	if st := a.ConnectionState(); !st.HandshakeComplete || !st.Initiator || st.ORD != 2 || st.IRD != 1 {
		t.Errorf("state %+v", st)
	}
	reg := must(b.Register(mem, region.RemoteRead|region.RemoteWrite|region.RemoteInvalidate))(t)
	if reg.Base() == 0 {
		t.Error("the card has named no memory")
	}
	got := make([]byte, len(mem))
	noErr(t, a.Read(ctx, got, reg.STag(), reg.Base()))
	noErr(t, a.Write(ctx, []byte("IN"), reg.STag(), reg.Base()))
	noErr(t, a.SendInvalidate(ctx, []byte("there"), reg.STag()))
	m := must(b.Recv(ctx))(t)
	if string(m.Data) != "there" || m.Invalidated != reg.STag() {
		t.Errorf("got %q, invalidated %v", m.Data, m.Invalidated)
	}
	noErr(t, reg.Invalidate(ctx))
	if string(got) != "in the memory of the other side" || !bytes.HasPrefix(mem, []byte("IN the")) {
		t.Errorf("read %q, wrote %q", got, mem)
	}
	if n := b.Table().Live(); n != 0 {
		t.Errorf("%d regions", n)
	}
	for what, tt := range map[string]struct {
		wr   verbs.WR
		want error
	}{
		"atomics":      {verbs.WR{Op: verbs.OpAtomicRequest, Atomic: new(verbs.Atomic)}, verbs.ErrNoExtension},
		"a bad one":    {verbs.WR{Op: verbs.OpReadRequest, Body: mem}, verbs.ErrBadWR},
		"an immediate": {verbs.WR{Op: verbs.OpImmediate, Body: mem[:8]}, verbs.ErrNoExtension},
	} {
		if err := a.Post([]verbs.WR{tt.wr}); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// What has come before the end is taken after it.
	noErr(t, b.Send(ctx, []byte("last")))
	noErr(t, b.Close())
	if m := must(a.Recv(ctx))(t); string(m.Data) != "last" {
		t.Errorf("got %q", m.Data)
	}
	if _, err := a.Recv(ctx); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	if err := a.Serve(); !errors.Is(err, io.EOF) {
		t.Errorf("Serve: %v", err)
	}
	if err := a.Serve(); !errors.Is(err, verbs.ErrServing) {
		t.Errorf("Serve again: %v", err)
	}
}

// TestDevicePinned: while the card touches the memory, it does not belong to its owner again, and the peer's later
// requests do not find it.
func TestDevicePinned(t *testing.T) {
	for name, register := range map[string]func(c *rdmap.Conn, mem []byte) (region.Region, error){
		"Register": func(c *rdmap.Conn, mem []byte) (region.Region, error) { return c.Register(mem, region.RemoteWrite) },
		"Window": func(c *rdmap.Conn, mem []byte) (region.Region, error) {
			w := must(c.Table().Window(mem))(t)
			return w.Open(0, len(mem), region.RemoteWrite)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inside, goOn := make(chan struct{}), make(chan struct{})
			a, b := devices(t, rdmaptest.Card{Held: func() { inside <- struct{}{}; <-goOn }}, nil, nil)
			reg := must(register(b, make([]byte, 8)))(t)
			wrote := make(chan error, 1)
			go func() { wrote <- a.Write(t.Context(), make([]byte, 8), reg.STag(), reg.Base()) }()
			<-inside
			over, cancel := context.WithCancel(t.Context())
			cancel()
			if err := reg.Invalidate(over); !errors.Is(err, region.ErrPinned) || reg.Valid() {
				t.Fatalf("Invalidate: %v", err)
			}
			close(goOn)
			noErr(t, reg.Invalidate(t.Context()))
			noErr(t, reg.Invalidate(t.Context()))
			noErr(t, <-wrote)
			if err := a.Write(t.Context(), make([]byte, 8), reg.STag(), reg.Base()); err == nil {
				t.Error("the STag is still known") // the Write was handed to the card, or the connection is over already
			}
		})
	}
}

// TestDeviceSettings: a setting of the engine is refused by its name, and so is a Memory that is more than octets.
func TestDeviceSettings(t *testing.T) {
	for field, s := range map[string]rdmap.Startup{
		"CRC": {CRC: rdmap.CRCOff}, "Revision": {Revision: 1}, "Markers": {Markers: true}, "PeerToPeer": {PeerToPeer: true}, "RTR": {RTR: 1},
		"MULPDU": {MULPDU: 1000}, "Extensions": {Extensions: verbs.ExtCommit}, "BufferedInput": {BufferedInput: []byte{1}},
	} {
		x, y := rdmaptest.Card{}.Devices()
		c := rdmap.Client(x, &rdmap.Config{Startup: s})
		if err := c.Handshake(t.Context()); !errors.Is(err, verbs.ErrConfig) || !strings.Contains(err.Error(), "Startup."+field+" ") {
			t.Errorf("%s: %v", field, err)
		}
		<-c.Done()
		if err := rdmap.Server(y, nil).Handshake(t.Context()); !errors.Is(err, io.EOF) {
			t.Errorf("%s, the peer: %v", field, err)
		}
	}
	x, _ := rdmaptest.Card{}.Devices()
	c := rdmap.Client(x, nil)
	if _, err := c.Register(make([]byte, 8), region.RemoteRead); !errors.Is(err, verbs.ErrNoHandshake) {
		t.Errorf("Register before the start: %v", err)
	}
	if err := c.Send(t.Context(), nil); !errors.Is(err, verbs.ErrNoHandshake) {
		t.Errorf("Send before the start: %v", err)
	}
	if _, err := c.Table().RegisterMemory(region.Bytes(make([]byte, 8)), region.Options{Access: region.RemoteRead}); !errors.Is(err, region.ErrCard) {
		t.Errorf("RegisterMemory: %v", err)
	}
	c.Abort(io.ErrClosedPipe)
	<-c.Done()
	if err := c.Handshake(t.Context()); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Handshake after Abort: %v", err)
	}
}

// TestDeviceRefused: the initiator learns what the responder says, whether it looks at the request or not.
func TestDeviceRefused(t *testing.T) {
	refuse := &rdmap.Config{Startup: rdmap.Startup{Accept: func(*mpa.Request) ([]byte, error) { return []byte("no"), io.ErrNoProgress }}}
	for name, answer := range map[string]func(d *rdmaptest.Device){
		"Accept": func(d *rdmaptest.Device) {
			if err := rdmap.Server(d, refuse).Handshake(t.Context()); !errors.Is(err, io.ErrNoProgress) {
				t.Errorf("Accept's error is %v", err)
			}
		},
		"Refuse": func(d *rdmaptest.Device) { d.Refuse([]byte("no")) },
	} {
		x, y := rdmaptest.Card{}.Devices()
		c := rdmap.Client(x, nil)
		go answer(y)
		err := c.Handshake(t.Context())
		if r, ok := errors.AsType[*verbs.RejectError](err); !ok || !bytes.HasPrefix(r.PrivateData, []byte("no\x00")) {
			t.Errorf("%s: %v", name, err)
		}
		<-c.Done()
		<-y.Over()
	}
	x, _ := rdmaptest.Card{}.Devices()
	err := rdmap.Client(x, &rdmap.Config{Startup: rdmap.Startup{Timeout: time.Millisecond}}).Handshake(t.Context())
	if e, ok := errors.AsType[net.Error](err); !ok || !e.Timeout() {
		t.Errorf("nobody answers: %v", err)
	}
}

// bad panics on a message.
type bad struct{ *rdmaptest.Collector }

func (bad) HandleRecv(*rdmap.Conn, *verbs.Message) { panic("on purpose") }

// TestDevicePanics: an upcall that panics ends its connection, with the others told.
func TestDevicePanics(t *testing.T) {
	h := rdmaptest.NewCollector()
	a, b := devices(t, rdmaptest.Card{}, nil, &rdmap.Config{Handler: bad{h}})
	go b.Serve()
	noErr(t, a.Send(t.Context(), []byte("x")))
	<-h.Over
	if !errors.Is(h.Closed, verbs.ErrPanic) {
		t.Errorf("ended by %v", h.Closed)
	}
	<-a.Done()
}

// TestDeviceCloses: Close waits for what was posted, but not for ever.
func TestDeviceCloses(t *testing.T) {
	a, _ := devices(t, rdmaptest.Card{}, &rdmap.Config{Timeouts: rdmap.Timeouts{Close: time.Millisecond}}, &rdmap.Config{Receives: rdmap.Receives{Count: -1}})
	var w rdmap.Waiter
	w.Reset()
	noErr(t, a.Post([]verbs.WR{{Op: verbs.OpSend, Done: &w}})) // the peer has no receive
	noErr(t, a.Close())
	if err := a.Wait(t.Context(), &w); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("the Send: %v", err)
	}
}

// must returns v, unless err ends the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		noErr(t, err)
		return v
	}
}

// noErr ends the test if err is an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
