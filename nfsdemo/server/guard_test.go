package server_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport/rpc"
)

// recorder is a Guard that records its calls.
type recorder struct {
	mu     sync.Mutex
	asked  []string
	open   int    // changes that are not done
	during func() // called in Change, before it returns
	err    error
}

func (r *recorder) note(what string, files []nfs3.FileHandle) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range files {
		r.asked = append(r.asked, what+" "+string(f))
	}
	return r.err
}

func (r *recorder) Idle() bool { return false }

func (r *recorder) Look(_ context.Context, files ...nfs3.FileHandle) error {
	return r.note("look", files)
}

func (r *recorder) LookAll(context.Context) error {
	return r.note("look", []nfs3.FileHandle{nfs3.FileHandle("all")})
}

func (r *recorder) Change(_ context.Context, files ...nfs3.FileHandle) (func(), error) {
	if err := r.note("change", files); err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.open++
	f := r.during
	r.during = nil
	r.mu.Unlock()
	if f != nil {
		f()
	}
	return func() { r.mu.Lock(); r.open--; r.mu.Unlock() }, nil
}

func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.asked
	r.asked = nil
	return out
}

// guarded is a server with a recorder, and a file "f" and a directory "d" in it.
func guarded(t *testing.T) (g *recorder, p *peer, f, d nfs3.FileHandle) {
	g = &recorder{}
	p = newPeer(t, newServer(t, mem.New(nil), func(c *server.Config) { c.Guard = g }), sys(0, 0))
	f, d = p.create(p.root, "f", 0o644), p.mkdir(p.root, "d", 0o755)
	g.take()
	return g, p, f, d
}

// TestGuard: every call that tells something of a file looks, every call that changes one
// changes, before it runs; and none is left open.
func TestGuard(t *testing.T) {
	g, p, f, _ := guarded(t)
	other := p.create(p.root, "g", 0o644)
	g.take()
	h := &nfs3.HandleArgs{Handle: f}
	unchecked := func(size bool) *nfs3.CreateArgs {
		return &nfs3.CreateArgs{Where: at(p.root, "f"), Mode: nfs3.Unchecked, Attr: nfs3.SetAttr{SetSize: size}}
	}
	for _, c := range []struct {
		name string
		call func()
		want []string
	}{
		{"getattr", func() { p.attr(f) }, []string{"look " + string(f)}},
		{"access", func() { nfs[nfs3.AccessRes](p, nfs3.ProcAccess, &nfs3.AccessArgs{Handle: f}, nfs3.OK) }, []string{"look " + string(f)}},
		{"read", func() { p.read(f, 0, 1) }, []string{"look " + string(f)}},
		{"fsstat", func() { nfs[nfs3.FSStatRes](p, nfs3.ProcFSStat, h, nfs3.OK) }, []string{"look " + string(f)}},
		{"commit", func() { nfs[nfs3.CommitRes](p, nfs3.ProcCommit, &nfs3.CommitArgs{Handle: f}, nfs3.OK) }, []string{"look " + string(f)}},
		{"lookup", func() { p.lookup(p.root, "f", nfs3.OK) }, []string{"look " + string(f)}},
		{"lookup of nothing", func() { p.lookup(p.root, "none", nfs3.ErrNoEnt) }, nil},
		{"readdirplus", func() {
			nfs[nfs3.ReadDirPlusRes](p, nfs3.ProcReadDirPlus, &nfs3.ReadDirPlusArgs{Dir: p.root, DirCount: 4096, MaxCount: 4096}, nfs3.OK)
		}, []string{"look all"}},
		{"write", func() { p.write(f, 0, "x") }, []string{"change " + string(f)}},
		{"setattr", func() {
			nfs[nfs3.SetAttrRes](p, nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Handle: f, Attr: mode(0o600)}, nfs3.OK)
		}, []string{"change " + string(f)}},
		{"create", func() { nfs[nfs3.CreateRes](p, nfs3.ProcCreate, unchecked(false), nfs3.OK) }, []string{"look " + string(f)}},
		{"create, size", func() { nfs[nfs3.CreateRes](p, nfs3.ProcCreate, unchecked(true), nfs3.OK) }, []string{"change " + string(f)}},
		{"link", func() {
			nfs[nfs3.LinkRes](p, nfs3.ProcLink, &nfs3.LinkArgs{Handle: f, Link: at(p.root, "l")}, nfs3.OK)
		}, []string{"look " + string(f)}},
		{"rename", func() {
			nfs[nfs3.RenameRes](p, nfs3.ProcRename, &nfs3.RenameArgs{From: at(p.root, "g"), To: at(p.root, "h")}, nfs3.OK)
		}, nil},
		{"rename over", func() {
			nfs[nfs3.RenameRes](p, nfs3.ProcRename, &nfs3.RenameArgs{From: at(p.root, "f"), To: at(p.root, "h")}, nfs3.OK)
		}, []string{"change " + string(other)}},
		{"remove", func() {
			a := at(p.root, "h")
			nfs[nfs3.WccRes](p, nfs3.ProcRemove, &a, nfs3.OK)
		}, []string{"change " + string(f)}},
	} {
		c.call()
		if got := g.take(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if g.open != 0 {
			t.Errorf("%s: %d changes are open", c.name, g.open)
		}
	}
}

