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
	noErr(t, err)
	f, _, err := fsys.Root().Create("file", &backend.Init{})
	noErr(t, err)
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
