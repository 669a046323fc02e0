package nfsclient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/backendtest"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport"
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

// dialHostile returns a client of s.
func dialHostile(t *testing.T, s *backendtest.Liar, rdma bool, cfg *nfsclient.Config) *nfsclient.Client {
	t.Helper()
	u := must(nfsclient.ParseURL(s.Listen(t, rdma)))(t)
	c := must(nfsclient.Dial(t.Context(), u, cfg))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// below is the directory of a hostile server that tests remove.
func below(t *testing.T, c *nfsclient.Client) *nfsclient.Node {
	t.Helper()
	n := must(c.Child(t.Context(), c.Root(), "dir"))(t)
	return n
}

// list goes through a directory, and keeps nothing.
func list(ctx context.Context, c *nfsclient.Client, dir *nfsclient.Node) (err error) {
	for _, e := range c.Entries(ctx, dir) {
		err = e
	}
	return err
}

// TestHostileDirectories: no directory of a server keeps a client listing forever, or takes its memory.
func TestHostileDirectories(t *testing.T) {
	one := func(name string, cookie uint64) []backendtest.Entry {
		return []backendtest.Entry{{Name: name, Cookie: cookie}}
	}
	many := func(c uint64, name func(c uint64) string) []backendtest.Entry {
		all := make([]backendtest.Entry, 500)
		for i := range all {
			k := c + 1 + uint64(i)
			all[i] = backendtest.Entry{Name: name(k), Cookie: k}
		}
		return all
	}
	for _, x := range []struct {
		name         string
		page         func(cookie uint64) []backendtest.Entry
		list, remove error
	}{
		{
			"two cookies in turn", func(c uint64) []backendtest.Entry { return one("a", 1+c%2) },
			nfsclient.ErrDirLoop, nfsclient.ErrDirLoop,
		},
		{"back to an early one", func(c uint64) []backendtest.Entry {
			if c == 40 {
				return one("a", 17)
			}
			return one("a", c+1)
		}, nfsclient.ErrDirLoop, nfsclient.ErrDirLoop},
		{
			"endless", func(c uint64) []backendtest.Entry { return many(c, func(uint64) string { return "." }) }, // costs the client nothing
			nfsclient.ErrDirEndless, nfsclient.ErrDirEndless,
		},
		{
			"endless, with names", func(c uint64) []backendtest.Entry {
				return many(c, func(c uint64) string { return fmt.Sprintf("%020d", c) })
			},
			nfsclient.ErrDirEndless, nfsclient.ErrTreeEndless,
		},
		{"nothing", func(uint64) []backendtest.Entry { return nil }, nfsclient.ErrNoProgress, nfsclient.ErrNoProgress},
	} {
		for _, plus := range []bool{true, false} {
			if plus != (x.remove == nfsclient.ErrTreeEndless) && x.list == nfsclient.ErrDirEndless {
				continue // a million entries are many: names with attributes, or one LOOKUP for each, and dots without
			}
			if region.RaceDetector && x.list == nfsclient.ErrDirEndless {
				continue // a million times show it nothing new, and take it ten times as long
			}
			t.Run(fmt.Sprintf("%s plus=%v", x.name, plus), func(t *testing.T) {
				s := &backendtest.Liar{NoPlus: !plus, Page: func(c uint64) ([]backendtest.Entry, bool) { return x.page(c), false }}
				c := dialHostile(t, s, false, &nfsclient.Config{MaxTree: 10000})
				backendtest.Live(t, 64<<20, func() {
					if err := list(t.Context(), c, c.Root()); !errors.Is(err, x.list) {
						t.Errorf("Entries: %v, want %v", err, x.list)
					}
				})
				backendtest.Live(t, 64<<20, func() {
					if _, err := c.RemoveAll(t.Context(), c.Root(), below(t, c)); !errors.Is(err, x.remove) {
						t.Errorf("RemoveAll: %v, want %v", err, x.remove)
					}
				})
			})
		}
	}
}

// TestHostileReadDir: a directory that ReadDir cannot collect in 64 MiB is refused.
func TestHostileReadDir(t *testing.T) {
	s := &backendtest.Liar{Page: func(c uint64) ([]backendtest.Entry, bool) {
		all := make([]backendtest.Entry, 100)
		for i := range all {
			k := c + 1 + uint64(i)
			all[i] = backendtest.Entry{Name: fmt.Sprintf("%0250d", k), Cookie: k}
		}
		return all, false
	}}
	c := dialHostile(t, s, false, nil)
	backendtest.Live(t, 192<<20, func() {
		if _, err := c.ReadDir(t.Context(), c.Root()); !errors.Is(err, nfsclient.ErrDirLarge) {
			t.Error(err)
		}
	})
}

// cutting is a Caller that answers the READs of the second block late: with an error, or with less than a block
// and the end of the file, though later blocks were answered.
type cutting struct {
	rpc.Caller
	later chan struct{} // closed when a later block was answered
	fails bool
}

func (c *cutting) Do(ctx context.Context, call *rpc.Call, reply *rpc.Reply) error {
	if call.Prog != nfs3.Program || nfs3.Proc(call.Proc) != nfs3.ProcRead {
		return c.Caller.Do(ctx, call, reply)
	}
	var a nfs3.ReadArgs
	d := xdr.NewDecoder(call.Args)
	if err := xdr.Decode(&d, &a).Err(); err != nil {
		return err
	}
	res := nfs3.ReadRes{Data: make([]byte, a.Count), Count: a.Count}
	switch a.Offset {
	case 4096:
		<-c.later
		time.Sleep(10 * time.Millisecond) // until its data wait for their turn
		if c.fails {
			return errors.New("this READ fails")
		}
		res = nfs3.ReadRes{Data: make([]byte, 100), Count: 100, EOF: true}
	case 8192:
		defer close(c.later)
	}
	reply.Results, reply.Item = xdr.AppendUint32(xdr.Encode(nil, res.Head()), uint32(len(res.Data))), res.Data
	return nil
}

// TestHostileCut: data that wait for their turn in a pipe do not wait for octets that never come, because their
// READ has failed, or because the file was truncated meanwhile.
func TestHostileCut(t *testing.T) {
	for _, fails := range []bool{true, false} {
		t.Run(fmt.Sprintf("fails=%v", fails), func(t *testing.T) {
			s := &backendtest.Liar{Page: func(uint64) ([]backendtest.Entry, bool) { return nil, true }}
			u := must(nfsclient.ParseURL(s.Listen(t, false)))(t)
			stream := must(transport.DialStream(t.Context(), "tcp", u.Addr(), nil))(t)
			c, err := nfsclient.New(t.Context(), &cutting{Caller: stream, later: make(chan struct{}), fails: fails}, []byte{1}, "/", &nfsclient.Config{MaxBlock: 4096, InFlight: 3})
			noErr(t, err)
			defer c.Close()
			n := &nfsclient.Node{Path: "/file", FH: []byte{2}, Attr: nfs3.Attr{Type: nfs3.TypeReg, Size: 3 * 4096}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var out bytes.Buffer
			w := nfsclient.NewOrderedWriter(ctx, &out, 0)
			defer w.Close()
			got, err := c.ReadTo(ctx, n, w, 0, nil)
			if fails && (err == nil || ctx.Err() != nil) || !fails && (err != nil || got != 4196 || out.Len() != 4196) {
				t.Errorf("%d octets of %d: %v", out.Len(), got, err)
			}
		})
	}
}

// TestHostileCrumbs: a server that moves one octet with each READ and WRITE does not keep a copy going without end.
func TestHostileCrumbs(t *testing.T) {
	s := &backendtest.Liar{Page: func(uint64) ([]backendtest.Entry, bool) { return []backendtest.Entry{{Name: "f", Cookie: 1}}, true }, Crumbs: true}
	c := dialHostile(t, s, false, nil)
	n := must(c.Child(t.Context(), c.Root(), "f"))(t)
	buf := make([]byte, 100_000)
	for what, move := range map[string]func() error{
		"ReadTo": func() error { _, err := c.ReadTo(t.Context(), n, nfsclient.Memory(buf), 0, nil); return err },
		"ReadAt": func() error { _, err := c.ReadAt(t.Context(), n, buf, 0); return err },
		"WriteFrom": func() error {
			_, err := c.WriteFrom(t.Context(), n, bytes.NewReader(buf), 0, int64(len(buf)), nil)
			return err
		},
		"WriteAt": func() error { _, _, err := c.WriteAt(t.Context(), n, buf, 0, nfs3.FileSync); return err },
	} {
		if err := move(); !errors.Is(err, nfsclient.ErrNoProgress) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
