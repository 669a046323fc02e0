package server_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stag-rdma/stag/internal/pmemsim"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/internal/once"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// crasher is the server of one life. It notes what the journal's memory is sure to hold
// before and after each covered call is executed.
type crasher struct {
	*server.Server
	sim           *pmemsim.Sim
	skip          bool // does not execute: the life ends before
	before, after []byte
}

func (c *crasher) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	c.before = c.sim.Snapshot().Durable()
	if c.skip {
		resp.Stat = xdr.SystemErr
		return
	}
	c.Server.ServeRPC(ctx, req, resp)
	c.after = c.sim.Snapshot().Durable()
}

// life is a server over a directory, from one start to a crash.
type life struct {
	*peer
	j *once.Journal
	h *once.Handler
	c *crasher
}

// newImage returns the octets of an empty journal.
func newImage(t testing.TB) []byte {
	t.Helper()
	sim := pmemsim.New(1<<19, nil)
	if err := once.Create(sim); err != nil {
		t.Fatal(err)
	}
	return sim.Snapshot().Durable()
}

// begin starts a life with what the last one left.
func begin(t *testing.T, fsys backend.FS, image []byte) *life {
	t.Helper()
	s := newServer(t, fsys)
	c := &crasher{Server: s, sim: pmemsim.Open(image, nil)}
	j, err := once.Open(c.sim, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close(context.Background()) })
	h, err := once.New(context.Background(), j, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &life{peer: newPeer(t, s, sys(0, 0)), j: j, h: h, c: c}
}

// send sends a call with an XID and returns the reply and its status.
func (l *life) send(xid uint32, proc nfs3.Proc, args nfs3.Message) ([]byte, nfs3.Status) {
	l.Helper()
	msg := xdr.AppendCall(nil, &xdr.CallHeader{
		XID: xid, RPCVers: 2, Prog: nfs3.Program, Vers: nfs3.Version, Proc: uint32(proc), Cred: l.cred,
	})
	out, ok := rpc.ServeMessage(context.Background(), l.h, l.addr, args.Append(msg), nil)
	if !ok || len(out) < 28 {
		return out, nfs3.ErrServerFault
	}
	d := xdr.NewDecoder(out[24:])
	return out, nfs3.Status(d.Uint32())
}

// changing calls, on a tree of f (a file), d (an empty directory) and g (another file).
var onceCases = []struct {
	name string
	proc nfs3.Proc
	args func(t tree) nfs3.Message
	none bool // executed or not looks the same
}{
	{"REMOVE", nfs3.ProcRemove, func(t tree) nfs3.Message { return &nfs3.RemoveArgs{Dir: t.root, Name: "f"} }, false},
	{"RMDIR", nfs3.ProcRmdir, func(t tree) nfs3.Message { return &nfs3.RmdirArgs{Dir: t.root, Name: "d"} }, false},
	{"RENAME", nfs3.ProcRename, func(t tree) nfs3.Message { return &nfs3.RenameArgs{From: at(t.root, "f"), To: at(t.root, "n")} }, false},
	{"RENAME over", nfs3.ProcRename, func(t tree) nfs3.Message { return &nfs3.RenameArgs{From: at(t.root, "f"), To: at(t.root, "g")} }, false},
	{"RENAME away", nfs3.ProcRename, func(t tree) nfs3.Message { return &nfs3.RenameArgs{From: at(t.root, "f"), To: at(t.d, "n")} }, false},
	{"LINK", nfs3.ProcLink, func(t tree) nfs3.Message { return &nfs3.LinkArgs{Handle: t.f, Link: at(t.d, "n")} }, false},
	{"CREATE guarded", nfs3.ProcCreate, func(t tree) nfs3.Message {
		return &nfs3.CreateArgs{Where: at(t.root, "n"), Mode: nfs3.Guarded, Attr: mode(0o640)}
	}, false},
	{"CREATE unchecked", nfs3.ProcCreate, func(t tree) nfs3.Message {
		return &nfs3.CreateArgs{Where: at(t.root, "n"), Mode: nfs3.Unchecked, Attr: mode(0o640)}
	}, false},
	{"CREATE exclusive", nfs3.ProcCreate, func(t tree) nfs3.Message {
		return &nfs3.CreateArgs{Where: at(t.root, "n"), Mode: nfs3.Exclusive, Verf: nfs3.CreateVerf{1, 2, 3}}
	}, false},
	{"CREATE that cuts", nfs3.ProcCreate, func(t tree) nfs3.Message {
		return &nfs3.CreateArgs{Where: at(t.root, "f"), Mode: nfs3.Unchecked, Attr: nfs3.SetAttr{SetSize: true, Size: 2}}
	}, false},
	{"CREATE that opens", nfs3.ProcCreate, func(t tree) nfs3.Message {
		return &nfs3.CreateArgs{Where: at(t.root, "f"), Mode: nfs3.Unchecked}
	}, true},
	{"MKDIR", nfs3.ProcMkdir, func(t tree) nfs3.Message { return &nfs3.MkdirArgs{Where: at(t.root, "n"), Attr: mode(0o750)} }, false},
	{"SYMLINK", nfs3.ProcSymlink, func(t tree) nfs3.Message { return &nfs3.SymlinkArgs{Where: at(t.root, "n"), Path: "f"} }, false},
	{"MKNOD", nfs3.ProcMknod, func(t tree) nfs3.Message {
		return &nfs3.MknodArgs{Where: at(t.root, "n"), Type: nfs3.TypeFIFO, Attr: mode(0o600)}
	}, false},
	{"WRITE", nfs3.ProcWrite, func(t tree) nfs3.Message {
		return &nfs3.WriteArgs{Handle: t.f, Offset: 2, Count: 5, Stable: nfs3.FileSync, Data: []byte("write")}
	}, false},
	{"WRITE unstable", nfs3.ProcWrite, func(t tree) nfs3.Message {
		data := bytes.Repeat([]byte("stag"), 50_000)
		return &nfs3.WriteArgs{Handle: t.f, Offset: 1 << 20, Count: uint32(len(data)), Data: data}
	}, false},
	{"SETATTR size", nfs3.ProcSetAttr, func(t tree) nfs3.Message {
		return &nfs3.SetAttrArgs{Handle: t.f, Attr: nfs3.SetAttr{SetSize: true, Size: 1}}
	}, false},
	{"SETATTR mode, times", nfs3.ProcSetAttr, func(t tree) nfs3.Message {
		a := mode(0o600)
		a.AtimeHow, a.MtimeHow, a.Atime, a.Mtime = nfs3.ClientTime, nfs3.ClientTime, nfs3.Time{Sec: 7}, nfs3.Time{Sec: 8}
		return &nfs3.SetAttrArgs{Handle: t.f, Attr: a}
	}, false},
	{"SETATTR guarded", nfs3.ProcSetAttr, func(t tree) nfs3.Message {
		return &nfs3.SetAttrArgs{Handle: t.f, Attr: mode(0o600), Guard: true, Ctime: t.ctime}
	}, false},
	{"SETATTR touch", nfs3.ProcSetAttr, func(t tree) nfs3.Message {
		return &nfs3.SetAttrArgs{Handle: t.f, Attr: nfs3.SetAttr{MtimeHow: nfs3.ServerTime}}
	}, false},
}

