package server_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/internal/once"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// request is a call as the journal sees it.
func (p *peer) request(proc nfs3.Proc, args nfs3.Message) *rpc.Request {
	return &rpc.Request{
		CallHeader: xdr.CallHeader{XID: 1, RPCVers: 2, Prog: nfs3.Program, Vers: nfs3.Version, Proc: uint32(proc), Cred: p.cred},
		Args:       args.Append(nil), RemoteAddr: p.addr,
	}
}

// intend returns the intent of a call, as of now.
func (p *peer) intend(proc nfs3.Proc, args nfs3.Message) *once.Intent {
	p.Helper()
	req := p.request(proc, args)
	if p.srv.Names(req) == nil {
		p.Fatalf("%v is not covered", proc)
	}
	state, ok := p.srv.Before(context.Background(), req, new(rpc.Response))
	if !ok {
		p.Fatalf("%v cannot be described", proc)
	}
	return &once.Intent{
		Call: once.Call{XID: 1, Prog: req.Prog, Vers: req.Vers, Proc: req.Proc}, Args: req.Args, State: state,
	}
}

// settles demands an outcome, and results that decode if it is done.
func (p *peer) settles(in *once.Intent, want once.Outcome) {
	p.Helper()
	results, got, err := p.srv.Settle(context.Background(), in, nil)
	if err != nil || got != want {
		p.Errorf("%v: got %v, %v, want %v", nfs3.Proc(in.Proc), got, err, want)
	}
	if got != once.Done {
		return
	}
	res := nfs3.Proc(in.Proc).NewRes()
	d := xdr.NewDecoder(results)
	if err := res.Parse(&d); err != nil || d.Len() != 0 {
		p.Errorf("results %x: %v", results, err)
	}
	if r, ok := res.(nfs3.Result); !ok || r.Stat() != nfs3.OK {
		p.Errorf("results %x: no success", results)
	}
}

// set is a SETATTR by root that must succeed.
func (p *peer) set(h nfs3.FileHandle, a nfs3.SetAttr) {
	p.Helper()
	nfs[nfs3.SetAttrRes](p.as(sys(0, 0)), nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Handle: h, Attr: a}, nfs3.OK)
}

func sized(a nfs3.SetAttr, size uint64) nfs3.SetAttr {
	a.SetSize, a.Size = true, size
	return a
}

func timed(a nfs3.SetAttr, sec uint32) nfs3.SetAttr {
	a.MtimeHow, a.Mtime = nfs3.ClientTime, nfs3.Time{Sec: sec}
	return a
}

func touched(a nfs3.SetAttr) nfs3.SetAttr {
	a.MtimeHow = nfs3.ServerTime
	return a
}

