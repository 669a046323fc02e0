package nfsclient_test

import (
	"context"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// fake is a rpc.Caller with a server in memory behind it, which does less than it could, or loses what was not committed.
type fake struct {
	fs   *mem.FS
	srv  *server.Server
	root nfs3.FileHandle

	mu    sync.Mutex
	calls map[nfs3.Proc]int
	now   int // calls in progress
	most  int

	place   bool // place READ data in the Sink
	maxIO   int  // most octets of one READ or WRITE
	noPlus  bool // READDIRPLUS is not supported
	bare    bool // optional handles and attributes are left out
	page    int  // most entries of one READDIR
	verf    nfs3.WriteVerf
	pending map[string][]byte // content before uncommitted writes, by handle
	hook    func(proc nfs3.Proc, nth int) nfs3.Status
	gate    chan struct{} // if not nil, READ and WRITE wait for it
	closed  bool
}

// newFake returns a server with an empty root.
func newFake(t testing.TB) *fake {
	f := &fake{fs: mem.New(nil), calls: map[nfs3.Proc]int{}, pending: map[string][]byte{}, place: true, maxIO: 1 << 20, page: 1000}
	f.srv = must(server.New(&server.Config{Exports: []server.Export{{Path: "/export", FS: f.fs, Squash: server.SquashNone}}}))(t)
	f.root = must(nfsclient.NewMounter(f, nfsclient.ProcessCred()).Mount(t.Context(), "/export"))(t)
	return f
}

// file finds a file by its path below the root.
func (f *fake) file(p string) backend.Node {
	n := f.fs.Root()
	for name := range strings.SplitSeq(p, "/") {
		c, _, err := n.Lookup(name)
		if err != nil {
			panic(err)
		}
		n = c
	}
	return n
}

// put makes a file of any kind, with content or a target.
func (f *fake) put(p string, typ nfs3.FileType, data []byte) {
	in := &backend.Init{Type: typ, Target: string(data), Attr: nfs3.SetAttr{SetMode: true, Mode: 0o777}}
	n, _, err := f.file(path.Dir(p)).Create(path.Base(p), in)
	if err == nil && typ == nfs3.TypeReg {
		_, err = n.Write(data, 0, nfs3.FileSync)
	}
	if err != nil {
		panic(err)
	}
}

// handle returns the handle of a file.
func (f *fake) handle(p string) nfs3.FileHandle {
	return f.file(p).AppendHandle(slices.Clone(f.root[:4])) // behind the number of the export
}

// content reads a file.
func (f *fake) content(n backend.Node) []byte {
	a, err := n.Attr()
	if err != nil {
		panic(err)
	}
	b := make([]byte, a.Size)
	if _, err := n.Read(b, 0); err != nil {
		panic(err)
	}
	return b
}

func (f *fake) data(p string) []byte { return f.content(f.file(p)) }

// node returns the file of a handle.
func (f *fake) node(h string) backend.Node {
	n, err := f.fs.Resolve(nil, []byte(h[4:]))
	if err != nil {
		panic(err)
	}
	return n
}

// reboot loses the data that were not committed. The caller holds the lock.
func (f *fake) reboot() {
	for h, data := range f.pending {
		n := f.node(h)
		_, err := n.Write(data, 0, nfs3.FileSync)
		if err := n.SetAttr(&nfs3.SetAttr{SetSize: true, Size: uint64(len(data))}); err != nil {
			panic(err)
		}
		if err != nil {
			panic(err)
		}
	}
	clear(f.pending)
	f.verf[7]++
}

// Stats implements rpc.Caller.
func (f *fake) Stats() rpc.Stats { return rpc.Stats{} }

// Close implements rpc.Caller.
func (f *fake) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}

