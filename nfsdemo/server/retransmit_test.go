package server_test

import (
	"bytes"
	"net"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/xdr"
)

// exchange sends a call on a connection of its own and returns the reply.
func exchange(t *testing.T, addr string, msg []byte) []byte {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(append(xdr.AppendRecordMark(nil, len(msg), true), msg...)); err != nil {
		t.Fatal(err)
	}
	rec, err := xdr.NewRecordReader(c, 1<<20).Next(nil)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// TestRetransmission: a change that its client sends again, as it has lost the connection,
// is made once: the second reply is the first one, not EXIST or NOENT.
func TestRetransmission(t *testing.T) {
	h := newServer(t, mem.New(nil))
	root := newPeer(t, h, sys(0, 0)).root
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &transport.Server{Handler: h}
	served := make(chan error, 1)
	go func() { served <- s.ServeStream(l) }()
	defer func() { s.Close(); <-served }()
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
		first := exchange(t, l.Addr().String(), msg)
		if status := first[24:28]; !bytes.Equal(status, []byte{0, 0, 0, 0}) {
			t.Errorf("%v: status %x", x.proc, status)
		}
		if again := exchange(t, l.Addr().String(), msg); !bytes.Equal(again, first) {
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