// TestSettleAttr: a file of mode 0644 and 4 octets, changed at second 5; what SETATTR asks for,
// what the restart finds, and the outcome.
func TestSettleAttr(t *testing.T) {
	none := nfs3.SetAttr{}
	own := func(uid uint32) nfs3.SetAttr { return nfs3.SetAttr{SetUID: true, UID: uid} }
	for _, x := range []struct {
		name  string
		ask   nfs3.SetAttr
		found []nfs3.SetAttr // changes since
		write bool           // a WRITE behind them
		want  once.Outcome
		check func(a *nfs3.Attr) bool // the attributes in the end
	}{
		{"nothing", mode(0o600), nil, false, once.NotDone, func(a *nfs3.Attr) bool { return a.Mode == 0o644 }},
		{"mode", mode(0o600), []nfs3.SetAttr{mode(0o600)}, false, once.Done, nil},
		{"mode and a write", mode(0o600), []nfs3.SetAttr{mode(0o600)}, true, once.Done, nil},
		{"no change asked for", mode(0o644), nil, false, once.NotDone, nil},
		{"somebody else's mode", mode(0o600), []nfs3.SetAttr{mode(0o640)}, false, once.Unknown, nil},
		{
			"owner, not mode",
			nfs3.SetAttr{SetUID: true, UID: 9, SetMode: true, Mode: 0o600},
			[]nfs3.SetAttr{own(9)},
			false, once.Done,
			func(a *nfs3.Attr) bool { return a.Mode == 0o600 },
		},
		{
			"size, not mode", sized(mode(0o600), 1),
			[]nfs3.SetAttr{sized(none, 1)},
			false, once.Done,
			func(a *nfs3.Attr) bool { return a.Mode == 0o600 && a.Size == 1 },
		},
		{"size", sized(none, 1), []nfs3.SetAttr{sized(none, 1)}, false, once.Done, nil},
		{"size, then a write", sized(none, 1), []nfs3.SetAttr{sized(none, 1)}, true, once.Unknown, nil},
		{
			"size, mode, then a write", sized(mode(0o600), 1),
			[]nfs3.SetAttr{sized(mode(0o600), 1)},
			true, once.Done,
			func(a *nfs3.Attr) bool { return a.Size == 9 },
		},
		{"time", timed(none, 8), []nfs3.SetAttr{timed(none, 8)}, false, once.Done, nil},
		{"no time yet", timed(none, 8), nil, false, once.NotDone, nil},
		{"time of a write", timed(none, 8), nil, true, once.Unknown, nil},
		{
			"mode, not time", timed(mode(0o600), 8),
			[]nfs3.SetAttr{mode(0o600)},
			false, once.Done,
			func(a *nfs3.Attr) bool { return a.Mtime.Sec == 8 },
		},
		{
			"mode, and the time of a write", timed(mode(0o600), 8),
			[]nfs3.SetAttr{mode(0o600)},
			true, once.Done,
			func(a *nfs3.Attr) bool { return a.Mtime.Sec > 100 },
		},
		{"touched", touched(none), []nfs3.SetAttr{touched(none)}, false, once.Done, nil},
		{"not touched", touched(none), nil, false, once.NotDone, nil},
		{"size to be cut and touched, a write", sized(touched(none), 1), nil, true, once.Unknown, nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			on := onBoth
			if x.ask.SetUID {
				on = onJudging // files are given away
			}
			on(t, func(p *peer) {
				f := p.create(p.root, "f", 0o644)
				p.write(f, 0, "four")
				p.set(f, timed(none, 5))
				in := p.intend(nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Handle: f, Attr: x.ask})
				for _, a := range x.found {
					p.set(f, a)
				}
				if x.write {
					p.write(f, 0, "nine more")
				} else if !x.ask.SetSize && x.ask.MtimeHow == nfs3.DontChange {
					p.set(f, timed(none, 5))
				}
				p.settles(in, x.want)
				if a := p.attr(f); x.check != nil && !x.check(&a) {
					p.Errorf("in the end: %+v", a)
				}
			})
		})
	}
}

// TestSettleRefused: what the checks had refused was not done, whatever is found: permissions,
// the guard of SETATTR.
func TestSettleRefused(t *testing.T) {
	onJudging(t, func(p *peer) {
		f := p.create(p.root, "f", 0o644)
		stranger := p.as(sys(7, 7))
		in := stranger.intend(nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Handle: f, Attr: mode(0o600)})
		cut := stranger.intend(nfs3.ProcCreate, &nfs3.CreateArgs{Where: at(p.root, "f"), Attr: nfs3.SetAttr{SetSize: true, Size: 3}})
		guarded := p.intend(nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Handle: f, Attr: mode(0o600), Guard: true})
		p.set(f, sized(mode(0o600), 3))
		for _, in := range []*once.Intent{in, cut, guarded} {
			p.settles(in, once.NotDone)
		}
	})
}

// TestSettleGuarded: a SETATTR that asks for what is so already leaves nothing but another ctime,
// by which its own guard would refuse it, were it done again.
func TestSettleGuarded(t *testing.T) {
	onBoth(t, func(p *peer) {
		f := p.create(p.root, "f", 0o644)
		was := p.attr(f).Ctime
		ask := func(m uint32) *once.Intent {
			return p.intend(nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Handle: f, Attr: mode(m), Guard: true, Ctime: was})
		}
		same, other := ask(0o644), ask(0o600)
		p.settles(same, once.NotDone)
		for p.attr(f).Ctime == was { // clocks of file systems are coarse
			p.set(f, mode(0o644))
		}
		p.settles(same, once.Done)
		p.settles(other, once.NotDone)
	})
}

