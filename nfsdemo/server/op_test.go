package server_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
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

// statuses are all of nfsstat3.
var statuses = []nfs3.Status{
	nfs3.OK, nfs3.ErrPerm, nfs3.ErrNoEnt, nfs3.ErrIO, nfs3.ErrNXIO, nfs3.ErrAcces, nfs3.ErrExist, nfs3.ErrXDev,
	nfs3.ErrNoDev, nfs3.ErrNotDir, nfs3.ErrIsDir, nfs3.ErrInval, nfs3.ErrFBig, nfs3.ErrNoSpc, nfs3.ErrROFS,
	nfs3.ErrMLink, nfs3.ErrNameTooLong, nfs3.ErrNotEmpty, nfs3.ErrDQuot, nfs3.ErrStale, nfs3.ErrRemote,
	nfs3.ErrBadHandle, nfs3.ErrNotSync, nfs3.ErrBadCookie, nfs3.ErrNotSupp, nfs3.ErrTooSmall,
	nfs3.ErrServerFault, nfs3.ErrBadType, nfs3.ErrJukebox,
}

// TestFit: every procedure answers any status of a backend with one of its own.
func TestFit(t *testing.T) {
	for p := nfs3.ProcGetAttr; p < nfs3.ProcCount; p++ {
		for _, s := range append(statuses, 42) {
			got := server.Fit(p, s)
			if !server.May(p, got) {
				t.Errorf("%v of %v: %v", s, p, got)
			}
			if server.May(p, s) && got != s {
				t.Errorf("%v of %v became %v", s, p, got)
			}
			if (s == nfs3.OK) != (got == nfs3.OK) {
				t.Errorf("%v of %v became %v", s, p, got)
			}
		}
	}
	for _, c := range []struct {
		p       nfs3.Proc
		s, want nfs3.Status
	}{
		{nfs3.ProcGetAttr, nfs3.ErrAcces, nfs3.ErrIO},
		{nfs3.ProcFSInfo, nfs3.ErrIO, nfs3.ErrServerFault},
		{nfs3.ProcCreate, nfs3.ErrPerm, nfs3.ErrAcces},
		{nfs3.ProcSetAttr, nfs3.ErrIsDir, nfs3.ErrInval},
		{nfs3.ProcRemove, nfs3.ErrIsDir, nfs3.ErrAcces},
		{nfs3.ProcMknod, nfs3.ErrPerm, nfs3.ErrPerm},
		{nfs3.ProcWrite, nfs3.ErrDQuot, nfs3.ErrDQuot},
		{nfs3.ProcRead, nfs3.ErrNoEnt, nfs3.ErrStale},
	} {
		if got := server.Fit(c.p, c.s); got != c.want {
			t.Errorf("%v of %v: %v, want %v", c.s, c.p, got, c.want)
		}
	}
}

func TestStatusOf(t *testing.T) {
	for _, c := range []struct {
		err   error
		want  nfs3.Status
		known bool
	}{
		{nil, nfs3.OK, true}, {nfs3.ErrStale, nfs3.ErrStale, true}, {fmt.Errorf("x: %w", nfs3.ErrNoSpc), nfs3.ErrNoSpc, true}, {errors.New("x"), nfs3.ErrIO, false},
	} {
		if s, known := server.StatusOf(c.err); s != c.want || known != c.known {
			t.Errorf("%v: %v, %v", c.err, s, known)
		}
	}
	for _, s := range statuses {
		if server.MountStatus(s) == 0 {
			t.Errorf("mountstat3 of %v is OK", s)
		}
	}
}