// Do implements rpc.Caller.
func (f *fake) Do(ctx context.Context, call *rpc.Call, reply *rpc.Reply) error {
	reply.Release()
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	f.now++
	f.most = max(f.most, f.now)
	gate, proc := f.gate, nfs3.Proc(call.Proc)
	f.mu.Unlock()
	if gate != nil && (proc == nfs3.ProcRead || proc == nfs3.ProcWrite) {
		<-gate
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now--
	if f.closed {
		return net.ErrClosed
	}
	args := slices.Clone(call.Args)
	if call.Item != nil {
		args = slices.Concat(call.Args[:call.ItemPos], call.Item, make([]byte, xdr.Pad(len(call.Item))), call.Args[call.ItemPos:])
	}
	if call.Prog != nfs3.Program {
		proc = nfs3.ProcNull
	}
	f.calls[proc]++
	refused := nfs3.OK
	if f.noPlus && proc == nfs3.ProcReadDirPlus {
		refused = nfs3.ErrNotSupp
	}
	if f.hook != nil && refused == nfs3.OK {
		refused = f.hook(proc, f.calls[proc])
	}
	if refused != nfs3.OK {
		reply.Results = append(xdr.AppendUint32(nil, uint32(refused)), make([]byte, 16)...)
		return nil
	}
	args, after := f.less(proc, args)
	msg := xdr.AppendCall(nil, &xdr.CallHeader{RPCVers: xdr.RPCVersion, Prog: call.Prog, Vers: call.Vers, Proc: call.Proc, Cred: call.Cred})
	out, _ := rpc.ServeMessage(ctx, f.srv, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, append(msg, args...), nil)
	d := xdr.NewDecoder(out)
	if err := reply.Header.Parse(&d); err != nil {
		return err
	}
	reply.Results = d.Rest()
	if proc == nfs3.ProcNull {
		return nil
	}
	res := proc.NewRes()
	d = xdr.NewDecoder(reply.Results)
	if err := xdr.Decode(&d, res).Err(); err != nil {
		return err
	}
	after(res)
	reply.Results = xdr.Encode(nil, res)
	pos, n, ok := chunks.NFSv3.FindResult(call.Prog, call.Vers, call.Proc, reply.Results)
	if ok && call.Sink != nil {
		reply.Item, reply.Results = reply.Results[pos:pos+n], reply.Results[:pos]
		if reply.Placed = f.place; f.place {
			reply.Item = call.Sink[:copy(call.Sink, reply.Item)]
		}
	}
	return nil
}

// less makes arguments ask for what the fake does, and returns what makes the results those of such a server.
func (f *fake) less(proc nfs3.Proc, b []byte) (args []byte, after func(xdr.Message)) {
	if proc == nfs3.ProcNull {
		return b, nil
	}
	d, m := xdr.NewDecoder(b), proc.NewArgs()
	if err := xdr.Decode(&d, m).Err(); err != nil {
		panic(err)
	}
	stable, commit := nfs3.FileSync, ""
	switch a := m.(type) {
	case *nfs3.ReadArgs:
		a.Count = min(a.Count, uint32(f.maxIO))
	case *nfs3.WriteArgs:
		a.Data = a.Data[:min(len(a.Data), f.maxIO)]
		a.Count, stable = uint32(len(a.Data)), a.Stable
		if h := string(a.Handle); stable == nfs3.Unstable && f.pending[h] == nil {
			f.pending[h] = f.content(f.node(h))
		}
	case *nfs3.CommitArgs:
		commit = string(a.Handle)
	}
	return xdr.Encode(nil, m), func(m xdr.Message) {
		switch r := m.(type) {
		case *nfs3.WriteRes:
			r.Committed, r.Verf = stable, f.verf
		case *nfs3.CommitRes:
			delete(f.pending, commit)
			r.Verf = f.verf
		case *nfs3.LookupRes:
			r.Attr.Present = r.Attr.Present && !f.bare
		case *nfs3.NewRes:
			r.Attr.Present, r.Handle.Present = r.Attr.Present && !f.bare, r.Handle.Present && !f.bare
		case *nfs3.ReadDirRes:
			r.EOF = r.EOF && len(r.Entries) <= f.page
			r.Entries = r.Entries[:min(len(r.Entries), f.page)]
		case *nfs3.ReadDirPlusRes:
			r.EOF = r.EOF && len(r.Entries) <= f.page
			r.Entries = r.Entries[:min(len(r.Entries), f.page)]
			for i := range r.Entries {
				r.Entries[i].Attr.Present, r.Entries[i].Handle.Present = !f.bare, !f.bare
			}
		}
	}
}

// client returns a client of the fake, whose root is at /export.
func (f *fake) client(t *testing.T, cfg *nfsclient.Config) *nfsclient.Client {
	t.Helper()
	return must(nfsclient.New(t.Context(), f, f.root, "/export", cfg))(t)
}

// count returns how often a procedure was called.
func (f *fake) count(p nfs3.Proc) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[p]
}