// TestSettleCut: CREATE of a name that is taken may have changed the size.
func TestSettleCut(t *testing.T) {
	onBoth(t, func(p *peer) {
		f := p.create(p.root, "f", 0o644)
		p.write(f, 0, "four")
		cut := p.intend(nfs3.ProcCreate, &nfs3.CreateArgs{Where: at(p.root, "f"), Attr: nfs3.SetAttr{SetSize: true}})
		open := p.intend(nfs3.ProcCreate, &nfs3.CreateArgs{Where: at(p.root, "f")})
		exist := p.intend(nfs3.ProcCreate, &nfs3.CreateArgs{Where: at(p.root, "f"), Mode: nfs3.Guarded})
		p.settles(cut, once.NotDone)
		p.set(f, sized(nfs3.SetAttr{}, 0))
		p.settles(cut, once.Done)
		p.settles(open, once.NotDone)
		p.settles(exist, once.NotDone)
		nfs[nfs3.RemoveRes](p, nfs3.ProcRemove, &nfs3.RemoveArgs{Dir: p.root, Name: "f"}, nfs3.OK)
		p.create(p.root, "f", 0o644)
		p.settles(cut, once.NotDone) // another file
	})
}

// TestSettleHalfMade: a crash between the system call that makes a file, with its owner, group and mode, and
// those that give it size, times, and what root alone may give: it gets them. One that somebody has changed
// since is left alone.
func TestSettleHalfMade(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("files are given away: for root")
	}
	path := t.TempDir()
	p := newPeer(t, newServer(t, openDir(t, path)), sys(0, 0))
	user := p.as(sys(1000, 1001))
	file := func(s string) error { return os.WriteFile(s, nil, 0o640) }
	for _, x := range []struct {
		name  string
		who   *peer
		owner int // of what is found
		proc  nfs3.Proc
		args  nfs3.Message
		make  func(path string) error
		mode  uint32
	}{
		{"c", user, 1000, nfs3.ProcCreate, &nfs3.CreateArgs{Where: at(p.root, "c"), Mode: nfs3.Guarded, Attr: sized(mode(0o640), 3)}, file, 0o640},
		{"x", user, 1000, nfs3.ProcCreate, &nfs3.CreateArgs{Where: at(p.root, "x"), Mode: nfs3.Exclusive, Verf: nfs3.CreateVerf{1, 2, 3}}, func(s string) error { return os.WriteFile(s, nil, 0o600) }, 0o600},
		{"d", user, 1000, nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: at(p.root, "d"), Attr: mode(0o1750)}, func(s string) error { return os.Mkdir(s, 0o750) }, 0o1750},
		{"l", user, 1000, nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: at(p.root, "l"), Path: "c"}, func(s string) error { return os.Symlink("c", s) }, 0o777},
		{"g", p, 0, nfs3.ProcCreate, &nfs3.CreateArgs{Where: at(p.root, "g"), Mode: nfs3.Guarded, Attr: nfs3.SetAttr{SetMode: true, Mode: 0o640, SetUID: true, UID: 1000, SetGID: true, GID: 1001}}, file, 0o640},
	} {
		in := x.who.intend(x.proc, x.args)
		p.settles(in, once.NotDone)
		name := filepath.Join(path, x.name)
		if err := x.make(name); err != nil {
			t.Fatal(err)
		}
		if x.owner != 0 {
			if err := os.Lchown(name, x.owner, x.owner+1); err != nil {
				t.Fatal(err)
			}
		}
		p.settles(in, once.Done)
		r := p.lookup(p.root, x.name, nfs3.OK)
		if a := p.attr(r.Handle); a.Mode != x.mode || a.UID != 1000 || a.GID != 1001 || x.name == "c" && a.Size != 3 {
			t.Errorf("%s: %+v", x.name, a)
		}
		// Changed by its owner, who had the handle: not made again.
		if a := mode(0o604); x.proc == nfs3.ProcMkdir {
			p.set(r.Handle, a)
			p.settles(in, once.Done)
			if a := p.attr(r.Handle); a.Mode != 0o604 {
				t.Errorf("%s: mode %o", x.name, a.Mode)
			}
		}
	}
	// A file of root is not what a user has made.
	in := user.intend(nfs3.ProcCreate, &nfs3.CreateArgs{Where: at(p.root, "r"), Mode: nfs3.Guarded, Attr: mode(0o640)})
	if err := file(filepath.Join(path, "r")); err != nil {
		t.Fatal(err)
	}
	p.settles(in, once.NotDone)
	// The verifier is there: sent again with another XID, the CREATE finds its file.
	nfs[nfs3.CreateRes](user, nfs3.ProcCreate, &nfs3.CreateArgs{Where: at(p.root, "x"), Mode: nfs3.Exclusive, Verf: nfs3.CreateVerf{1, 2, 3}}, nfs3.OK)
}