// TestOrder: refusals come in the order of RFC 5531 Section 9, each before the next is
// looked at.
func TestOrder(t *testing.T) {
	bad := []byte{0, 0, 0, 1}
	good := sys(0, 0)
	for _, c := range []struct {
		name             string
		cred             xdr.Auth
		prog, vers, proc uint32
		want             xdr.ReplyHeader
	}{
		{"bad credential, all else wrong too", xdr.Auth{Flavor: xdr.AuthSys, Body: []byte{1, 2, 3, 4}}, 1, 2, 3, xdr.ReplyHeader{Denied: true, Reject: xdr.AuthError, AuthStat: xdr.AuthBadCred}},
		{"AUTH_SHORT", xdr.Auth{Flavor: xdr.AuthShort}, nfs3.Program, 3, 0, xdr.ReplyHeader{Denied: true, Reject: xdr.AuthError, AuthStat: xdr.AuthRejectedCred}},
		{"AUTH_DH", xdr.Auth{Flavor: xdr.AuthDH}, nfs3.Program, 3, 0, xdr.ReplyHeader{Denied: true, Reject: xdr.AuthError, AuthStat: xdr.AuthBadCred}},
		{"RPCSEC_GSS", xdr.Auth{Flavor: xdr.RPCSECGSS}, nfs3.Program, 3, 0, xdr.ReplyHeader{Denied: true, Reject: xdr.AuthError, AuthStat: xdr.AuthBadCred}},
		{"unknown program", good, 1, 2, 3, xdr.ReplyHeader{Accept: xdr.ProgUnavail}},
		{"NFSACL version 2", good, nfs3.ACLProgram, 2, 1, xdr.ReplyHeader{Accept: xdr.ProgMismatch, Low: 3, High: 3}},
		{"SETACL with bad arguments", good, nfs3.ACLProgram, 3, 2, xdr.ReplyHeader{Accept: xdr.GarbageArgs}},
		{"NFS version 4", good, nfs3.Program, 4, 99, xdr.ReplyHeader{Accept: xdr.ProgMismatch, Low: 3, High: 3}},
		{"NFS version 2, NULL", good, nfs3.Program, 2, 0, xdr.ReplyHeader{Accept: xdr.ProgMismatch, Low: 3, High: 3}},
		{"MOUNT version 4", good, mount3.Program, 4, 1, xdr.ReplyHeader{Accept: xdr.ProgMismatch, Low: 1, High: 3}},
		{"NFS procedure 22", good, nfs3.Program, 3, 22, xdr.ReplyHeader{Accept: xdr.ProcUnavail}},
		{"MOUNT procedure 6", good, mount3.Program, 3, 6, xdr.ReplyHeader{Accept: xdr.ProcUnavail}},
		{"GETATTR with bad arguments", good, nfs3.Program, 3, 1, xdr.ReplyHeader{Accept: xdr.GarbageArgs}},
		{"MNT with bad arguments", good, mount3.Program, 3, 1, xdr.ReplyHeader{Accept: xdr.GarbageArgs}},
		{"UMNT with bad arguments", good, mount3.Program, 3, 3, xdr.ReplyHeader{Accept: xdr.GarbageArgs}},
		{"NFS NULL", good, nfs3.Program, 3, 0, xdr.ReplyHeader{}},
		{"NFS NULL without credential", xdr.Auth{}, nfs3.Program, 3, 0, xdr.ReplyHeader{}},
		{"MOUNT NULL", good, mount3.Program, 3, 0, xdr.ReplyHeader{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPeer(t, newServer(t, mem.New(nil)), sys(0, 0)).as(c.cred)
			h, body := p.raw(c.prog, c.vers, c.proc, bad)
			h.XID = 0
			h.Verf = xdr.Auth{}
			if got, want := h.Err(), c.want.Err(); (got == nil) != (want == nil) || got != nil && got.Error() != want.Error() {
				t.Errorf("got %v, want %v", got, want)
			}
			if len(body) != 0 {
				t.Errorf("%d octets of results", len(body))
			}
		})
	}
}

