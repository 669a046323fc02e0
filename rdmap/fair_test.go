package rdmap_test

import (
	"net"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// stuck is a Handler whose upcalls wait.
type stuck struct{ inside, release chan struct{} }

func (h stuck) HandleRecv(*rdmap.Conn, *verbs.Message) { h.inside <- struct{}{}; <-h.release }

func (h stuck) HandleClose(*rdmap.Conn, error) {}

// TestStreamsDoNotStarve: a stream whose upcall blocks, idle or in Serve, and one that is flooded do not
// disturb other streams of the process.
func TestStreamsDoNotStarve(t *testing.T) {
	OnWires(t, func(t *testing.T, a, b net.Conn) {
		for _, serve := range []bool{false, true} {
			h := stuck{make(chan struct{}), make(chan struct{})}
			c, d := Wires["pipe"](t)
			if _, tcp := a.(*net.TCPConn); tcp {
				c, d = TcpPair(t)
			}
			x, y := rdmaptest.Connect(t, c, d, nil, &rdmap.Config{Handler: h})
			noErr(t, x.Send(t.Context(), nil))
			if serve {
				go y.Serve()
			}
			<-h.inside // and stays there
			defer close(h.release)
		}
		c, d := TcpPair(t)
		flood, sink := rdmaptest.Connect(t, c, d, nil, nil)
		target := MustRegister(t, sink, 1<<20, region.RemoteWrite)
		go sink.Serve()
		go func() {
			for flood.Write(t.Context(), make([]byte, 1<<20), target.STag(), 0) == nil {
			}
		}()
		hx := rdmaptest.NewCollector()
		x, y := rdmaptest.Connect(t, a, b, &rdmap.Config{Handler: hx}, nil)
		reg := MustRegister(t, y, 5000, region.RemoteRead)
		go y.Serve()
		for i := range 2 {
			noErr(t, x.Read(t.Context(), make([]byte, 5000), reg.STag(), 0))
			noErr(t, y.Send(t.Context(), []byte{byte(i)}))
			Within(t, "a message", hx.Got)
		}
		flood.Abort(nil)
	})
}
