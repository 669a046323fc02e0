package nfsclient_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// fake is a rpc.Caller with an NFS server in memory behind it, that can be
// told to misbehave. Its files are kept by number; a handle is the number.
type fake struct {
	mu    sync.Mutex
	files []*fakeFile // by number; 0 is the root
	calls map[nfs3.Proc]int
	now   int // calls in progress
	most  int

	exports   []string       // nil: EXPORT is refused
	cutExport bool           // the refusal ends too early
	mountDirs []string       // what MNT accepts
	roots     map[string]int // the files that MNT hands out for them; 0 for others
	place     bool           // place READ data in the Sink
	maxIO     int            // most octets of one READ or WRITE
	noPlus    bool           // READDIRPLUS is not supported
	bare      bool           // optional handles and attributes are left out
	page      int            // most entries of one READDIR
	verf      nfs3.WriteVerf
	pending   map[int][]byte // content before uncommitted writes
	hook      func(proc nfs3.Proc, nth int) nfs3.Status
	gate      chan struct{} // if not nil, READ and WRITE wait for it
	closed    bool
}

// fakeFile is a file of a fake.
type fakeFile struct {
	attr    nfs3.Attr
	data    []byte
	target  string
	names   []string // of a directory, in order
	entries map[string]int
}

// newFake returns a server with an empty root.
func newFake() *fake {
	f := &fake{calls: map[nfs3.Proc]int{}, pending: map[int][]byte{}, place: true, maxIO: 1 << 20, page: 1000}
	f.add(nfs3.TypeDir)
	return f
}

func (f *fake) add(t nfs3.FileType) int {
	n := &fakeFile{attr: nfs3.Attr{Type: t, Mode: 0o644, Nlink: 1, FileID: uint64(len(f.files) + 1)}, entries: map[string]int{}}
	f.files = append(f.files, n)
	return len(f.files) - 1
}

// put makes a file in the root, or in the directory that p names.
func (f *fake) put(p string, t nfs3.FileType, data []byte) int {
	dir := f.files[0]
	for _, name := range strings.FieldsFunc(path.Dir(p), func(c rune) bool { return c == '/' || c == '.' }) {
		dir = f.files[dir.entries[name]]
	}
	i := f.add(t)
	f.files[i].data, f.files[i].target = data, string(data)
	f.files[i].attr.Size = uint64(len(data))
	dir.link(path.Base(p), i)
	return i
}

func (n *fakeFile) link(name string, i int) {
	if _, ok := n.entries[name]; !ok {
		n.names = append(n.names, name)
	}
	n.entries[name] = i
}

func (n *fakeFile) unlink(name string) {
	delete(n.entries, name)
	n.names = slices.DeleteFunc(n.names, func(s string) bool { return s == name })
}

func handleOf(i int) nfs3.FileHandle { return binary.BigEndian.AppendUint64(nil, uint64(i)) }