// TestSettleNotOurs: a name that was free is taken by something the call does not make.
func TestSettleNotOurs(t *testing.T) {
	onBoth(t, func(p *peer) {
		p.mkdir(p.root, "dir", 0o755)
		old := p.create(p.root, "old", 0o644)
		p.outlive(old)
		for name, x := range map[string]struct {
			proc nfs3.Proc
			args nfs3.Message
			come func(name string)
		}{
			"older": {nfs3.ProcCreate, &nfs3.CreateArgs{Where: at(p.root, "older")}, func(name string) {
				nfs[nfs3.LinkRes](p, nfs3.ProcLink, &nfs3.LinkArgs{Handle: old, Link: at(p.root, name)}, nfs3.OK)
			}},
			"type": {nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: at(p.root, "type")}, func(name string) { p.create(p.root, name, 0o644) }},
			"owner": {nfs3.ProcCreate, &nfs3.CreateArgs{Where: at(p.root, "owner")}, func(name string) {
				p.set(p.create(p.root, name, 0o644), nfs3.SetAttr{SetUID: true, UID: 77})
			}},
			"target": {nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: at(p.root, "target"), Path: "a"}, func(name string) {
				nfs[nfs3.SymlinkRes](p, nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: at(p.root, name), Path: "b"}, nfs3.OK)
			}},
			"link": {nfs3.ProcLink, &nfs3.LinkArgs{Handle: old, Link: at(p.root, "link")}, func(name string) { p.create(p.root, name, 0o644) }},
		} {
			if name == "owner" && !p.srv.FirstFS().Info().Owners {
				continue
			}
			in := p.intend(x.proc, x.args)
			x.come(name)
			p.settles(in, once.NotDone)
		}
		// What was there from the beginning.
		for _, in := range []*once.Intent{
			p.intend(nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: at(p.root, "dir")}),
			p.intend(nfs3.ProcLink, &nfs3.LinkArgs{Handle: old, Link: at(p.root, "old")}),
			p.intend(nfs3.ProcRename, &nfs3.RenameArgs{From: at(p.root, "old"), To: at(p.root, "older")}),
			p.intend(nfs3.ProcRename, &nfs3.RenameArgs{From: at(p.root, "none"), To: at(p.root, "old")}),
			p.intend(nfs3.ProcRemove, &nfs3.RemoveArgs{Dir: p.root, Name: "none"}),
		} {
			p.settles(in, once.NotDone)
		}
	})
}

// outlive returns when the clock of a file's birth has gone on. It stands still for milliseconds,
// and with finer times of files (Linux 6.13) a birth may lie some in front of it.
func (p *peer) outlive(h nfs3.FileHandle) {
	fs := p.srv.FirstFS()
	n, err := fs.Resolve(h[handleHead:])
	if err != nil {
		p.Fatal(err)
	}
	clock, dated := fs.(backend.Dated)
	for b, ok := n.(backend.Born); ok && dated && clock.Now() <= b.Birth(); {
		runtime.Gosched()
	}
}

