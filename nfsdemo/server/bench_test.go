package server_test

import (
	"context"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// BenchmarkCalls measures calls without a transport; the reply's data are copied once more
// than over one, into the reply message.
func BenchmarkCalls(b *testing.B) {
	for _, fsys := range []struct {
		name string
		fs   backend.FS
	}{{"mem", mem.New(nil)}, {"dir", newDir(b, nil)}} {
		s, err := server.New(&server.Config{Exports: []server.Export{{Path: "/export", FS: fsys.fs, Squash: server.SquashNone}}})
		if err != nil {
			b.Fatal(err)
		}
		n, _, err := fsys.fs.Root().Create("f", &backend.Init{})
		if err != nil {
			b.Fatal(err)
		}
		data := make([]byte, 1<<20)
		must(n.Write(data, 0, nfs3.Unstable))(b)
		h, root := s.FirstHandle(n), s.FirstHandle(fsys.fs.Root())
		for _, c := range []struct {
			proc nfs3.Proc
			args xdr.Message
			size int64
		}{
			{nfs3.ProcGetAttr, &nfs3.HandleArgs{Handle: h}, 0},
			{nfs3.ProcLookup, &nfs3.DirOpArgs{Dir: root, Name: "f"}, 0},
			{nfs3.ProcRead, &nfs3.ReadArgs{Handle: h, Count: 4096}, 4096},
			{nfs3.ProcRead, &nfs3.ReadArgs{Handle: h, Count: 1 << 20}, 1 << 20},
			{nfs3.ProcWrite, &nfs3.WriteArgs{Handle: h, Count: 1 << 20, Data: data}, 1 << 20},
		} {
			msg := xdr.AppendCall(nil, &xdr.CallHeader{RPCVers: 2, Prog: nfs3.Program, Vers: 3, Proc: uint32(c.proc), Cred: sys(0, 0)})
			msg = xdr.Encode(msg, c.args)
			out := make([]byte, 0, 2<<20)
			b.Run(fsys.name+"/"+c.proc.String()+sizeName(c.size), func(b *testing.B) {
				b.SetBytes(c.size)
				b.ReportAllocs()
				for b.Loop() {
					out, _ = rpc.ServeMessage(context.Background(), s, testAddr, msg, out[:0])
				}
			})
		}
	}
}

func sizeName(n int64) string {
	switch n {
	case 0:
		return ""
	case 4096:
		return "/4KiB"
	}
	return "/1MiB"
}
