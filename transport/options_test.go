package transport_test

import (
	"errors"
	"net"
	"testing"

	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport"
)

// TestEngineOptions: every setting of the start-up reaches the connection, and calls
// with chunks work under it; rdmap.TestOptions has all combinations.
func TestEngineOptions(t *testing.T) {
	for _, x := range []struct {
		rtr            mpa.RTR
		rev            int
		client, server bool // markers
		crc            transport.CRCMode
	}{
		{0, 1, true, false, transport.CRCOn},
		{mpa.RTRWrite, 2, false, true, transport.CRCOff},
		{mpa.RTRRead, 2, true, true, transport.CRCOn},
		{mpa.RTRSend, 2, false, false, transport.CRCOn},
	} {
		cc, sc := testConfig(), testConfig()
		cc.Startup.Revision, cc.Startup.Markers, cc.Startup.PeerToPeer, cc.Startup.RTR, sc.Startup.Markers = x.rev, x.client, x.rtr != 0, x.rtr, x.server
		cc.Startup.IRD, cc.Startup.ORD, sc.Startup.IRD, sc.Startup.ORD = 5, 6, 7, 3
		cc.Startup.CRC, sc.Startup.CRC = x.crc, x.crc
		_, c := pair(t, newEcho(), sc, cc)
		sent := c.Conn().Stats()
		if sent.FPDUsOut != btou(x.rtr != 0) || sent.SendsOut != btou(x.rtr == mpa.RTRSend) || sent.ReadsOut != btou(x.rtr == mpa.RTRRead) {
			t.Errorf("RTR: %+v", sent)
		}
		goodCall(t, c)
		s := c.Conn().ConnectionState()
		want := s
		want.Revision, want.RecvMarkers, want.SendMarkers, want.PeerToPeer = x.rev, x.client, x.server, x.rtr != 0
		want.CRC, want.IRD, want.ORD = x.crc == transport.CRCOn, 5, 6
		if x.rev == 1 {
			want.ORD = 1 // without an agreed depth
		}
		if s != want {
			t.Errorf("state %+v\nwant  %+v", s, want)
		}
	}
}

func btou(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// TestDialOlderServer: a server that knows RFC 5044 alone closes on our first Request;
// Dial comes back with revision 1, unless it was told which one to use.
func TestDialOlderServer(t *testing.T) {
	sc := testConfig()
	sc.Startup.Revision = 1
	_, addr := startServer(t, newEcho(), sc)
	c := dial(t, addr, nil)
	goodCall(t, c)
	if s := c.Conn().ConnectionState(); s.Revision != 1 {
		t.Errorf("%+v", s)
	}
	cfg := testConfig()
	cfg.Startup.Revision = 2
	if _, err := transport.Dial(testCtx(t), "tcp", addr, cfg); !errors.Is(err, verbs.ErrOlderPeer) {
		t.Errorf("with revision 2: %v", err)
	}
}

// TestDialClosingServer: a server that closes whatever is said gets two attempts, not
// more, and the first error is told.
func TestDialClosingServer(t *testing.T) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	count := make(chan int, 1)
	go func() {
		n := 0
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			n++
			c.Close()
		}
		count <- n
	}()
	if _, err := transport.Dial(testCtx(t), "tcp", l.Addr().String(), nil); !errors.Is(err, verbs.ErrOlderPeer) {
		t.Error(err)
	}
	l.Close()
	if n := <-count; n != 2 {
		t.Errorf("%d attempts", n)
	}
}