// TestSettleUnknown: what cannot be found out is never said to be done.
func TestSettleUnknown(t *testing.T) {
	onBoth(t, func(p *peer) {
		f, d := p.create(p.root, "f", 0o644), p.mkdir(p.root, "d", 0o755)
		p.create(d, "n", 0o644)
		rename := p.intend(nfs3.ProcRename, &nfs3.RenameArgs{From: at(p.root, "f"), To: at(p.root, "g")})
		remove := p.intend(nfs3.ProcRemove, &nfs3.RemoveArgs{Dir: d, Name: "n"})
		attr := p.intend(nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Handle: f, Attr: mode(0o600)})
		for _, dir := range []nfs3.DirOpArgs{at(p.root, "f"), at(d, "n")} {
			nfs[nfs3.RemoveRes](p, nfs3.ProcRemove, &dir, nfs3.OK)
		}
		nfs[nfs3.RmdirRes](p, nfs3.ProcRmdir, &nfs3.RmdirArgs{Dir: p.root, Name: "d"}, nfs3.OK)
		foreign := *rename
		foreign.Args = append([]byte(nil), rename.Args...)
		foreign.Args[4]++ // the number of the export
		for _, in := range []*once.Intent{
			rename, remove, attr, &foreign,
			{Call: rename.Call, Args: rename.Args, State: rename.State[:20]},
			{Call: rename.Call, Args: rename.Args[:20], State: rename.State},
			{Call: once.Call{Prog: 1, Vers: 1, Proc: 1}, Args: rename.Args, State: rename.State},
		} {
			p.settles(in, once.Unknown)
		}
	})
}

// TestNames: calls that need not run exactly once bypass the journal.
func TestNames(t *testing.T) {
	p := newPeer(t, newServer(t, mem.New(nil), func(c *server.Config) { c.RequireSys = true }), sys(0, 0))
	where := at(p.root, "n")
	for _, x := range []struct {
		proc nfs3.Proc
		args nfs3.Message
		want int
	}{
		{nfs3.ProcRemove, &where, 1},
		{nfs3.ProcRename, &nfs3.RenameArgs{From: where, To: at(p.root, "m")}, 2},
		{nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Handle: p.root}, fileParts},
		{nfs3.ProcLookup, &where, 0},
		{nfs3.ProcWrite, &nfs3.WriteArgs{Handle: p.root}, 1},
		{nfs3.ProcWrite, &nfs3.WriteArgs{Handle: p.root, Count: 3 * partSize}, 4},
		{nfs3.ProcWrite, &nfs3.WriteArgs{Handle: p.root, Offset: 1<<64 - 1, Count: 1<<32 - 1}, fileParts},
		{nfs3.ProcCommit, &nfs3.CommitArgs{Handle: p.root}, 0},
		{nfs3.ProcRemove, &nfs3.RemoveArgs{Dir: p.root, Name: ".."}, 0},
		{nfs3.ProcRemove, &nfs3.RemoveArgs{Dir: p.root, Name: string(make([]byte, 300))}, 0},
		{nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: where, Path: string(make([]byte, nfs3.MaxPath))}, 0},
		{nfs3.ProcMkdir, &nfs3.Void{}, 0},
	} {
		req := p.request(x.proc, x.args)
		if got := p.srv.Names(req); len(got) != x.want {
			t.Errorf("%v: %q", x.proc, got)
		}
		req.Cred = xdr.Auth{} // denied
		if got := p.srv.Names(req); got != nil {
			t.Errorf("%v, nobody: %q", x.proc, got)
		}
	}
	req := p.request(nfs3.ProcRemove, &where)
	req.Prog++
	if p.srv.Names(req) != nil {
		t.Error("another program")
	}
}

