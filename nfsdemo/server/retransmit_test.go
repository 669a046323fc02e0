package server_test

import (
	"context"
	"encoding/binary"
	"net"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// exchange sends a call on a connection of its own, from an address of this machine, and returns the reply.
func exchange(t *testing.T, from, addr string, msg []byte) []byte {
	t.Helper()
	c := must((&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext(t.Context(), "tcp", addr))(t)
	defer c.Close()
	must(c.Write(append(xdr.AppendRecordMark(nil, len(msg), true), msg...)))(t)
	if err := c.(*net.TCPConn).CloseWrite(); err != nil { // it still waits for the reply
		t.Fatal(err)
	}
	rec := must(xdr.NewRecordReader(c, 1<<20).Next(nil))(t)
	return rec
}

// overTCP serves a handler until the test ends.
func overTCP(t *testing.T, s *transport.Server, h rpc.Handler) (addr string) {
	t.Helper()
	l := must(net.Listen("tcp4", "127.0.0.1:0"))(t)
	served := make(chan error, 1)
	go func() { served <- s.ServeStreamHandler(l, h) }()
	t.Cleanup(func() { _ = s.Close(); <-served })
	return l.Addr().String()
}

// TestOtherClient: nobody gets the reply to a call of another client, which differs in one group, or calls from another
// address; and what a port refuses, since it serves other programs, is no reply of the port that serves it.
func TestOtherClient(t *testing.T) {
	h := newServer(t, mem.New(nil))
	root := newPeer(t, h, sys(0, 0))
	dir := root.mkdir(root.root, "d", 0o770)
	setattr(root, dir, nfs3.SetAttr{SetGID: true, GID: 100}, nfs3.OK)
	s := &transport.Server{Handler: h}
	addr := overTCP(t, s, h)
	nothing := overTCP(t, s, rpc.HandlerFunc(func(_ context.Context, _ *rpc.Request, resp *rpc.Response) { resp.Stat = xdr.ProgUnavail }))
	for _, x := range []struct {
		what, from, addr string
		group            uint32
		want             nfs3.Status
	}{
		{"a port without NFS", "127.0.0.1", nothing, 100, nfs3.Status(xdr.ProgUnavail)},
		{"a member of the group", "127.0.0.1", addr, 100, nfs3.OK},
		{"once more", "127.0.0.1", addr, 100, nfs3.OK},
		{"a stranger", "127.0.0.1", addr, 101, nfs3.ErrAcces},
		{"another address", "127.0.0.2", addr, 100, nfs3.ErrExist},
	} {
		msg := xdr.AppendCall(nil, &xdr.CallHeader{
			XID: 1, RPCVers: 2, Prog: nfs3.Program, Vers: nfs3.Version, Proc: uint32(nfs3.ProcCreate), Cred: sys(1000, 1000, 4, x.group),
		})
		reply := exchange(t, x.from, x.addr, xdr.Encode(msg, &nfs3.CreateArgs{Where: nfs3.DirOpArgs{Dir: dir, Name: "f"}, Mode: nfs3.Guarded}))
		at := 24 // the status, behind the header of an accepted call
		if x.addr == nothing {
			at = 20
		}
		if got := nfs3.Status(binary.BigEndian.Uint32(reply[at:])); got != x.want {
			t.Errorf("%s: %v, want %v", x.what, got, x.want)
		}
	}
	if st := s.Stats(); st.Replayed != 1 || st.DRCEntries != 3 {
		t.Errorf("%+v", st)
	}
}