// TestGarbage: every truncation of every procedure's arguments is GARBAGE_ARGS, and octets
// behind them do not matter.
func TestGarbage(t *testing.T) {
	p := newPeer(t, newServer(t, mem.New(nil)), sys(0, 0))
	where := at(p.root, "name")
	for proc, args := range map[nfs3.Proc]xdr.Message{
		nfs3.ProcGetAttr: &nfs3.GetAttrArgs{Handle: p.root}, nfs3.ProcSetAttr: &nfs3.SetAttrArgs{Handle: p.root},
		nfs3.ProcLookup: &where, nfs3.ProcAccess: &nfs3.AccessArgs{Handle: p.root},
		nfs3.ProcReadLink: &nfs3.HandleArgs{Handle: p.root}, nfs3.ProcRead: &nfs3.ReadArgs{Handle: p.root},
		nfs3.ProcWrite: &nfs3.WriteArgs{Handle: p.root}, nfs3.ProcCreate: &nfs3.CreateArgs{Where: where, Mode: nfs3.Exclusive},
		nfs3.ProcMkdir: &nfs3.MkdirArgs{Where: where}, nfs3.ProcSymlink: &nfs3.SymlinkArgs{Where: where, Path: "x"},
		nfs3.ProcMknod: &nfs3.MknodArgs{Where: where, Type: nfs3.TypeFIFO}, nfs3.ProcRemove: &where,
		nfs3.ProcRmdir: &where, nfs3.ProcRename: &nfs3.RenameArgs{From: where, To: where},
		nfs3.ProcLink: &nfs3.LinkArgs{Handle: p.root, Link: where}, nfs3.ProcReadDir: &nfs3.ReadDirArgs{Dir: p.root},
		nfs3.ProcReadDirPlus: &nfs3.ReadDirPlusArgs{Dir: p.root}, nfs3.ProcFSStat: &nfs3.HandleArgs{Handle: p.root},
		nfs3.ProcFSInfo: &nfs3.HandleArgs{Handle: p.root}, nfs3.ProcPathConf: &nfs3.HandleArgs{Handle: p.root},
		nfs3.ProcCommit: &nfs3.CommitArgs{Handle: p.root},
	} {
		b := xdr.Encode(nil, args)
		for n := range len(b) {
			if h, body := p.raw(nfs3.Program, 3, uint32(proc), b[:n]); h.Accept != xdr.GarbageArgs || len(body) > 0 {
				t.Errorf("%v, %d of %d octets: %v", proc, n, len(b), h.Accept)
			}
		}
		h, body := p.raw(nfs3.Program, 3, uint32(proc), append(b, "more"...))
		if h.Err() != nil {
			t.Errorf("%v with octets after: %v", proc, h.Err())
		}
		d := xdr.NewDecoder(body)
		if err := xdr.Decode(&d, proc.NewRes()).Err(); err != nil || d.Len() != 0 {
			t.Errorf("%v: results: %v", proc, err)
		}
	}
}

// describe is what a server says about a call without arguments.
func describe(s *server.Server, prog, vers, proc uint32) rpc.Traits {
	return s.Describe(&rpc.Request{CallHeader: xdr.CallHeader{Prog: prog, Vers: vers, Proc: proc}})
}

// TestMayBlock: which calls may block, and which change something, so that they must run once.
func TestMayBlock(t *testing.T) {
	onMem, onDir := newServer(t, mem.New(nil)), newServer(t, newDir(t, nil))
	once := []nfs3.Proc{
		nfs3.ProcSetAttr, nfs3.ProcWrite, nfs3.ProcCreate, nfs3.ProcMkdir, nfs3.ProcSymlink, nfs3.ProcMknod,
		nfs3.ProcRemove, nfs3.ProcRmdir, nfs3.ProcRename, nfs3.ProcLink,
	}
	for proc := range uint32(nfs3.ProcCount + 1) {
		if describe(onMem, nfs3.Program, 3, proc).Once != slices.Contains(once, nfs3.Proc(proc)) || describe(onMem, nfs3.Program, 2, proc).Once {
			t.Errorf("%v: must it run once?", nfs3.Proc(proc))
		}
		large := nfs3.WriteArgs{Handle: make(nfs3.FileHandle, 8), Count: 64<<10 + 1}
		req := rpc.Request{CallHeader: xdr.CallHeader{Prog: nfs3.Program, Vers: 3, Proc: proc}, Args: xdr.Encode(nil, large.Head())}
		if onMem.Describe(&req).Lazy != (nfs3.Proc(proc) == nfs3.ProcWrite) || describe(onMem, nfs3.Program, 3, proc).Lazy {
			t.Errorf("%v: does it take its data itself?", nfs3.Proc(proc))
		}
		if describe(onMem, nfs3.Program, 3, proc).Blocks {
			t.Errorf("%v blocks although the files are in memory", nfs3.Proc(proc))
		}
	}
	for proc, want := range map[nfs3.Proc]bool{
		nfs3.ProcNull: false, nfs3.ProcGetAttr: false, nfs3.ProcLookup: false, nfs3.ProcAccess: false,
		nfs3.ProcRead: true, nfs3.ProcWrite: true, nfs3.ProcCommit: true, nfs3.ProcReadDir: true,
		nfs3.ProcRename: true, nfs3.ProcSetAttr: true, nfs3.ProcCreate: true, nfs3.ProcCount: false,
	} {
		if got := describe(onDir, nfs3.Program, 3, uint32(proc)).Blocks; got != want {
			t.Errorf("%v: %v", proc, got)
		}
	}
	if describe(onDir, 1, 1, 1).Blocks || !describe(onDir, mount3.Program, 3, 1).Blocks {
		t.Error("other programs")
	}
}