// TestRefuse: every procedure has results that say so, with a status that it may answer; a
// file that is gone answers before there is an intent.
func TestRefuse(t *testing.T) {
	p := newPeer(t, newServer(t, mem.New(nil)), sys(0, 0))
	for _, x := range onceCases {
		for why, want := range map[once.Refusal]nfs3.Status{once.NotRecorded: nfs3.ErrIO, once.OutcomeUnknown: nfs3.ErrServerFault} {
			b := p.srv.Refuse(&once.Call{Proc: uint32(x.proc)}, why, nil)
			res := x.proc.NewRes()
			d := xdr.NewDecoder(b)
			err := res.Parse(&d)
			if r, ok := res.(nfs3.Result); err != nil || !ok || d.Len() != 0 || r.Stat() != want || !server.May(x.proc, want) {
				t.Errorf("%v: %x, %v", x.proc, b, err)
			}
		}
	}
	gone := p.mkdir(p.root, "d", 0o755)
	nfs[nfs3.RmdirRes](p, nfs3.ProcRmdir, &nfs3.RmdirArgs{Dir: p.root, Name: "d"}, nfs3.OK)
	for _, args := range []nfs3.Message{&nfs3.RemoveArgs{Dir: gone, Name: "x"}, &nfs3.RemoveArgs{Dir: p.create(p.root, "f", 0o644), Name: "x"}} {
		resp := new(rpc.Response)
		if _, ok := p.srv.Before(context.Background(), p.request(nfs3.ProcRemove, args), resp); ok || len(resp.Results) != 12 {
			t.Errorf("described, or answered with %x", resp.Results)
		}
	}
}

// FuzzSettle: whatever a journal holds, settling it ends, and says what is one of the outcomes.
func FuzzSettle(f *testing.F) {
	p := newPeer(&testing.T{}, mustServer(f), sys(0, 0))
	tr := tree{root: p.root}
	tr.f, tr.d = p.create(p.root, "f", 0o644), p.mkdir(p.root, "d", 0o755)
	p.create(p.root, "g", 0o644)
	for _, x := range onceCases {
		in := p.intend(x.proc, x.args(tr))
		f.Add(in.Proc, in.Args, in.State)
	}
	f.Fuzz(func(t *testing.T, proc uint32, args, state []byte) {
		in := &once.Intent{Call: once.Call{Prog: nfs3.Program, Vers: nfs3.Version, Proc: proc}, Args: args, State: state}
		results, out, err := p.srv.Settle(context.Background(), in, nil)
		if err != nil || out < once.NotDone || out > once.Unknown || (out == once.Done) != (len(results) > 0) {
			t.Errorf("%v, %v, %d octets", out, err, len(results))
		}
	})
}

func mustServer(f *testing.F) *server.Server {
	s, err := server.New(&server.Config{Exports: []server.Export{{Path: "/export", FS: mem.New(nil), Squash: server.SquashNone}}})
	if err != nil {
		f.Fatal(err)
	}
	return s
}

// syncedFS is a file system whose changes must be synced.
type syncedFS struct {
	backend.FS
	synced int
	err    error
}

func (f *syncedFS) Resolve(h []byte) (backend.Node, error) {
	n, err := f.FS.Resolve(h)
	return &syncedNode{n, f}, err
}

type syncedNode struct {
	backend.Node
	fs *syncedFS
}

func (n *syncedNode) Sync() error {
	n.fs.synced++
	return n.fs.err
}

// TestSettleDurable: what a killed process has not synced is synced before it is said to be
// done; if that fails it is not.
func TestSettleDurable(t *testing.T) {
	fs := &syncedFS{FS: mem.New(nil)}
	p := newPeer(t, newServer(t, fs), sys(0, 0))
	f := p.create(p.root, "f", 0o644)
	p.create(p.root, "g", 0o644)
	attr := p.intend(nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Handle: f, Attr: mode(0o600)})
	remove := p.intend(nfs3.ProcRemove, &nfs3.RemoveArgs{Dir: p.root, Name: "g"})
	p.settles(remove, once.NotDone)
	if fs.synced != 0 {
		t.Error("synced without need")
	}
	p.set(f, mode(0o600))
	nfs[nfs3.RemoveRes](p, nfs3.ProcRemove, &nfs3.RemoveArgs{Dir: p.root, Name: "g"}, nfs3.OK)
	for i, in := range []*once.Intent{attr, remove} {
		if p.settles(in, once.Done); fs.synced != i+1 {
			t.Errorf("synced %d times", fs.synced)
		}
	}
	fs.err = nfs3.ErrIO
	p.settles(attr, once.Unknown)
	p.settles(remove, once.Unknown)
}