// TestGuardRefused: who may not change a file has no lease recalled; the answer is that of a
// server without a guard, also if the rights come while it is given.
func TestGuardRefused(t *testing.T) {
	g, p, _, d := guarded(t)
	f := p.create(d, "f", 0o644)
	g.take()
	q := p.as(sys(1000, 1000))
	_ = nfs[nfs3.WriteRes](q, nfs3.ProcWrite, &nfs3.WriteArgs{Handle: f, Count: 1, Data: []byte("x")}, nfs3.ErrAcces)
	_ = nfs[nfs3.SetAttrRes](q, nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Handle: f, Attr: mode(0)}, nfs3.ErrPerm)
	a := at(d, "f")
	_ = nfs[nfs3.WccRes](q, nfs3.ProcRemove, &a, nfs3.ErrAcces)
	_ = nfs[nfs3.RenameRes](q, nfs3.ProcRename, &nfs3.RenameArgs{From: a, To: at(d, "g")}, nfs3.ErrAcces)
	_ = nfs[nfs3.RenameRes](p, nfs3.ProcRename, &nfs3.RenameArgs{From: at(d, "none"), To: a}, nfs3.ErrNoEnt)
	trunc := nfs3.CreateArgs{Where: a, Mode: nfs3.Unchecked, Attr: nfs3.SetAttr{SetSize: true}}
	_ = nfs[nfs3.CreateRes](q, nfs3.ProcCreate, &trunc, nfs3.ErrAcces)
	for _, asked := range g.take() {
		if asked == "change "+string(f) {
			t.Error("leases were recalled for a call that is refused")
		}
	}
}

// TestGuardNames: the name stands for another file when the leases of the first have been
// recalled: then those of the other are too, and it is the other that goes.
func TestGuardNames(t *testing.T) {
	g, p, f, _ := guarded(t)
	other := p.create(p.root, "g", 0o644)
	g.take()
	g.during = func() {
		root := p.srv.FirstFS().Root()
		if err := root.Rename("g", root, "f"); err != nil {
			t.Error(err)
		}
	}
	a := at(p.root, "f")
	nfs[nfs3.WccRes](p, nfs3.ProcRemove, &a, nfs3.OK)
	if got, want := g.take(), []string{"change " + string(f), "change " + string(other)}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if g.open != 0 {
		t.Error("changes are open:", g.open)
	}
	p.lookup(p.root, "f", nfs3.ErrNoEnt)
}

// TestGuardBlocked: the guard's error is the answer, and nothing is done.
func TestGuardBlocked(t *testing.T) {
	g, p, f, _ := guarded(t)
	g.err = nfs3.ErrNoSpc
	_ = nfs[nfs3.GetAttrRes](p, nfs3.ProcGetAttr, &nfs3.HandleArgs{Handle: f}, nfs3.ErrIO)
	_ = nfs[nfs3.WriteRes](p, nfs3.ProcWrite, &nfs3.WriteArgs{Handle: f, Count: 1, Data: []byte("x")}, nfs3.ErrNoSpc)
	a := at(p.root, "f")
	_ = nfs[nfs3.WccRes](p, nfs3.ProcRemove, &a, nfs3.ErrIO)
	g.err = nil
	if p.attr(f).Size != 0 {
		t.Error("written nevertheless")
	}
}

// TestGrant: the checks of a WRITE, made once, and again when octets come.
func TestGrant(t *testing.T) {
	s := newServer(t, mem.New(nil))
	p := newPeer(t, s, sys(0, 0))
	f := p.create(p.root, "f", 0o600)
	cred := server.Cred{UID: 1000, GID: 1000}
	call := &server.Call{Request: &rpc.Request{RemoteAddr: p.addr}, Cred: cred}
	if _, _, err := s.Grant(t.Context(), call, f); !errors.Is(err, nfs3.ErrAcces) {
		t.Error("another user's file:", err)
	}
	call.Cred = server.Cred{}
	g, room, err := s.Grant(t.Context(), call, f)
	if err != nil || room.Avail == 0 || room.Export != "/export" {
		t.Fatal(room, err)
	}
	before, err := s.WriteGrant(g, []byte("octets"), 3)
	if err != nil {
		t.Fatal(err)
	}
	if after, err := s.SyncGrant(g); err != nil || after != before {
		t.Error(err)
	}
	if got := string(p.read(f, 0, 100).Data); got != "\x00\x00\x00octets" {
		t.Errorf("%q", got)
	}
	if _, err := s.WriteGrant(g, []byte("x"), 1<<63-1); !errors.Is(err, nfs3.ErrFBig) {
		t.Error("beyond the largest file:", err)
	}
	g.Cred.UID = 1000
	if _, err := s.WriteGrant(g, []byte("x"), 0); !errors.Is(err, nfs3.ErrAcces) {
		t.Error("without permission:", err)
	}
	a := at(p.root, "f")
	nfs[nfs3.WccRes](p, nfs3.ProcRemove, &a, nfs3.OK)
	if _, err := s.WriteGrant(g, []byte("x"), 0); !errors.Is(err, nfs3.ErrStale) {
		t.Error("gone:", err)
	}
}
