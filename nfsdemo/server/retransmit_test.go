package server_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// exchange sends a call on a connection of its own, from an address of this machine, and returns the reply.
func exchange(t *testing.T, from, addr string, msg []byte) []byte {
	t.Helper()
	c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(append(xdr.AppendRecordMark(nil, len(msg), true), msg...)); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil { // it still waits for the reply
		t.Fatal(err)
	}
	rec, err := xdr.NewRecordReader(c, 1<<20).Next(nil)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// overTCP serves a handler until the test ends.
func overTCP(t *testing.T, s *transport.Server, h rpc.Handler) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.ServeStreamHandler(l, h) }()
	t.Cleanup(func() { _ = s.Close(); <-served })
	return l.Addr().String()
}

// TestRetransmission: a change that its client sends again, as it has lost the connection,
// is made once: the second reply is the first one, not EXIST or NOENT.
func TestRetransmission(t *testing.T) {
	h := newServer(t, mem.New(nil))
	root := newPeer(t, h, sys(0, 0)).root
	s := &transport.Server{Handler: h}
	addr := overTCP(t, s, h)
	at := func(name string) nfs3.DirOpArgs { return nfs3.DirOpArgs{Dir: root, Name: name} }
	for i, x := range []struct {
		proc nfs3.Proc
		args nfs3.Message
	}{
		{nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: at("d")}},
		{nfs3.ProcCreate, &nfs3.CreateArgs{Where: at("f"), Mode: nfs3.Guarded}},
		{nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: at("s"), Path: "f"}},
		{nfs3.ProcMknod, &nfs3.MknodArgs{Where: at("p"), Type: nfs3.TypeFIFO}},
		{nfs3.ProcRename, &nfs3.RenameArgs{From: at("f"), To: at("g")}},
		{nfs3.ProcRemove, &nfs3.RemoveArgs{Dir: root, Name: "g"}},
		{nfs3.ProcRmdir, &nfs3.RmdirArgs{Dir: root, Name: "d"}},
	} {
		msg := xdr.AppendCall(nil, &xdr.CallHeader{
			XID: uint32(i), RPCVers: 2, Prog: nfs3.Program, Vers: nfs3.Version, Proc: uint32(x.proc), Cred: sys(0, 0),
		})
		msg = x.args.Append(msg)
		first := exchange(t, "127.0.0.1", addr, msg)
		if status := first[24:28]; !bytes.Equal(status, []byte{0, 0, 0, 0}) {
			t.Errorf("%v: status %x", x.proc, status)
		}
		if again := exchange(t, "127.0.0.1", addr, msg); !bytes.Equal(again, first) {
			t.Errorf("%v again: %x\nat first %x", x.proc, again, first)
		}
	}
	if st := s.Stats(); st.Replayed != 7 || st.Calls != 14 {
		t.Errorf("%+v", st)
	}
	for proc := range nfs3.Proc(nfs3.ProcCount) {
		want := false
		switch proc {
		case nfs3.ProcSetAttr, nfs3.ProcWrite, nfs3.ProcCreate, nfs3.ProcMkdir, nfs3.ProcSymlink, nfs3.ProcMknod,
			nfs3.ProcRemove, nfs3.ProcRmdir, nfs3.ProcRename, nfs3.ProcLink:
			want = true
		default:
		}
		if describe(h, nfs3.Program, 3, uint32(proc)).Once != want || describe(h, nfs3.Program, 2, uint32(proc)).Once {
			t.Errorf("%v: must run once: %v", proc, !want)
		}
	}
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
		reply := exchange(t, x.from, x.addr, (&nfs3.CreateArgs{Where: nfs3.DirOpArgs{Dir: dir, Name: "f"}, Mode: nfs3.Guarded}).Append(msg))
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

// slowNull is a server whose NULL with a credential takes as long as the test wants.
type slowNull struct {
	*server.Server
	begun, gate chan struct{}
}

func (s *slowNull) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	if req.Proc == uint32(nfs3.ProcNull) && req.Cred.Flavor != xdr.AuthNone {
		close(s.begun)
		<-s.gate
	}
	s.Server.ServeRPC(ctx, req, resp)
}

// TestLateWrite: a client gives up an RDMA connection in which a WRITE waits, connects again and writes something else
// there. The WRITE that waited is not executed when the server comes to it.
func TestLateWrite(t *testing.T) {
	h := newServer(t, mem.New(nil))
	slow := &slowNull{h, make(chan struct{}), make(chan struct{})}
	s := &transport.Server{Handler: slow, Config: &transport.Config{Reading: transport.Reading{HandlerLimit: -1}}}
	addr := overRDMA(t, s)
	old := newHandMadeAt(t, h, addr)
	f := old.create(old.root, "f", 0o644)
	write := func(data string) []byte {
		return (&nfs3.WriteArgs{Handle: f, Count: 1, Stable: nfs3.FileSync, Data: []byte(data)}).Append(nil)
	}
	old.rdma(nfs3.ProcWrite, chunks.Lists{}, write("0")) // credits
	for i, args := range [][]byte{nil, write("a")} {
		hd := rpcrdma.Header{XID: uint32(i), Vers: 1, Credit: 4}
		call := xdr.CallHeader{XID: hd.XID, RPCVers: 2, Prog: nfs3.Program, Vers: nfs3.Version, Proc: uint32([]nfs3.Proc{nfs3.ProcNull, nfs3.ProcWrite}[i]), Cred: old.cred}
		if err := old.conn.Send(t.Context(), append(xdr.AppendCall(hd.Append(nil), &call), args...)); err != nil {
			t.Fatal(err)
		}
	}
	<-slow.begun
	old.conn.Abort(nil)
	next := newHandMadeAt(t, h, addr)
	next.rdma(nfs3.ProcWrite, chunks.Lists{}, write("b"))
	close(slow.gate)
	for st := s.Stats(); st.Connections != 1 || st.InFlight != 0; st = s.Stats() {
		time.Sleep(time.Millisecond)
	}
	if r := next.read(f, 0, 9); string(r.Data) != "b" || s.Stats().Late != 1 {
		t.Errorf("the file holds %q, %+v", r.Data, s.Stats())
	}
}