// pusher is a Guard with octets that were pushed to a file, and are not in it yet.
type pusher struct {
	fs     backend.FS
	refuse error
	held   int
}

func (*pusher) Idle() bool                    { return false }
func (*pusher) LookAll(context.Context) error { return nil }

func (g *pusher) Look(_ context.Context, files ...nfs3.FileHandle) error {
	for _, h := range files {
		n, err := g.fs.Resolve(h[handleHead:])
		if err != nil {
			return err
		}
		if _, err := n.Write([]byte("pushed"), 0, nfs3.FileSync); err != nil {
			return err
		}
	}
	return g.refuse
}

func (g *pusher) Change(ctx context.Context, files ...nfs3.FileHandle) (func(), error) {
	if err := g.Look(ctx, files...); err != nil {
		return nil, err
	}
	g.held++
	return func() { g.held-- }, nil
}

// TestBeforePushed: what was pushed to a file is in it before a call that changes its size is
// described; while that cannot be, the call is answered so.
func TestBeforePushed(t *testing.T) {
	g := &pusher{fs: mem.New(nil)}
	p := newPeer(t, newServer(t, g.fs, func(c *server.Config) { c.Guard = g }), sys(0, 0))
	for name, x := range map[string]struct {
		proc nfs3.Proc
		args func(h nfs3.FileHandle) nfs3.Message
	}{
		"attr": {nfs3.ProcSetAttr, func(h nfs3.FileHandle) nfs3.Message {
			return &nfs3.SetAttrArgs{Handle: h, Attr: sized(nfs3.SetAttr{}, 1)}
		}},
		"create": {nfs3.ProcCreate, func(nfs3.FileHandle) nfs3.Message {
			return &nfs3.CreateArgs{Where: at(p.root, "create"), Attr: sized(nfs3.SetAttr{}, 1)}
		}},
	} {
		g.refuse = nil
		args := x.args(p.create(p.root, name, 0o644))
		var w witness
		if in := p.intend(x.proc, args); !w.parse(in.State) || w.attr.Attr.Size != 6 || g.held != 0 {
			t.Errorf("%s: %+v, held %d", name, w, g.held)
		}
		g.refuse = nfs3.ErrJukebox
		resp := new(rpc.Response)
		if _, ok := p.srv.Before(t.Context(), p.request(x.proc, args), resp); ok || len(resp.Results) < 4 || resp.Results[2] != 0x27 {
			t.Errorf("%s: described, or answered with %x", name, resp.Results)
		}
	}
}

// forgetful is a file system whose sizes survive a loss of power if they were committed.
type forgetful struct {
	backend.FS
	size map[uint64]uint64 // by file, committed

	behind func() // called after each COMMIT, if not nil
}

func (f *forgetful) Resolve(h []byte) (backend.Node, error) {
	n, err := f.FS.Resolve(h)
	return &forgetfulNode{n, f}, err
}

func (f *forgetful) Root() backend.Node { return &forgetfulNode{f.FS.Root(), f} }

type forgetfulNode struct {
	backend.Node
	fs *forgetful
}

func (n *forgetfulNode) As(who *caller.Identity) backend.Node {
	return &forgetfulNode{n.Node.As(who), n.fs}
}

func (n *forgetfulNode) Lookup(name string) (backend.Node, nfs3.Attr, error) {
	c, a, err := n.Node.Lookup(name)
	if err != nil {
		return c, a, err
	}
	return &forgetfulNode{c, n.fs}, a, nil
}

func (n *forgetfulNode) Commit(off uint64, count uint32) (nfs3.WriteVerf, error) {
	if a, err := n.Attr(); err == nil {
		n.fs.size[a.FileID] = a.Size
	}
	if n.fs.behind != nil {
		defer n.fs.behind()
	}
	return n.Node.Commit(off, count)
}