// TestMuxProgram: a third program in addition to NFS and MOUNT.
func TestMuxProgram(t *testing.T) {
	s := newServer(t, mem.New(nil))
	s.Add(server.Program{Prog: 200000, Low: 1, High: 2, Procs: 3, Serve: func(_ context.Context, c *server.Call) error {
		if c.Proc == 2 {
			c.Resp.Results = append(c.Resp.Results, 1, 2, 3, 4)
			return errors.New("garbage")
		}
		c.Resp.Results = xdr.AppendUint32(c.Resp.Results, c.Cred.UID)
		return nil
	}})
	p := newPeer(t, s, sys(77, 0))
	if h, body := p.raw(200000, 2, 1, nil); h.Err() != nil || len(body) != 4 || body[3] != 77 {
		t.Errorf("%v, %x", h.Err(), body)
	}
	if h, body := p.raw(200000, 2, 2, nil); h.Accept != xdr.GarbageArgs || len(body) != 0 {
		t.Errorf("%v, %x", h.Err(), body)
	}
	if h, _ := p.raw(200000, 3, 1, nil); h.Accept != xdr.ProgMismatch || h.Low != 1 || h.High != 2 {
		t.Errorf("%+v", h)
	}
}

var _ rpc.Handler = (*server.Server)(nil)

// sharedFS is memory as if several servers shared it. Like some databases, it keeps the mark of the call that has made a
// file beside its other attributes.
type sharedFS struct {
	*mem.FS
	found map[backend.CallID][]byte
	times map[backend.CallID]int
	twin  func(id backend.CallID)   // another server, after a call was remembered and before it runs
	made  map[uint64]backend.CallID // by file
}

func newSharedFS() *sharedFS {
	return &sharedFS{
		FS: mem.New(nil), found: make(map[backend.CallID][]byte), times: make(map[backend.CallID]int), made: make(map[uint64]backend.CallID),
	}
}

type sharedNode struct {
	backend.Node
	fs *sharedFS
}

func (f *sharedFS) Remember(_ context.Context, id backend.CallID, found []byte) ([]byte, int, error) {
	if f.times[id]++; f.times[id] == 1 {
		f.found[id] = append([]byte(nil), found...)
	}
	was, times := f.found[id], f.times[id]
	if twin := f.twin; twin != nil {
		f.twin = nil
		twin(id)
	}
	return was, times, nil
}

func (f *sharedFS) Root() backend.Node { return sharedNode{f.FS.Root(), f} }

func (f *sharedFS) Resolve(from net.Addr, h []byte) (backend.Node, error) {
	n, err := f.FS.Resolve(from, h)
	return sharedNode{n, f}, err
}

func (n sharedNode) As(who *caller.Identity) backend.Node { return sharedNode{n.Node.As(who), n.fs} }

func (n sharedNode) Lookup(name string) (backend.Node, nfs3.Attr, error) {
	c, a, err := n.Node.Lookup(name)
	return sharedNode{c, n.fs}, a, err
}

func (n sharedNode) Create(name string, in *backend.Init) (backend.Node, nfs3.Attr, error) {
	c, a, err := n.Node.Create(name, in)
	if old, b, lerr := n.Node.Lookup(name); err == nil {
		n.fs.made[a.FileID] = *in.Call
	} else if lerr == nil && n.fs.made[b.FileID] == *in.Call {
		c, a, err = old, b, nil
	}
	return sharedNode{c, n.fs}, a, err
}

func (n sharedNode) Rename(from string, to backend.Node, name string) error {
	return n.Node.Rename(from, to.(sharedNode).Node, name)
}

func (n sharedNode) Link(to backend.Node, name string) error {
	return n.Node.Link(to.(sharedNode).Node, name)
}