type tree struct {
	root, f, g, d nfs3.FileHandle
	ctime         nfs3.Time
}

// plant makes the tree.
func plant(l *life) tree {
	t := tree{root: l.root, f: l.create(l.root, "f", 0o644), g: l.create(l.root, "g", 0o644), d: l.mkdir(l.root, "d", 0o755)}
	l.write(t.f, 0, "four")
	// A time that no change of the test can have.
	old := nfs3.SetAttr{MtimeHow: nfs3.ClientTime, Mtime: nfs3.Time{Sec: 5}}
	nfs[nfs3.SetAttrRes](l.peer, nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Handle: t.f, Attr: old}, nfs3.OK)
	t.ctime = l.attr(t.f).Ctime
	return t
}

// TestOnceCrash is every procedure that changes something, with a crash at each of the
// places where the intent or the reply decides (ADVERSARY 21): a call that was executed is
// not executed again, one that was not is, and a reply that has left is repeated to the octet.
func TestOnceCrash(t *testing.T) {
	for _, x := range onceCases {
		t.Run(x.name, func(t *testing.T) {
			t.Run("before execution", func(t *testing.T) {
				path := t.TempDir()
				a := begin(t, openDir(t, path), newImage(t))
				args := x.args(plant(a))
				a.c.skip = true
				a.send(1, x.proc, args)
				b := begin(t, openDir(t, path), a.c.before)
				if s := b.j.Stats(); s.SettledNotDone != 1 {
					t.Errorf("settled: %+v", s)
				}
				if _, status := b.send(1, x.proc, args); status != nfs3.OK || b.c.before == nil {
					t.Errorf("resent: %v, executed: %v", status, b.c.before != nil)
				}
			})
			t.Run("after execution", func(t *testing.T) {
				path := t.TempDir()
				a := begin(t, openDir(t, path), newImage(t))
				args := x.args(plant(a))
				if _, status := a.send(1, x.proc, args); status != nfs3.OK {
					t.Fatal(status)
				}
				b := begin(t, openDir(t, path), a.c.after)
				if s := b.j.Stats(); s.SettledDone != 1 && !x.none {
					t.Errorf("settled: %+v", s)
				}
				first, status := b.send(1, x.proc, args)
				if status != nfs3.OK || b.c.before != nil && !x.none {
					t.Errorf("resent: %v, executed: %v", status, b.c.before != nil)
				}
				checkSettled(t, x.proc, first)
				if again, _ := b.send(1, x.proc, args); !bytes.Equal(again, first) {
					t.Errorf("resent again: %x, at first %x", again, first)
				}
			})
			t.Run("after the record", func(t *testing.T) {
				path := t.TempDir()
				a := begin(t, openDir(t, path), newImage(t))
				args := x.args(plant(a))
				first, status := a.send(1, x.proc, args)
				if status != nfs3.OK {
					t.Fatal(status)
				}
				b := begin(t, openDir(t, path), a.c.sim.Snapshot().Durable())
				if again, _ := b.send(1, x.proc, args); !bytes.Equal(again, first) || b.c.before != nil {
					t.Errorf("resent: %x\n at first %x", again, first)
				}
			})
		})
	}
}

// checkSettled: a settled reply is identical to the one that the procedure makes.
func checkSettled(t *testing.T, proc nfs3.Proc, reply []byte) {
	t.Helper()
	res := proc.NewRes()
	d := xdr.NewDecoder(reply[24:])
	if err := res.Parse(&d); err != nil || d.Len() != 0 {
		t.Errorf("reply %x: %v", reply, err)
	}
}

// openDir serves a directory.
func openDir(t *testing.T, path string) *dir.FS {
	t.Helper()
	fsys, err := dir.New(path, &dir.Config{Async: true, Key: []byte("0123456789abcdef0123456789abcdef")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fsys.Close() })
	return fsys
}