// stepping is a file system whose clock stands still for some looks at it.
type stepping struct {
	backend.FS
	now   int64
	still int // looks to come
	looks int
}

func (f *stepping) Now() int64 {
	if f.looks++; f.looks <= f.still {
		return f.now
	}
	return f.now + 2
}

// TestSettleSameTick: a file that is to be cut is described when the clock has gone on since its
// last change, so that what comes afterwards has another ctime, and is seen.
func TestSettleSameTick(t *testing.T) {
	for _, x := range []struct {
		name  string
		size  uint64        // asked for; the file has 6 octets
		ahead time.Duration // of its ctime before the clock
		still int
		looks int // that are needed; 1 is for the clock of births
	}{
		{"the clock has gone on", 1, -1, 9, 2},
		{"the same tick", 1, 0, 5, 6},
		{"a finer ctime", 1, 1, 5, 6},
		{"to be extended", 9, 0, 5, 1},
		{"a clock that stands still", 1, 0, 1 << 30, 41},
		{"a clock that was set back", 1, time.Hour, 5, 2},
	} {
		fs := &stepping{FS: mem.New(nil)}
		p := newPeer(t, newServer(t, fs), sys(0, 0))
		h := p.create(p.root, "file", 0o644)
		n, err := fs.Resolve(h[handleHead:])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Write([]byte("octets"), 0, nfs3.Unstable); err != nil {
			t.Fatal(err)
		}
		a, err := n.Attr()
		if err != nil {
			t.Fatal(err)
		}
		fs.now, fs.still, fs.looks = a.Ctime.Time().Add(-x.ahead).UnixNano(), x.still, 0
		p.intend(nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Handle: h, Attr: sized(nfs3.SetAttr{}, x.size)})
		if fs.looks != x.looks {
			t.Errorf("%s: %d looks at the clock, want %d", x.name, fs.looks, x.looks)
		}
	}
}

// TestSettleUnstable: what a WRITE that was UNSTABLE had made of the size is durable before a
// call that changes it is described, so that its outcome is known though the power fails.
func TestSettleUnstable(t *testing.T) {
	fs := &forgetful{FS: mem.New(nil), size: make(map[uint64]uint64)}
	p := newPeer(t, newServer(t, fs), sys(0, 0))
	for name, x := range map[string]struct {
		proc nfs3.Proc
		args func(h nfs3.FileHandle) nfs3.Message
		sync bool
	}{
		"truncate": {nfs3.ProcSetAttr, func(h nfs3.FileHandle) nfs3.Message {
			return &nfs3.SetAttrArgs{Handle: h, Attr: sized(nfs3.SetAttr{}, 1)}
		}, true},
		"create": {nfs3.ProcCreate, func(nfs3.FileHandle) nfs3.Message {
			return &nfs3.CreateArgs{Where: at(p.root, "create"), Attr: sized(nfs3.SetAttr{}, 1)}
		}, true},
		"mode": {nfs3.ProcSetAttr, func(h nfs3.FileHandle) nfs3.Message {
			return &nfs3.SetAttrArgs{Handle: h, Attr: mode(0o600)}
		}, false},
		"the same size": {nfs3.ProcSetAttr, func(h nfs3.FileHandle) nfs3.Message {
			return &nfs3.SetAttrArgs{Handle: h, Attr: sized(nfs3.SetAttr{}, 6)}
		}, false},
	} {
		h := p.create(p.root, name, 0o644)
		n, err := fs.Resolve(h[handleHead:])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Write([]byte("octets"), 0, nfs3.Unstable); err != nil {
			t.Fatal(err)
		}
		in := p.intend(x.proc, x.args(h))
		a, err := n.Attr()
		if err != nil {
			t.Fatal(err)
		}
		size, synced := fs.size[a.FileID]
		if synced != x.sync {
			t.Errorf("%s: committed: %v", name, synced)
		}
		if !x.sync {
			continue
		}
		if lost := sized(nfs3.SetAttr{}, size); size != a.Size {
			if err := n.SetAttr(&lost); err != nil {
				t.Fatal(err)
			}
		}
		p.settles(in, once.NotDone)
	}
}
