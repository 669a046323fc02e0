package server_test

import (
	"slices"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
)

func TestAccess(t *testing.T) {
	onJudging(t, func(p *peer) {
		d := p.mkdir(p.root, "d", 0o750)
		f := p.create(p.root, "f", 0o644)
		ask := func(q *peer, h nfs3.FileHandle, want, got nfs3.Access) {
			p.Helper()
			r := nfs[nfs3.AccessRes](q, nfs3.ProcAccess, &nfs3.AccessArgs{Handle: h, Access: want}, nfs3.OK)
			if r.Access != got || !r.Attr.Present {
				p.Errorf("asked %#x, got %#x, want %#x", want, r.Access, got)
			}
		}
		const (
			dirRW  = nfs3.AccessRead | nfs3.AccessLookup | nfs3.AccessModify | nfs3.AccessExtend | nfs3.AccessDelete
			fileRW = nfs3.AccessRead | nfs3.AccessModify | nfs3.AccessExtend
		)
		ask(p, d, nfs3.AccessAll, dirRW)
		ask(p, f, nfs3.AccessAll, fileRW)
		ask(p, f, nfs3.AccessRead, nfs3.AccessRead)
		ask(p, f, 0xffffffc0, 0)
		user := p.as(sys(1000, 1000))
		ask(user, d, nfs3.AccessAll, 0)
		ask(user, f, nfs3.AccessAll, nfs3.AccessRead)
		setattr(p, f, mode(0o711), nfs3.OK)
		ask(user, f, nfs3.AccessAll, nfs3.AccessExecute)
	})
}

// TestDirPermissions: which bits of a directory an operation needs.
func TestDirPermissions(t *testing.T) {
	onJudging(t, func(p *peer) {
		user := p.as(sys(1000, 1000))
		in := mode(0o644)
		for _, c := range []struct {
			bits               uint32
			look, list, create nfs3.Status
		}{
			{0, nfs3.ErrAcces, nfs3.ErrAcces, nfs3.ErrAcces},
			{4, nfs3.ErrAcces, nfs3.OK, nfs3.ErrAcces},
			{1, nfs3.OK, nfs3.ErrAcces, nfs3.ErrAcces},
			{2, nfs3.ErrAcces, nfs3.ErrAcces, nfs3.ErrAcces},
			{3, nfs3.OK, nfs3.ErrAcces, nfs3.OK},
			{7, nfs3.OK, nfs3.OK, nfs3.OK},
		} {
			d := p.mkdir(p.root, name(int(c.bits)), 0o770|c.bits)
			f := p.create(d, "f", 0o666) // Linux lets nobody link to a file that he may not write
			user.lookup(d, "f", c.look)
			nfs[nfs3.ReadDirRes](user, nfs3.ProcReadDir, &nfs3.ReadDirArgs{Dir: d, Count: 4096}, c.list)
			nfs[nfs3.ReadDirPlusRes](user, nfs3.ProcReadDirPlus, &nfs3.ReadDirPlusArgs{Dir: d, DirCount: 4096, MaxCount: 4096}, c.list)
			nfs[nfs3.CreateRes](user, nfs3.ProcCreate, &nfs3.CreateArgs{Where: at(d, "new"), Attr: in}, c.create)
			nfs[nfs3.MkdirRes](user, nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: at(d, "dir"), Attr: in}, c.create)
			nfs[nfs3.LinkRes](user, nfs3.ProcLink, &nfs3.LinkArgs{Handle: f, Link: at(d, "link")}, c.create)
			nfs[nfs3.RenameRes](user, nfs3.ProcRename, &nfs3.RenameArgs{From: at(d, "f"), To: at(d, "g")}, c.create)
			a := at(d, "g")
			if c.create != nfs3.OK {
				a.Name = "f"
			}
			nfs[nfs3.RemoveRes](user, nfs3.ProcRemove, &a, c.create)
		}
	})
}

func TestSticky(t *testing.T) {
	root := newPeer(t, newServer(t, mem.New(nil)), sys(0, 0))
	d := root.mkdir(root.root, "tmp", 0o1777)
	ann, bob := root.as(sys(10, 10)), root.as(sys(11, 11))
	ann.create(d, "anns", 0o666)
	bob.create(d, "bobs", 0o666)
	a := at(d, "anns")
	nfs[nfs3.RemoveRes](bob, nfs3.ProcRemove, &a, nfs3.ErrAcces)
	nfs[nfs3.RenameRes](bob, nfs3.ProcRename, &nfs3.RenameArgs{From: a, To: at(d, "x")}, nfs3.ErrAcces)
	nfs[nfs3.RenameRes](bob, nfs3.ProcRename, &nfs3.RenameArgs{From: at(d, "bobs"), To: a}, nfs3.ErrAcces)
	nfs[nfs3.RemoveRes](ann, nfs3.ProcRemove, &a, nfs3.OK)
	b := at(d, "bobs")
	nfs[nfs3.RemoveRes](root, nfs3.ProcRemove, &b, nfs3.OK)
}

