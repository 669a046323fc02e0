package rdmap_test

import (
	"errors"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

// TestCRCModes: by default an initiator asks for CRC and a responder does as it is asked; one side that
// asks is enough (RFC 5044 Section 4.4).
func TestCRCModes(t *testing.T) {
	const peer, on, off = rdmap.CRCPeer, rdmap.CRCOn, rdmap.CRCOff
	for _, tt := range []struct {
		initiator, responder rdmap.CRCMode
		want                 bool
	}{
		{peer, peer, true},
		{peer, on, true},
		{peer, off, true},
		{on, peer, true},
		{on, on, true},
		{on, off, true},
		{off, peer, false},
		{off, on, true},
		{off, off, false},
	} {
		for _, plain := range []bool{false, true} {
			a, b := rdmaptest.Pipe()
			x := rdmap.Client(a, &rdmap.Config{Startup: rdmap.Startup{CRC: tt.initiator, Plain: plain}})
			y := rdmap.Server(b, &rdmap.Config{Startup: rdmap.Startup{CRC: tt.responder}})
			done := make(chan error, 1)
			go func() { done <- y.Handshake(t.Context()) }()
			if err := errors.Join(x.Handshake(t.Context()), <-done); err != nil {
				t.Fatal(err)
			}
			if a, b := x.ConnectionState().CRC, y.ConnectionState().CRC; a != tt.want || b != tt.want {
				t.Errorf("initiator %d, responder %d, plain %v: CRC %v and %v, want %v", tt.initiator, tt.responder, plain, a, b, tt.want)
			}
			_, _ = x.Close(), y.Close()
		}
	}
}
