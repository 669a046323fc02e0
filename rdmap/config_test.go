package rdmap

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/drive"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

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
	x, y := Connect(t, a, b, &Config{ORD: -1, Handler: NewCollector()}, nil)
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
