package rdmap_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

func TestMisuse(t *testing.T) {
	a, b := rdmaptest.Pipe()
	x := rdmap.Client(a, nil)
	if err := x.Post([]verbs.WR{{Op: verbs.OpSend}}); err != verbs.ErrNoHandshake {
		t.Error("before the startup:", err)
	}
	if err := x.Serve(); err != verbs.ErrNoHandshake {
		t.Error("Serve before the startup:", err)
	}
	var w rdmap.Waiter
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
	x, y := rdmaptest.Connect(t, a, b, &rdmap.Config{Startup: rdmap.Startup{ORD: -1}, Handler: rdmaptest.NewCollector()}, nil)
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
	served := make(chan error, 2)
	for range 2 {
		go func() { served <- y.Serve() }()
	}
	if err := <-served; err != verbs.ErrServing {
		t.Error("second Serve:", err)
	}
	if x.LocalAddr().String() != "a" || x.RemoteAddr().String() != "b" {
		t.Error("addresses", x.LocalAddr(), x.RemoteAddr())
	}
}

// TestConfigErrors: a setting out of range ends the connection in its startup, before an octet is sent. The
// error names it.
func TestConfigErrors(t *testing.T) {
	for _, tt := range []struct {
		cfg  rdmap.Config
		want string
	}{
		{rdmap.Config{Startup: rdmap.Startup{CRC: 3}}, "Startup.CRC is 3"},
		{rdmap.Config{Startup: rdmap.Startup{Revision: 3}}, "Startup.Revision is 3"},
		{rdmap.Config{Startup: rdmap.Startup{IRD: rdmap.MaxDepth + 1}}, "Startup.IRD is 16383, want 1 to 16382"},
		{rdmap.Config{Startup: rdmap.Startup{ORD: 1 << 20}}, "Startup.ORD is 1048576"},
		{rdmap.Config{Startup: rdmap.Startup{MULPDU: 5}}, "Startup.MULPDU is 5, want 128 to 64768"},
		{rdmap.Config{Startup: rdmap.Startup{Timeout: -1}}, "Startup.Timeout is -1ns"},
		{rdmap.Config{Receives: rdmap.Receives{Size: -1}}, "Receives.Size is -1"},
		{rdmap.Config{Timeouts: rdmap.Timeouts{Write: -1}}, "Timeouts.Write is -1ns"},
		{rdmap.Config{Timeouts: rdmap.Timeouts{Memory: -1}}, "Timeouts.Memory is -1ns"},
		{rdmap.Config{Timeouts: rdmap.Timeouts{Close: -1}}, "Timeouts.Close is -1ns"},
		{rdmap.Config{Reading: rdmap.Reading{MaxHandlers: -1}}, "Reading.MaxHandlers is -1"},
		{rdmap.Config{SendQueue: -1}, "SendQueue is -1"},
	} {
		a, b := rdmaptest.Pipe()
		c := rdmap.Client(a, &tt.cfg)
		err := c.Handshake(t.Context())
		if !errors.Is(err, verbs.ErrConfig) || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "rdmap: ") {
			t.Errorf("%v, want %s", err, tt.want)
		}
		<-c.Done()
		if c.Err() != err || tt.cfg.Check().Error() != err.Error() {
			t.Errorf("%v and %v, want %v", c.Err(), tt.cfg.Check(), err)
		}
		if n, err := b.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("%d octets were sent, %v", n, err)
		}
	}
}
