package rdmap_test

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// stuckConn is a connection whose Write does not return until free is closed, from when stuck is set, even
// when the connection is closed: the system still reads the octets.
type stuckConn struct {
	*rdmaptest.Conn
	stuck   atomic.Bool
	writing chan struct{}
	free    chan struct{}
}

func (c *stuckConn) Write(p []byte) (int, error) {
	if c.stuck.Load() {
		select {
		case <-c.writing:
		default:
			close(c.writing)
		}
		<-c.free
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

// done is called when a work request is complete.
type done chan error

func (d done) Complete(err error) { d <- err }

// TestCompleteAfterWrite: the completion of a Send says that the memory of the Writes before it is free. It
// does not come while they are being written, also if the connection ends meanwhile.
// spec: rdmap 7.5 end
func TestCompleteAfterWrite(t *testing.T) {
	a, b := rdmaptest.Pipe()
	sc := &stuckConn{Conn: a, writing: make(chan struct{}), free: make(chan struct{})}
	x, y := rdmap.Client(sc, nil), rdmap.Server(b, nil)
	shaken := make(chan error, 1)
	go func() { shaken <- y.Handshake(t.Context()) }()
	noErr(t, x.Handshake(t.Context()))
	noErr(t, <-shaken)
	sink := must(y.Register(make([]byte, 4<<20), region.RemoteWrite))(t)
	sc.stuck.Store(true)
	sent := make(done, 1)
	go func() {
		_ = x.Post([]verbs.WR{ // the completion tells
			{Op: verbs.OpWrite, Body: make([]byte, 4<<20), STag: sink.STag()},
			{Op: verbs.OpSend, Body: []byte("all is written"), Done: sent},
		})
	}()
	<-sc.writing
	x.Abort(nil)
	select {
	case err := <-sent:
		t.Errorf("complete, with %v, while the system still reads the memory of the Write", err)
		close(sc.free)
	case <-time.After(200 * time.Millisecond):
		close(sc.free)
		if err := <-sent; err == nil {
			t.Error("complete without an error")
		}
	}
	<-x.Done()
	y.Abort(nil)
	<-y.Done()
}