// TestAgain sends calls again, to another server, as a client does that has no answer from the first one. Each runs once,
// and has the same status; a new call of the same kind runs.
func TestAgain(t *testing.T) {
	fsys := newSharedFS()
	here := newPeer(t, newServer(t, fsys), sys(0, 0))
	there := newPeer(t, newServer(t, fsys), sys(0, 0))
	other := newPeer(t, there.srv, sys(7, 7))
	root := here.root
	create := func(p *peer, name string, want nfs3.Status) {
		t.Helper()
		nfs[nfs3.CreateRes](p, nfs3.ProcCreate, &nfs3.CreateArgs{Where: at(root, name), Mode: nfs3.Guarded, Attr: mode(0o644)}, want)
	}
	remove := func(p *peer, name string, want nfs3.Status) {
		t.Helper()
		nfs[nfs3.RemoveRes](p, nfs3.ProcRemove, &nfs3.RemoveArgs{Dir: root, Name: name}, want)
	}
	rename := func(p *peer, from, to string, want nfs3.Status) {
		t.Helper()
		nfs[nfs3.RenameRes](p, nfs3.ProcRename, &nfs3.RenameArgs{From: at(root, from), To: at(root, to)}, want)
	}
	link := func(p *peer, name string, want nfs3.Status) {
		t.Helper()
		nfs[nfs3.LinkRes](p, nfs3.ProcLink, &nfs3.LinkArgs{Handle: p.lookup(root, "b", nfs3.OK).Handle, Link: at(root, name)}, want)
	}
	again := func() { there.xid = here.xid - 1 }

	create(here, "a", nfs3.OK)
	again()
	create(there, "a", nfs3.OK)
	create(there, "a", nfs3.ErrExist)
	create(other, "a", nfs3.ErrExist)

	rename(here, "a", "b", nfs3.OK)
	create(other, "a", nfs3.OK) // the name is free
	again()
	rename(there, "a", "b", nfs3.OK)
	remove(here, "a", nfs3.OK)
	again()
	remove(there, "a", nfs3.OK)
	remove(there, "a", nfs3.ErrNoEnt)
	create(other, "a", nfs3.OK)
	again()
	remove(there, "a", nfs3.OK)
	remove(there, "a", nfs3.OK) // that was a new call: another file had the name

	link(here, "c", nfs3.OK)
	there.xid = here.xid - 2 // with its LOOKUP
	link(there, "c", nfs3.OK)
	link(there, "c", nfs3.ErrExist)
	if n := nfs[nfs3.GetAttrRes](here, nfs3.ProcGetAttr, &nfs3.GetAttrArgs{Handle: here.lookup(root, "b", nfs3.OK).Handle}, nfs3.OK).Attr.Nlink; n != 2 {
		t.Errorf("%d links", n)
	}
}

// TestOvertaken: while a server runs a call, the same call comes to another one, which is faster. Neither says that it has
// failed. If it was another call that was faster, it has.
func TestOvertaken(t *testing.T) {
	fsys := newSharedFS()
	here, there := newPeer(t, newServer(t, fsys), sys(0, 0)), newPeer(t, newServer(t, fsys), sys(0, 0))
	other := newPeer(t, there.srv, sys(7, 7))
	root := here.root
	var of nfs3.FileHandle // of the file of a call, and its names
	var file, name string
	made := func() nfs3.FileHandle {
		t.Helper()
		file, name = name+"f", name+"g"
		return nfs[nfs3.CreateRes](other, nfs3.ProcCreate, &nfs3.CreateArgs{Where: at(root, file), Mode: nfs3.Guarded, Attr: mode(0o666)}, nfs3.OK).Handle.Handle
	}
	for _, tt := range []struct {
		name string
		call func(p *peer, want nfs3.Status)
		lost nfs3.Status
	}{
		{"REMOVE", func(p *peer, want nfs3.Status) {
			t.Helper()
			nfs[nfs3.RemoveRes](p, nfs3.ProcRemove, &nfs3.RemoveArgs{Dir: root, Name: file}, want)
		}, nfs3.ErrNoEnt},
		{"RENAME", func(p *peer, want nfs3.Status) {
			t.Helper()
			nfs[nfs3.RenameRes](p, nfs3.ProcRename, &nfs3.RenameArgs{From: at(root, file), To: at(root, name)}, want)
		}, nfs3.ErrNoEnt},
		{"LINK", func(p *peer, want nfs3.Status) {
			t.Helper()
			nfs[nfs3.LinkRes](p, nfs3.ProcLink, &nfs3.LinkArgs{Handle: of, Link: at(root, name)}, want)
		}, nfs3.ErrExist},
	} {
		for _, twin := range []bool{true, false} {
			of = made()
			want := nfs3.OK
			if !twin {
				want = tt.lost
			}
			fsys.twin = func(backend.CallID) {
				p := other
				if twin {
					p = there
					there.xid = here.xid - 1
				}
				tt.call(p, nfs3.OK)
			}
			tt.call(here, want)
		}
	}
}

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

// canary is what the memory of replies is full of: octets of a file that others may not read.
const canary = "\xcc\xcc\xcc\xcc"