func (f *fake) file(h nfs3.FileHandle) (*fakeFile, int) {
	i := int(binary.BigEndian.Uint64(h))
	return f.files[i], i
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
	gate := f.gate
	f.mu.Unlock()
	proc := nfs3.Proc(call.Proc)
	if gate != nil && (proc == nfs3.ProcRead || proc == nfs3.ProcWrite) {
		<-gate
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now--
	if f.closed {
		return net.ErrClosed
	}
	args := slices.Concat(call.Args[:len(call.Args)], nil)
	if call.Item != nil {
		args = slices.Concat(call.Args[:call.ItemPos], call.Item, make([]byte, xdr.Pad(len(call.Item))), call.Args[call.ItemPos:])
	}
	d := xdr.NewDecoder(args)
	switch call.Prog {
	case mount3.Program:
		return f.mount(mount3.Proc(call.Proc), &d, reply)
	case nfs3.Program:
		return f.nfs(proc, call, &d, reply)
	}
	reply.Header.Accept = xdr.ProgUnavail
	return nil
}

// mount answers MOUNT.
func (f *fake) mount(proc mount3.Proc, d *xdr.Decoder, reply *rpc.Reply) error {
	if f.mountDirs == nil {
		reply.Header.Accept = xdr.ProgUnavail
		return nil
	}
	switch proc {
	case mount3.ProcNull:
	case mount3.ProcExport:
		if f.cutExport {
			return &rpc.RPCError{Reason: rpc.ReasonBadReply}
		}
		if f.exports == nil {
			reply.Header.Accept = xdr.ProcUnavail
			return nil
		}
		var res mount3.ExportRes
		for _, e := range f.exports {
			res.Exports = append(res.Exports, mount3.Export{Dir: e})
		}
		reply.Results = xdr.Encode(nil, &res)
	case mount3.ProcMnt:
		var args mount3.PathArgs
		if err := xdr.Decode(d, &args).Err(); err != nil {
			return err
		}
		res := mount3.MountRes{Status: mount3.ErrNoEnt}
		if slices.Contains(f.mountDirs, args.Path) {
			res = mount3.MountRes{Handle: handleOf(f.roots[args.Path]), Flavors: []xdr.AuthFlavor{xdr.AuthSys}}
		}
		reply.Results = xdr.Encode(nil, &res)
	default:
		reply.Header.Accept = xdr.ProcUnavail
	}
	return nil
}

// nfs answers NFS.
func (f *fake) nfs(proc nfs3.Proc, call *rpc.Call, d *xdr.Decoder, reply *rpc.Reply) error {
	f.calls[proc]++
	if proc == nfs3.ProcNull {
		return nil
	}
	args := proc.NewArgs()
	if err := xdr.Decode(d, args).Err(); err != nil {
		return err
	}
	if f.hook != nil {
		if s := uint32(f.hook(proc, f.calls[proc])); s != 0 {
			reply.Results = append(xdr.AppendUint32(nil, s), make([]byte, 16)...)
			return nil
		}
	}
	res, err := f.exec(proc, args)
	if err != nil {
		return err
	}
	b := xdr.Encode(nil, res)
	pos, n, ok := chunks.NFSv3.FindResult(call.Prog, call.Vers, call.Proc, b)
	if reply.Results = b; ok && call.Sink != nil {
		reply.Results, reply.Item = b[:pos], b[pos:pos+n]
		if reply.Placed = f.place; f.place {
			reply.Item = call.Sink[:copy(call.Sink, reply.Item)]
		}
	}
	return nil
}

// exec runs one procedure.
func (f *fake) exec(proc nfs3.Proc, args xdr.Message) (xdr.Message, error) {
	switch a := args.(type) {
	case *nfs3.HandleArgs:
		return f.query(proc, a), nil
	case *nfs3.DirOpArgs:
		return f.name(proc, a), nil
	case *nfs3.ReadArgs:
		return f.read(a), nil
	case *nfs3.WriteArgs:
		return f.write(a), nil
	case *nfs3.CommitArgs:
		_, i := f.file(a.Handle)
		delete(f.pending, i)
		return &nfs3.CommitRes{Verf: f.verf}, nil
	case *nfs3.CreateArgs:
		return f.make(&a.Where, nfs3.TypeReg, "", a.Mode == nfs3.Guarded), nil
	case *nfs3.MkdirArgs:
		return f.make(&a.Where, nfs3.TypeDir, "", true), nil
	case *nfs3.SymlinkArgs:
		return f.make(&a.Where, nfs3.TypeLnk, a.Path, true), nil
	case *nfs3.RenameArgs:
		from, _ := f.file(a.From.Dir)
		to, _ := f.file(a.To.Dir)
		i, ok := from.entries[a.From.Name]
		if !ok {
			return &nfs3.RenameRes{Status: nfs3.ErrNoEnt}, nil
		}
		from.unlink(a.From.Name)
		to.link(a.To.Name, i)
		return &nfs3.RenameRes{}, nil
	case *nfs3.ReadDirArgs:
		return f.readDir(a), nil
	case *nfs3.ReadDirPlusArgs:
		return f.readDirPlus(a), nil
	}
	return nil, errors.New("the fake does not know " + proc.String())
}

func (f *fake) query(proc nfs3.Proc, a *nfs3.HandleArgs) xdr.Message {
	n, _ := f.file(a.Handle)
	switch proc {
	case nfs3.ProcGetAttr:
		return &nfs3.GetAttrRes{Attr: n.attr}
	case nfs3.ProcReadLink:
		return &nfs3.ReadLinkRes{Path: n.target}
	case nfs3.ProcFSStat:
		return &nfs3.FSStatRes{TotalBytes: 100, AvailBytes: 40}
	default:
		m := uint32(1 << 20)
		return &nfs3.FSInfoRes{RTMax: m, RTPref: m, WTMax: m, WTPref: m, DTPref: 1 << 16}
	}
}

func (f *fake) name(proc nfs3.Proc, a *nfs3.DirOpArgs) xdr.Message {
	dir, _ := f.file(a.Dir)
	i, ok := dir.entries[a.Name]
	if proc == nfs3.ProcLookup {
		if !ok {
			return &nfs3.LookupRes{Status: nfs3.ErrNoEnt}
		}
		res := &nfs3.LookupRes{Handle: handleOf(i)}
		if !f.bare {
			res.Attr = nfs3.SomeAttr(&f.files[i].attr)
		}
		return res
	}
	if !ok {
		return &nfs3.RemoveRes{Status: nfs3.ErrNoEnt}
	}
	if proc == nfs3.ProcRmdir && len(f.files[i].names) > 0 {
		return &nfs3.RmdirRes{Status: nfs3.ErrNotEmpty}
	}
	dir.unlink(a.Name)
	return &nfs3.RemoveRes{}
}

func (f *fake) read(a *nfs3.ReadArgs) xdr.Message {
	n, _ := f.file(a.Handle)
	from := min(int(a.Offset), len(n.data))
	to := min(from+min(int(a.Count), f.maxIO), len(n.data))
	return &nfs3.ReadRes{Count: uint32(to - from), EOF: to == len(n.data), Data: n.data[from:to]}
}

func (f *fake) write(a *nfs3.WriteArgs) xdr.Message {
	n, i := f.file(a.Handle)
	if a.Stable == nfs3.Unstable && f.pending[i] == nil {
		f.pending[i] = slices.Concat([]byte{}, n.data)
	}
	data := a.Data[:min(len(a.Data), f.maxIO)]
	if end := int(a.Offset) + len(data); end > len(n.data) {
		n.data = append(n.data, make([]byte, end-len(n.data))...)
	}
	copy(n.data[a.Offset:], data)
	n.attr.Size = uint64(len(n.data))
	return &nfs3.WriteRes{Count: uint32(len(data)), Committed: a.Stable, Verf: f.verf}
}

// reboot loses the data that were not committed. The caller holds the lock.
func (f *fake) reboot() {
	for i, data := range f.pending {
		f.files[i].data = data
	}
	clear(f.pending)
	f.verf[7]++
}

func (f *fake) make(where *nfs3.DirOpArgs, t nfs3.FileType, target string, excl bool) xdr.Message {
	dir, _ := f.file(where.Dir)
	i, ok := dir.entries[where.Name]
	switch {
	case ok && excl:
		return &nfs3.NewRes{Status: nfs3.ErrExist}
	case ok:
		f.files[i].data, f.files[i].attr.Size = nil, 0
	default:
		i = f.add(t)
		f.files[i].target = target
		dir.link(where.Name, i)
	}
	if f.bare {
		return &nfs3.NewRes{}
	}
	return &nfs3.NewRes{Handle: nfs3.SomeHandle(handleOf(i)), Attr: nfs3.SomeAttr(&f.files[i].attr)}
}

func (f *fake) readDir(a *nfs3.ReadDirArgs) xdr.Message {
	n, _ := f.file(a.Dir)
	res := &nfs3.ReadDirRes{EOF: true}
	for k, name := range append([]string{".", ".."}, n.names...) {
		if uint64(k) < a.Cookie {
			continue
		}
		if len(res.Entries) == f.page {
			res.EOF = false
			break
		}
		res.Entries = append(res.Entries, nfs3.DirEntry{FileID: uint64(k + 1), Name: name, Cookie: uint64(k + 1)})
	}
	return res
}

func (f *fake) readDirPlus(a *nfs3.ReadDirPlusArgs) xdr.Message {
	if f.noPlus {
		return &nfs3.ReadDirPlusRes{Status: nfs3.ErrNotSupp}
	}
	n, _ := f.file(a.Dir)
	plain, _ := f.readDir(&nfs3.ReadDirArgs{Dir: a.Dir, Cookie: a.Cookie}).(*nfs3.ReadDirRes)
	res := &nfs3.ReadDirPlusRes{EOF: plain.EOF}
	for _, e := range plain.Entries {
		p := nfs3.DirPlusEntry{DirEntry: e}
		if i, ok := n.entries[e.Name]; ok && !f.bare {
			p.Attr, p.Handle = nfs3.SomeAttr(&f.files[i].attr), nfs3.SomeHandle(handleOf(i))
		}
		res.Entries = append(res.Entries, p)
	}
	return res
}

// client returns a client of the fake, whose root is at /export.
func (f *fake) client(t *testing.T, cfg *nfsclient.Config) *nfsclient.Client {
	t.Helper()
	c := must(nfsclient.New(t.Context(), f, handleOf(0), "/export", cfg))(t)
	return c
}

// count returns how often a procedure was called.
func (f *fake) count(p nfs3.Proc) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[p]
}
