package transport_test

import (
	"encoding/binary"
	"errors"
	"net"
	"testing"
	"testing/synctest"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// rawServed starts a server on one end of a connection in memory and a Peer on the
// other. conn is the server's connection.
func rawServed(t *testing.T, h rpc.Handler) (s *transport.Server, conn *rdmap.Conn, p *rdmaptest.Peer, served chan error) {
	t.Helper()
	a, b := rdmaptest.PipeSize(8000)
	s = &transport.Server{Handler: h, Config: unwatched(testConfig())}
	served = make(chan error, 1)
	go func() { served <- s.ServeConn(b) }()
	p, _, err := rdmaptest.Initiate(a, &mpa.Config{IRD: 4, ORD: 4})
	noErr(t, err)
	synctest.Wait()
	return s, s.Responders()[0].Conn, p, served
}

// TestFailedPullKeepsMemory: the memory of a pull that fails goes back only when the
// engine has let go of it, and a call counts as running until then.
func TestFailedPullKeepsMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, conn, p, served := rawServed(t, newEcho())
		h := header(rpcrdma.Header{XID: 1, Type: rpcrdma.MsgTypeNoMsg, Lists: chunks.Lists{
			Read: []chunks.ReadSegment{{Segment: chunks.Segment{Handle: 1, Length: 5000}}},
		}})
		noErr(t, p.Send(sendULPDU(h)))
		u, err := p.Next()
		if err != nil || u[1] != 0x41 {
			t.Fatalf("%x, %v", u, err)
		}
		// As the engine does while a Response is being placed.
		sink := region.STag(binary.BigEndian.Uint32(u[18:]))
		view := must(conn.Table().Lookup(sink, binary.BigEndian.Uint64(u[22:]), 5000, region.ReadSink))(t)
		p.Conn.Close()
		synctest.Wait()
		if n := s.Stats().InFlight; n != 1 || conn.Err() == nil {
			t.Errorf("%d calls in flight while the memory is in use, %v", n, conn.Err())
		}
		view.Release()
		synctest.Wait()
		if n := s.Stats().InFlight; n != 0 {
			t.Errorf("%d calls in flight at the end", n)
		}
		<-served
		s.Close()
	})
}

// TestCannotBePosted: a reply, or the Reads of a lazy handler, for which the engine has no room end the connection, as
// RFC 8166 Section 4.5.4 wants where no reply can be sent; a client would wait for it forever.
func TestCannotBePosted(t *testing.T) {
	for _, lazy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, conn, p, served := rawServed(t, newTaker())
			for size := 60_000; size > 0; size /= 10 { // the peer does not read
				err := error(nil)
				for n := 0; err == nil && n < 10_000; n++ {
					err = conn.Post([]verbs.WR{{Op: verbs.OpSend, Head: make([]byte, size)}})
				}
				if !errors.Is(err, verbs.ErrSendQueueFull) {
					t.Fatal(err)
				}
			}
			hd, call := rpcrdma.Header{XID: 1}, rpcCall(1, procNull)
			if lazy {
				seg := chunks.Segment{Handle: 1, Length: 5000}
				hd.Read, call = []chunks.ReadSegment{{Position: 44, Segment: seg}}, rpcCall(1, procTake, words(5000, takePull)...)
			}
			noErr(t, p.Send(sendULPDU(header(hd), call)))
			synctest.Wait()
			if err := conn.Err(); !errors.Is(err, verbs.ErrSendQueueFull) {
				t.Errorf("lazy %v: the connection ended with %v", lazy, err)
			}
			conn.Abort(net.ErrClosed)
			p.Conn.Close()
			<-served
			s.Close()
		})
	}
}
