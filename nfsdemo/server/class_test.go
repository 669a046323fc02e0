package server_test

import (
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// TestChanges: a call changes the files and directories whose handles it has, and nothing else, so that it waits for no
// other (rpc.Traits).
func TestChanges(t *testing.T) {
	s := must(server.New(&server.Config{Exports: []server.Export{{Path: "/", FS: mem.New(nil)}}}))(t)
	handle := func(h string) []byte { return xdr.AppendOpaque(nil, []byte(h)) }
	changes := func(proc nfs3.Proc, args []byte) [2]uint64 {
		req := &rpc.Request{Args: args}
		req.Prog, req.Vers, req.Proc = nfs3.Program, nfs3.Version, uint32(proc)
		return s.Describe(req).Changes
	}
	a, b := changes(nfs3.ProcSetAttr, handle("a"))[0], changes(nfs3.ProcSetAttr, handle("b"))[0]
	if a == 0 || b == 0 || a == b {
		t.Fatalf("objects %d and %d", a, b)
	}
	rename := append(append(append(handle("a"), handle("name")...), handle("b")...), handle("name")...)
	for _, x := range []struct {
		proc nfs3.Proc
		args []byte
		want [2]uint64
	}{
		{nfs3.ProcWrite, append(handle("a"), make([]byte, 20)...), [2]uint64{a, 0}},
		{nfs3.ProcRemove, append(handle("a"), handle("b")...), [2]uint64{a, 0}},
		{nfs3.ProcCreate, append(handle("b"), handle("a")...), [2]uint64{b, 0}},
		{nfs3.ProcRename, rename, [2]uint64{a, b}},
		{nfs3.ProcLink, append(append(handle("a"), handle("b")...), handle("name")...), [2]uint64{a, b}},
		{nfs3.ProcSetAttr, nil, [2]uint64{}},
	} {
		if got := changes(x.proc, x.args); got != x.want {
			t.Errorf("%v: %v, want %v", x.proc, got, x.want)
		}
	}
}