// TestSquash: whose ids the files get.
func TestSquash(t *testing.T) {
	for _, c := range []struct {
		squash  server.Squash
		cred    server.Cred
		uid, gd uint32
	}{
		{server.SquashNone, server.Cred{UID: 0, GID: 0}, 0, 0},
		{server.SquashNone, server.Cred{UID: 7, GID: 8}, 7, 8},
		{server.SquashNone, server.Cred{Anonymous: true}, 500, 600},
		{server.SquashRoot, server.Cred{UID: 0, GID: 0}, 500, 600},
		{server.SquashRoot, server.Cred{UID: 7, GID: 0}, 7, 600},
		{server.SquashRoot, server.Cred{UID: 7, GID: 8}, 7, 8},
		{server.SquashAll, server.Cred{UID: 7, GID: 8}, 500, 600},
		{server.SquashNone, server.Cred{UID: ^uint32(0), GID: ^uint32(0)}, 500, 600}, // to setfsuid: no change
		{server.SquashRoot, server.Cred{UID: ^uint32(0), GID: 8}, 500, 8},
		{server.SquashRoot, server.Cred{UID: 7, GID: ^uint32(0)}, 7, 600},
	} {
		s := newServer(t, mem.New(nil), func(cfg *server.Config) {
			e := &cfg.Exports[0]
			e.Squash, e.AnonUID, e.AnonGID = c.squash, 500, 600
		})
		if got := s.FirstSquash(c.cred); got.UID != c.uid || got.GID != c.gd {
			t.Errorf("%v of %+v: %+v", c.squash, c.cred, got)
		}
	}
	s := newServer(t, mem.New(nil), func(c *server.Config) { c.Exports[0].Squash, c.Exports[0].AnonGID = server.SquashRoot, 600 })
	gids := []uint32{5, 0, 6, 0}
	got := s.FirstSquash(server.Cred{UID: 7, GID: 8, GIDs: gids})
	if !slices.Equal(got.GIDs, []uint32{5, 600, 6, 600}) || gids[1] != 0 {
		t.Errorf("%+v, argument %v", got, gids)
	}
	// Who names one id does not make the other root's.
	if got := s.FirstSquash(server.Cred{}); got.UID != server.Nobody || got.GID != 600 {
		t.Errorf("anongid=600 alone: root is %+v", got)
	}
	if server.SquashAll.String() != "all_squash" || server.Squash(9).String() != "squash(9)" {
		t.Error("String")
	}

	// The default: root is nobody.
	s = newServer(t, mem.New(nil), func(c *server.Config) { c.Exports[0].Squash = server.SquashRoot })
	p := newPeer(t, s, sys(0, 0))
	if a := p.attr(p.create(p.root, "f", 0o644)); a.UID != server.Nobody || a.GID != server.Nobody {
		t.Errorf("%+v", a)
	}
	if a := p.attr(p.as(sys(7, 8)).create(p.root, "g", 0o644)); a.UID != 7 || a.GID != 8 {
		t.Errorf("%+v", a)
	}
}

// notOwners is a file system that cannot give files away.
type notOwners struct{ *mem.FS }

func (f notOwners) Info() backend.Info {
	i := f.FS.Info()
	i.Owners, i.UID, i.GID = false, 700, 701
	return i
}

// TestSquashUnprivileged: every caller is the user of a process that cannot act as others.
func TestSquashUnprivileged(t *testing.T) {
	for _, squash := range []server.Squash{server.SquashRoot, server.SquashAll, server.SquashNone} {
		s := newServer(t, notOwners{mem.New(nil)}, func(c *server.Config) { c.Exports[0].Squash = squash })
		for _, c := range []server.Cred{{}, {UID: 5, GID: 6, GIDs: []uint32{7}}, {UID: ^uint32(0)}} {
			if got := s.FirstSquash(c); got.UID != 700 || got.GID != 701 || got.GIDs != nil {
				t.Errorf("%v: %+v is %+v", squash, c, got)
			}
		}
	}
}
