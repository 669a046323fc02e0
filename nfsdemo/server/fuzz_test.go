package server_test

import (
	"context"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// fuzzServer serves memory with a few files in it, small enough to be made for every input.
func fuzzServer(t testing.TB) (*server.Server, nfs3.FileHandle, nfs3.FileHandle) {
	fsys := mem.New(&mem.Config{Capacity: 1 << 20, MaxFiles: 64})
	s, err := server.New(&server.Config{Exports: []server.Export{{Path: "/export", FS: fsys, Squash: server.SquashNone}}, MaxIO: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	f, _, err := fsys.Root().Create("file", &backend.Init{})
	if err != nil {
		t.Fatal(err)
	}
	return s, s.FirstHandle(fsys.Root()), s.FirstHandle(f)
}

// answer feeds one message and checks that the reply, if any, is whole: an accepted call has
// results that parse to the last octet, and no handler panicked.
func answer(t *testing.T, s *server.Server, msg []byte) {
	out, ok := rpc.ServeMessage(context.Background(), s, testAddr, msg, nil)
	if !ok {
		return
	}
	d := xdr.NewDecoder(out)
	var h xdr.ReplyHeader
	if err := h.Parse(&d); err != nil {
		t.Fatalf("reply %x: %v", out, err)
	}
	if h.Accept == xdr.SystemErr {
		t.Fatal("the handler panicked")
	}
	if h.Err() != nil {
		return
	}
	var call xdr.CallHeader
	cd := xdr.NewDecoder(msg)
	noErr(t, call.Parse(&cd))
	res := nfs3.Proc(call.Proc).NewRes()
	if call.Prog == mount3.Program {
		res = mount3.Proc(call.Proc).NewRes()
	}
	if call.Proc == 0 {
		res = &nfs3.Void{}
	}
	if err := xdr.Decode(&d, res).Err(); err != nil || d.Len() != 0 {
		t.Fatalf("results of %v: %v, %d octets left over", call.Proc, err, d.Len())
	}
	if r, ok := res.(nfs3.Result); ok && !server.May(nfs3.Proc(call.Proc), *r.Stat()) {
		t.Fatalf("%v must not answer %v", nfs3.Proc(call.Proc), *r.Stat())
	}
}

// FuzzServer feeds whole RPC messages.
func FuzzServer(f *testing.F) {
	head := func(prog, proc uint32) []byte {
		return xdr.AppendCall(nil, &xdr.CallHeader{XID: 1, RPCVers: 2, Prog: prog, Vers: 3, Proc: proc, Cred: sys(0, 0)})
	}
	for p := range uint32(nfs3.ProcCount) {
		f.Add(append(head(nfs3.Program, p), 0, 0, 0, 4, 1, 2, 3, 4))
	}
	for p := range uint32(mount3.ProcCount) {
		f.Add(append(head(mount3.Program, p), 0, 0, 0, 2, '/', 'e', 0, 0))
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		s, _, _ := fuzzServer(t)
		answer(t, s, msg)
	})
}

// FuzzCalls feeds a list of calls to one server: procedure, which handle, and the octets
// behind the handle, so that most of them get past the first check.
func FuzzCalls(f *testing.F) {
	f.Add([]byte("\x08\x00\x00\x00\x00\x04name\x00\x00\x00\x00"))
	for p := byte(1); p < nfs3.ProcCount; p++ {
		f.Add([]byte{p, 0, 32, 0, 0, 0, 4, 'f', 'i', 'l', 'e', 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1})
		f.Add([]byte{p, 1, 28, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		s, root, file := fuzzServer(t)
		for calls := 0; len(script) >= 3 && calls < 32; calls++ {
			proc, which, n := script[0]%nfs3.ProcCount, script[1], int(script[2])
			script = script[3:]
			n = min(n, len(script))
			h := [...]nfs3.FileHandle{root, file, root[:7], nil}[which%4]
			msg := xdr.AppendCall(nil, &xdr.CallHeader{
				XID: 1, RPCVers: 2, Prog: nfs3.Program, Vers: 3, Proc: uint32(proc), Cred: sys(uint32(which/4%2), 0),
			})
			answer(t, s, append(xdr.AppendOpaque(msg, h), script[:n]...))
			script = script[n:]
		}
	})
}

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
