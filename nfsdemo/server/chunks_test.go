package server_test

import (
	"net"
	"testing"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/xdr"
)

// handMade is an RDMA connection to a server on which the test writes each header itself.
type handMade struct {
	*peer
	conn *rdmap.Conn
}

// newHandMadeOver connects to a server.
func newHandMadeOver(t *testing.T, srv *server.Server) *handMade {
	t.Helper()
	return newHandMadeAt(t, srv, overRDMA(t, &transport.Server{Handler: srv}))
}

// overRDMA serves until the test ends.
func overRDMA(t *testing.T, s *transport.Server) (addr string) {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	go s.Serve(l)
	t.Cleanup(func() { _ = s.Close() })
	return l.Addr().String()
}

// newHandMadeAt connects to where a server is served.
func newHandMadeAt(t *testing.T, srv *server.Server, addr string) *handMade {
	t.Helper()
	nc := must(net.Dial("tcp", addr))(t)
	c := rdmap.Client(nc, &rdmap.Config{
		Startup:  rdmap.Startup{PrivateData: rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096}.Append(nil), IRD: 5, MULPDU: 999},
		Receives: rdmap.Receives{Size: 4096, Count: 100}, Timeouts: rdmap.Timeouts{Close: time.Second},
	})
	noErr(t, c.Handshake(t.Context()))
	t.Cleanup(func() { c.Abort(nil); <-c.Done() })
	return &handMade{newPeer(t, srv, sys(0, 0)), c}
}

// offer makes m reachable and describes it.
func (h *handMade) offer(m []byte, a region.Access) chunks.Segment {
	h.Helper()
	r := must(h.conn.Register(m, a))(h)
	return chunks.Segment{Handle: chunks.Handle(r.STag()), Length: uint32(len(m))}
}

// callSize is the call header of rdma: positions of read chunks count it.
func (h *handMade) callSize() uint32 {
	return uint32((&xdr.CallHeader{Cred: h.cred}).Size())
}

// rdma sends an NFS call with chunk lists and returns both headers and the results.
func (h *handMade) rdma(proc nfs3.Proc, lists chunks.Lists, args []byte) (rpcrdma.Header, xdr.ReplyHeader, []byte) {
	h.Helper()
	hd := rpcrdma.Header{XID: 77, Vers: 1, Credit: 4, Lists: lists}
	call := xdr.CallHeader{XID: 77, RPCVers: 2, Prog: nfs3.Program, Vers: nfs3.Version, Proc: uint32(proc), Cred: h.cred}
	noErr(h, h.conn.Send(h.Context(), append(xdr.AppendCall(hd.Append(nil), &call), args...)))
	m := must(h.conn.Recv(h.Context()))(h)
	var got rpcrdma.Header
	n, err := got.Decode(m.Data, nil)
	if err != nil || got.XID != 77 {
		h.Fatalf("answer %+v, %v", got, err)
	}
	var r xdr.ReplyHeader
	if got.Type != rpcrdma.MsgTypeMsg {
		return got, r, nil
	}
	d := xdr.NewDecoder(m.Data[n:])
	noErr(h, r.Parse(&d))
	return got, r, d.Rest()
}

func readAt(pos uint32, s ...chunks.Segment) chunks.Lists {
	var l chunks.Lists
	for _, v := range s {
		l.Read = append(l.Read, chunks.ReadSegment{Position: pos, Segment: v})
	}
	return l
}
