package rdmap_test

import (
	"net"
	"runtime"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"golang.org/x/sys/unix"
)

// arrived returns when n octets can be read from c at once.
func arrived(t *testing.T, c net.Conn, n int) {
	t.Helper()
	rc, err := c.(*net.TCPConn).SyscallConn()
	noErr(t, err)
	for have := 0; have < n && t.Context().Err() == nil; runtime.Gosched() {
		noErr(t, rc.Control(func(fd uintptr) { have, err = unix.IoctlGetInt(int(fd), unix.SIOCINQ) }))
	}
}

// TestShortRead: the Response to a long Read is read into its place beginning with the first FPDU. If
// none is due, a read takes everything that has arrived.
func TestShortRead(t *testing.T) {
	const size = 256 << 10
	p, q := TcpPair(t)
	x, y := rdmaptest.Connect(t, p, q, &rdmap.Config{Startup: rdmap.Startup{CRC: rdmap.CRCOn}}, &rdmap.Config{Startup: rdmap.Startup{CRC: rdmap.CRCOn}})
	go y.Serve()
	x.Role().Mu.Lock()
	if !x.Role().Take(rdmap.Caller) {
		t.Fatal("somebody reads")
	}
	x.Role().Mu.Unlock()
	defer x.FreeReader()
	from, _ := y.Register(make([]byte, size), region.RemoteRead)
	to, _ := x.Register(make([]byte, size), region.ReadSink|region.RemoteWrite)

	w := new(rdmap.Waiter)
	w.Reset()
	noErr(t, x.Post([]verbs.WR{{Op: verbs.OpReadRequest, STag: from.STag(), Sink: to.STag(), Len: size, Done: w}}))
	arrived(t, p, 2*engine.ShortRead)
	if n, err := x.ReadOnce(true); err != nil || n != engine.ShortRead {
		t.Errorf("first read brings %d, %v", n, err)
	}
	if n, err := x.ReadOnce(true); err != nil || !x.Placed() || n <= engine.ShortRead {
		t.Errorf("second read brings %d octets, into their place %v, %v", n, x.Placed(), err)
	}
	for !w.Done() {
		if _, err := x.ReadOnce(true); err != nil {
			t.Fatal(err)
		}
	}

	noErr(t, y.Post([]verbs.WR{{Op: verbs.OpWrite, STag: to.STag(), Body: make([]byte, size)}}))
	arrived(t, p, 2*engine.ShortRead)
	if n, err := x.ReadOnce(true); err != nil || n < 2*engine.ShortRead {
		t.Errorf("read of a Write brings %d, %v", n, err)
	}
}