// TestNothingStaleInReplies: no reply of any procedure has octets that another reply has left in pooled memory: READs with
// holes, of files that were cut and made longer again, at their end and beyond, READLINKs, directories (RFC 5042
// Section 6.3.2).
func TestNothingStaleInReplies(t *testing.T) {
	onBoth(t, func(p *peer) {
		secret := p.create(p.root, "secret", 0o600)
		const most = 1 << 20
		for off := 0; off < most; off += 128 << 10 {
			p.write(secret, uint64(off), strings.Repeat("\xcc", 128<<10))
		}
		taint := func() {
			for _, n := range []uint32{4000, 16_000, 64_000, 130_000, 260_000, 500_000, most} {
				if r := p.read(secret, 0, n); !bytes.Contains(r.Data, []byte(canary)) {
					t.Fatal("the secret is not read")
				}
			}
		}
		clean := func(what string, proc nfs3.Proc, args xdr.Message) {
			t.Helper()
			taint()
			_, body := p.raw(nfs3.Program, nfs3.Version, uint32(proc), xdr.Encode(nil, args))
			if bytes.Contains(body, []byte(canary)) {
				t.Errorf("%v, %s: octets of another reply", proc, what)
			}
		}
		// A file that held the same octets, was cut, and has grown again with holes.
		file := p.create(p.root, "file", 0o644)
		p.write(file, 0, strings.Repeat("\xcc", 100_000))
		size := func(n uint64) {
			nfs[nfs3.SetAttrRes](p, nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Handle: file, Attr: nfs3.SetAttr{SetSize: true, Size: n}}, nfs3.OK)
		}
		size(3)
		size(700_000)
		size(650_001)
		nfs[nfs3.WriteRes](p, nfs3.ProcWrite, &nfs3.WriteArgs{Handle: file, Offset: 0, Count: 3, Data: []byte("abc")}, nfs3.OK)
		p.write(file, 300_000, "in the middle")
		rnd := rand.New(rand.NewPCG(6, 32))
		for range 40 {
			a := &nfs3.ReadArgs{Handle: file, Offset: rnd.Uint64N(700_000), Count: rnd.Uint32N(1 << uint(1+rnd.IntN(20)))}
			clean(fmt.Sprintf("%d at %d", a.Count, a.Offset), nfs3.ProcRead, a)
		}
		link := nfs[nfs3.SymlinkRes](p, nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: at(p.root, "link"), Attr: mode(0o777), Path: strings.Repeat("to/", 300)}, nfs3.OK).Handle.Handle
		h := func(h nfs3.FileHandle) *nfs3.HandleArgs { return &nfs3.HandleArgs{Handle: h} }
		look := at(p.root, "file")
		for proc, args := range map[nfs3.Proc]xdr.Message{
			nfs3.ProcReadLink: h(link), nfs3.ProcGetAttr: h(file), nfs3.ProcLookup: &look,
			nfs3.ProcAccess: &nfs3.AccessArgs{Handle: file, Access: 63}, nfs3.ProcFSStat: h(p.root), nfs3.ProcFSInfo: h(p.root), nfs3.ProcPathConf: h(p.root),
			nfs3.ProcReadDir: &nfs3.ReadDirArgs{Dir: p.root, Count: 8192}, nfs3.ProcReadDirPlus: &nfs3.ReadDirPlusArgs{Dir: p.root, DirCount: 4096, MaxCount: 32768},
			nfs3.ProcCommit: &nfs3.CommitArgs{Handle: file},
		} {
			clean("", proc, args)
		}
	})
}

// TestGuardRace: of many guarded SETATTRs with one ctime, one wins.
func TestGuardRace(t *testing.T) {
	onBoth(t, func(p *peer) {
		f := p.create(p.root, "f", 0o644)
		// Let the clock of the file system, which may be coarse, move past the creation.
		ctime := p.attr(f).Ctime
		for p.attr(f).Ctime == ctime {
			setattr(p, f, mode(0o644), nfs3.OK)
		}
		ctime = p.attr(f).Ctime
		var (
			wg  sync.WaitGroup
			mu  sync.Mutex
			won int
		)
		for range 8 {
			wg.Go(func() {
				q := *p
				var res nfs3.SetAttrRes
				args := nfs3.SetAttrArgs{Handle: f, Attr: nfs3.SetAttr{SetSize: true, Size: 1}, Guard: true, Ctime: ctime}
				q.rpc(nfs3.Program, 3, uint32(nfs3.ProcSetAttr), &args, &res)
				mu.Lock()
				defer mu.Unlock()
				if res.Status == nfs3.OK && res.Wcc.After.Attr.Ctime != ctime {
					won++
				}
			})
		}
		wg.Wait()
		if won > 1 {
			p.Errorf("%d won", won)
		}
	})
}
