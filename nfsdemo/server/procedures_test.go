package server_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

func setattr(p *peer, h nfs3.FileHandle, s nfs3.SetAttr, want nfs3.Status) *nfs3.SetAttrRes {
	p.Helper()
	return nfs[nfs3.SetAttrRes](p, nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Handle: h, Attr: s}, want)
}

func TestHandleErrors(t *testing.T) {
	onBoth(t, func(p *peer) {
		other := append(nfs3.FileHandle{}, p.root...)
		other[0] ^= 1 // the export's number
		for name, c := range map[string]struct {
			h    nfs3.FileHandle
			want nfs3.Status
		}{
			"empty": {nil, nfs3.ErrBadHandle}, "4 octets": {p.root[:4], nfs3.ErrBadHandle},
			"cut": {p.root[:len(p.root)-1], nfs3.ErrBadHandle}, "long": {append(append(nfs3.FileHandle{}, p.root...), 0), nfs3.ErrBadHandle},
			"64 octets": {make(nfs3.FileHandle, 64), nfs3.ErrStale}, "no such export": {other, nfs3.ErrStale},
		} {
			p.Log(name)
			if _, seals := p.srv.FirstFS().(*dir.FS); seals && (name == "cut" || name == "long") {
				c.want = nfs3.ErrStale // it cannot be told from a handle of another key
			}
			nfs[nfs3.GetAttrRes](p, nfs3.ProcGetAttr, &nfs3.HandleArgs{Handle: c.h}, c.want)
			p.lookup(c.h, "x", c.want)
			nfs[nfs3.FSInfoRes](p, nfs3.ProcFSInfo, &nfs3.HandleArgs{Handle: c.h}, c.want)
			nfs[nfs3.PathConfRes](p, nfs3.ProcPathConf, &nfs3.HandleArgs{Handle: c.h}, c.want)
			nfs[nfs3.FSStatRes](p, nfs3.ProcFSStat, &nfs3.HandleArgs{Handle: c.h}, c.want)
			nfs[nfs3.ReadRes](p, nfs3.ProcRead, &nfs3.ReadArgs{Handle: c.h}, c.want)
			nfs[nfs3.WriteRes](p, nfs3.ProcWrite, &nfs3.WriteArgs{Handle: c.h}, c.want)
			nfs[nfs3.CommitRes](p, nfs3.ProcCommit, &nfs3.CommitArgs{Handle: c.h}, c.want)
			setattr(p, c.h, nfs3.SetAttr{}, c.want)
			nfs[nfs3.RenameRes](p, nfs3.ProcRename, &nfs3.RenameArgs{From: at(p.root, "a"), To: at(c.h, "b")}, c.want)
			nfs[nfs3.LinkRes](p, nfs3.ProcLink, &nfs3.LinkArgs{Handle: c.h, Link: at(p.root, "b")}, c.want)
		}
	})
}

func TestSetAttr(t *testing.T) {
	onBoth(t, func(p *peer) {
		f := p.create(p.root, "f", 0o644)
		p.write(f, 0, "hello, world")
		setattr(p, f, nfs3.SetAttr{SetSize: true, Size: 5, SetMode: true, Mode: 0o600}, nfs3.OK)
		if a := p.attr(f); a.Size != 5 || a.Mode != 0o600 {
			p.Errorf("%+v", a)
		}
		uid, gid := uint32(10), uint32(20)
		if info := p.srv.FirstFS().Info(); info.Owners {
			setattr(p, f, nfs3.SetAttr{SetUID: true, UID: uid, SetGID: true, GID: gid}, nfs3.OK)
		} else {
			uid, gid = info.UID, info.GID
			setattr(p, f, nfs3.SetAttr{SetUID: true, UID: uid + 1}, nfs3.ErrPerm)
		}
		when := nfs3.Time{Sec: 1234567890, Nsec: 987654321}
		r := setattr(p, f, nfs3.SetAttr{MtimeHow: nfs3.ClientTime, Mtime: when, AtimeHow: nfs3.ServerTime}, nfs3.OK)
		if a := r.Wcc.After.Attr; a.UID != uid || a.GID != gid || a.Mtime != when || !r.Wcc.After.Present {
			p.Errorf("%+v", r.Wcc)
		}
		setattr(p, p.root, nfs3.SetAttr{SetSize: true}, nfs3.ErrInval)
		before := p.attr(f)
		setattr(p, f, nfs3.SetAttr{}, nfs3.OK)
		if after := p.attr(f); after.Ctime != before.Ctime {
			p.Error("an empty SETATTR changed the ctime")
		}
	})
}

func TestSetAttrGuard(t *testing.T) {
	onBoth(t, func(p *peer) {
		f := p.create(p.root, "f", 0o644)
		args := nfs3.SetAttrArgs{Handle: f, Attr: mode(0o600), Guard: true, Ctime: p.attr(f).Ctime}
		nfs[nfs3.SetAttrRes](p, nfs3.ProcSetAttr, &args, nfs3.OK)
		args.Attr.Mode = 0o777
		r := nfs[nfs3.SetAttrRes](p, nfs3.ProcSetAttr, &args, nfs3.ErrNotSync)
		if a := p.attr(f); a.Mode != 0o600 || !r.Wcc.After.Present {
			p.Errorf("%o, %+v", a.Mode, r.Wcc)
		}
	})
}

// TestSetAttrPermissions: which callers may change which attributes.
func TestSetAttrPermissions(t *testing.T) {
	root := newPeer(t, newServer(t, mem.New(nil)), sys(0, 0))
	f := root.create(root.root, "f", 0o664)
	setattr(root, f, nfs3.SetAttr{SetUID: true, UID: 10, SetGID: true, GID: 20}, nfs3.OK)
	owner, member, other := root.as(sys(10, 1, 20, 30)), root.as(sys(11, 20)), root.as(sys(12, 12))
	client := nfs3.SetAttr{MtimeHow: nfs3.ClientTime}
	server := nfs3.SetAttr{AtimeHow: nfs3.ServerTime, MtimeHow: nfs3.ServerTime}
	size := nfs3.SetAttr{SetSize: true, Size: 1}
	for _, c := range []struct {
		name string
		p    *peer
		set  nfs3.SetAttr
		want nfs3.Status
	}{
		{"owner chmod", owner, mode(0o4664), nfs3.OK},
		{"member chmod", member, mode(0o777), nfs3.ErrPerm},
		{"owner gives away", owner, nfs3.SetAttr{SetUID: true, UID: 11}, nfs3.ErrPerm},
		{"owner to itself", owner, nfs3.SetAttr{SetUID: true, UID: 10}, nfs3.OK},
		{"owner chgrp to a group of its", owner, nfs3.SetAttr{SetGID: true, GID: 30}, nfs3.OK},
		{"owner chgrp back", owner, nfs3.SetAttr{SetGID: true, GID: 20}, nfs3.OK},
		{"owner chgrp elsewhere", owner, nfs3.SetAttr{SetGID: true, GID: 31}, nfs3.ErrPerm},
		{"member chgrp", member, nfs3.SetAttr{SetGID: true, GID: 20}, nfs3.ErrPerm},
		{"owner times", owner, client, nfs3.OK},
		{"member times", member, client, nfs3.ErrPerm},
		{"member touch", member, server, nfs3.OK},
		{"other touch", other, server, nfs3.ErrAcces},
		{"member size", member, size, nfs3.OK},
		{"other size", other, size, nfs3.ErrAcces},
		{"root gives away", root, nfs3.SetAttr{SetUID: true, UID: 10}, nfs3.OK},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := *c.p
			q.T = t
			setattr(&q, f, c.set, c.want)
		})
	}
	// Nothing is done when one part of a change is forbidden.
	before := root.attr(f)
	setattr(owner, f, nfs3.SetAttr{SetSize: true, Size: 100, SetUID: true, UID: 99}, nfs3.ErrPerm)
	if after := root.attr(f); after != before {
		t.Errorf("half a change: %+v, was %+v", after, before)
	}
}

// TestSetIDBits: the set-id bits go when somebody unprivileged changes the file.
func TestSetIDBits(t *testing.T) {
	root := newPeer(t, newServer(t, mem.New(nil)), sys(0, 0))
	user := root.as(sys(10, 10))
	for name, change := range map[string]func(h nfs3.FileHandle){
		"write":    func(h nfs3.FileHandle) { user.write(h, 0, "x") },
		"truncate": func(h nfs3.FileHandle) { setattr(user, h, nfs3.SetAttr{SetSize: true}, nfs3.OK) },
		"chgrp":    func(h nfs3.FileHandle) { setattr(user, h, nfs3.SetAttr{SetGID: true, GID: 10}, nfs3.OK) },
	} {
		f := root.create(root.root, name, 0o777)
		setattr(root, f, nfs3.SetAttr{SetUID: true, UID: 10, SetGID: true, GID: 10, SetMode: true, Mode: 0o6777}, nfs3.OK)
		change(f)
		if a := root.attr(f); a.Mode != 0o777 {
			t.Errorf("%s: mode %o", name, a.Mode)
		}
		setattr(root, f, mode(0o6777), nfs3.OK)
		root.write(f, 0, "y")
		if a := root.attr(f); a.Mode != 0o6777 {
			t.Errorf("root's write: mode %o", a.Mode)
		}
	}
	f := root.create(root.root, "g", 0o777)
	setattr(root, f, nfs3.SetAttr{SetUID: true, UID: 10, SetGID: true, GID: 99}, nfs3.OK)
	setattr(user, f, mode(0o2755), nfs3.OK) // not a member of group 99
	if a := root.attr(f); a.Mode != 0o755 {
		t.Errorf("mode %o", a.Mode)
	}
}

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

func TestReadWrite(t *testing.T) {
	onBoth(t, func(p *peer) {
		f := p.create(p.root, "f", 0o644)
		w := p.write(f, 0, "hello, world")
		if w.Count != 12 || !w.Wcc.After.Present || w.Wcc.After.Attr.Size != 12 {
			p.Errorf("%+v", w)
		}
		for _, c := range []struct {
			off  uint64
			n    uint32
			want string
			eof  bool
		}{
			{0, 100, "hello, world", true},
			{0, 12, "hello, world", true},
			{0, 5, "hello", false},
			{7, 5, "world", true},
			{7, 4, "worl", false},
			{3, 0, "", false},
			{12, 5, "", true},
			{12, 0, "", true},
			{1 << 40, 5, "", true},
			{^uint64(0), 1<<32 - 1, "", true},
		} {
			r := p.read(f, c.off, c.n)
			if string(r.Data) != c.want || r.EOF != c.eof || int(r.Count) != len(c.want) || r.Attr.Attr.Size != 12 {
				p.Errorf("%d at %d: %q, eof %v, count %d", c.n, c.off, r.Data, r.EOF, r.Count)
			}
		}
		p.write(f, 5<<20, "far")
		if r := p.read(f, 5<<20-2, 10); string(r.Data) != "\x00\x00far" || !r.EOF {
			p.Errorf("%q", r.Data)
		}
		if w := p.write(f, 1<<40, ""); w.Count != 0 || w.Wcc.After.Attr.Size != 5<<20+3 {
			p.Errorf("WRITE of nothing: %+v", w)
		}
	})
}

func TestReadWriteErrors(t *testing.T) {
	onBoth(t, func(p *peer) {
		f := p.create(p.root, "f", 0o600)
		read := func(q *peer, h nfs3.FileHandle, want nfs3.Status) {
			p.Helper()
			nfs[nfs3.ReadRes](q, nfs3.ProcRead, &nfs3.ReadArgs{Handle: h, Count: 1}, want)
		}
		write := func(q *peer, h nfs3.FileHandle, off uint64, count uint32, data string, want nfs3.Status) {
			p.Helper()
			a := nfs3.WriteArgs{Handle: h, Offset: off, Count: count, Data: []byte(data)}
			nfs[nfs3.WriteRes](q, nfs3.ProcWrite, &a, want)
		}
		link := nfs[nfs3.SymlinkRes](p, nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: at(p.root, "l"), Path: "f"}, nfs3.OK).Handle.Handle
		for _, h := range []nfs3.FileHandle{p.root, link} {
			read(p, h, nfs3.ErrInval)
			write(p, h, 0, 1, "x", nfs3.ErrInval)
			nfs[nfs3.CommitRes](p, nfs3.ProcCommit, &nfs3.CommitArgs{Handle: h}, nfs3.ErrIO)
		}
		write(p, f, 0, 2, "x", nfs3.ErrInval)
		write(p, f, 0, 0, "x", nfs3.ErrInval)
		write(p, f, 1<<63-1, 1, "x", nfs3.ErrFBig)
		write(p, f, ^uint64(0), 1, "x", nfs3.ErrFBig)
		if !p.srv.FirstFS().Info().Owners {
			return // everybody is the owner
		}
		user := p.as(sys(1000, 1000))
		read(user, f, nfs3.ErrAcces)
		write(user, f, 0, 1, "x", nfs3.ErrAcces)
		setattr(p, f, mode(0o711), nfs3.OK)
		read(user, f, nfs3.OK)
		write(user, f, 0, 1, "x", nfs3.ErrAcces)
		// The owner may, whatever the mode says.
		mine := user.create(p.mkdir(p.root, "d", 0o777), "mine", 0)
		write(user, mine, 0, 1, "x", nfs3.OK)
		read(user, mine, nfs3.OK)
	})
}

// TestMaxIO: larger READs are short, larger WRITEs are cut.
func TestMaxIO(t *testing.T) {
	s := newServer(t, mem.New(nil), func(c *server.Config) { c.MaxIO = 8192 })
	p := newPeer(t, s, sys(0, 0))
	f := p.create(p.root, "f", 0o644)
	data := string(bytes.Repeat([]byte("0123456789abcdef"), 1024))
	if w := p.write(f, 0, data); w.Count != 8192 {
		t.Errorf("%d octets written", w.Count)
	}
	p.write(f, 8192, data[8192:])
	if r := p.read(f, 0, 1<<31); r.Count != 8192 || r.EOF || string(r.Data) != data[:8192] {
		t.Errorf("%d octets read, eof %v", r.Count, r.EOF)
	}
	if r := nfs[nfs3.FSInfoRes](p, nfs3.ProcFSInfo, &nfs3.HandleArgs{Handle: p.root}, nfs3.OK); r.RTMax != 8192 || r.WTMax != 8192 || r.DTPref != 8192 {
		t.Errorf("%+v", r)
	}
}

func TestStability(t *testing.T) {
	onBoth(t, func(p *peer) {
		f := p.create(p.root, "f", 0o644)
		var verf nfs3.WriteVerf
		for how := nfs3.Unstable; how <= nfs3.FileSync; how++ {
			r := nfs[nfs3.WriteRes](p, nfs3.ProcWrite, &nfs3.WriteArgs{Handle: f, Count: 1, Data: []byte("x"), Stable: how}, nfs3.OK)
			if r.Committed < how {
				p.Errorf("asked %v, got %v", how, r.Committed)
			}
			verf = r.Verf
		}
		c := nfs[nfs3.CommitRes](p, nfs3.ProcCommit, &nfs3.CommitArgs{Handle: f}, nfs3.OK)
		if c.Verf != verf || verf == (nfs3.WriteVerf{}) {
			p.Errorf("verifiers %x, %x", c.Verf, verf)
		}
	})
}

// TestWcc: "before" is there only when it is true.
func TestWcc(t *testing.T) {
	onBoth(t, func(p *peer) {
		info := p.srv.FirstFS().Info()
		f := p.create(p.root, "f", 0o644)
		before := p.attr(f)
		w := p.write(f, 0, "x")
		if w.Wcc.Before.Present != info.AtomicWcc {
			p.Fatalf("before: %v", w.Wcc.Before.Present)
		}
		if info.AtomicWcc && w.Wcc.Before.Attr != before.Wcc() {
			p.Errorf("%+v, want %+v", w.Wcc.Before.Attr, before.Wcc())
		}
		r := nfs[nfs3.CreateRes](p, nfs3.ProcCreate, &nfs3.CreateArgs{Where: at(p.root, "g")}, nfs3.OK)
		if r.DirWcc.Before.Present != info.AtomicWcc || r.DirWcc.After.Attr != p.attr(p.root) {
			p.Errorf("%+v", r.DirWcc)
		}
		d := p.mkdir(p.root, "d", 0o755)
		l := nfs[nfs3.LinkRes](p, nfs3.ProcLink, &nfs3.LinkArgs{Handle: f, Link: at(d, "f")}, nfs3.OK)
		if l.Attr.Attr != p.attr(f) || l.DirWcc.After.Attr != p.attr(d) {
			p.Errorf("%+v", l)
		}
		m := nfs[nfs3.RenameRes](p, nfs3.ProcRename, &nfs3.RenameArgs{From: at(p.root, "g"), To: at(d, "g")}, nfs3.OK)
		if m.FromWcc.After.Attr != p.attr(p.root) || m.ToWcc.After.Attr != p.attr(d) {
			p.Errorf("%+v", m)
		}
	})
}

// lazyWrite does a WRITE of n octets in seg and returns its status.
func (h *handMade) lazyWrite(f nfs3.FileHandle, off uint64, seg chunks.Segment) nfs3.Status {
	h.Helper()
	a := nfs3.WriteArgs{Handle: f, Offset: off, Count: seg.Length, Stable: nfs3.Unstable}
	args := xdr.AppendUint32(xdr.Encode(nil, a.Head()), a.Count)
	got, r, res := h.rdma(nfs3.ProcWrite, readAt(h.callSize()+uint32(len(args)), seg), args)
	d := xdr.NewDecoder(res)
	var w nfs3.WriteRes
	if err := xdr.Decode(&d, &w).Err(); got.Type != rpcrdma.MsgTypeMsg || r.Err() != nil || err != nil {
		h.Fatalf("%+v, %v, %v", got, r.Err(), err)
	}
	if w.Status == nfs3.OK && w.Count != seg.Length {
		h.Errorf("%d octets written of %d", w.Count, seg.Length)
	}
	return w.Status
}

// serve changes what is served.
func (h *handMade) serve(e server.Export) {
	h.Helper()
	noErr(h, h.srv.SetExports([]server.Export{e}))
}

// TestWriteRefusedUnread: a WRITE that cannot be done is refused without an octet of its data
// being read: its chunk names memory that is not there, and the connection lives.
func TestWriteRefusedUnread(t *testing.T) {
	fsys := mem.New(&mem.Config{Capacity: 1 << 19})
	h := newHandMadeOver(t, newServer(t, fsys))
	f, private := h.create(h.root, "f", 0o644), h.create(h.root, "private", 0o600)
	gone := h.create(h.root, "gone", 0o644)
	nfs[nfs3.RemoveRes](h.peer, nfs3.ProcRemove, &nfs3.DirOpArgs{Dir: h.root, Name: "gone"}, nfs3.OK)
	none := chunks.Segment{Handle: 0xdead00, Length: 100_000}
	root := h.cred
	for _, tt := range []struct {
		name string
		cred xdr.Auth
		fh   nfs3.FileHandle
		off  uint64
		size uint32
		want nfs3.Status
	}{
		{"stale handle", root, gone, 0, 100_000, nfs3.ErrStale},
		{"bad handle", root, nfs3.FileHandle("?"), 0, 100_000, nfs3.ErrBadHandle},
		{"no permission", sys(1000, 1000), private, 0, 100_000, nfs3.ErrAcces},
		{"a directory", root, h.root, 0, 100_000, nfs3.ErrInval},
		{"too far", root, f, 1<<63 - 1, 100_000, nfs3.ErrFBig},
		{"no space", root, f, 0, 600_000, nfs3.ErrNoSpc},
	} {
		h.cred, none.Length = tt.cred, tt.size
		if got := h.lazyWrite(tt.fh, tt.off, none); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	h.cred = root
	h.serve(server.Export{Path: "/export", FS: fsys, Squash: server.SquashNone, ReadOnly: true})
	if got := h.lazyWrite(f, 8, none); got != nfs3.ErrROFS {
		t.Errorf("read-only: %v", got)
	}
	h.serve(server.Export{Path: "/export", FS: fsys, Squash: server.SquashNone})
	if n := h.conn.Stats().ReadsIn; n != 0 {
		t.Errorf("%d RDMA Reads", n)
	}
	data := bytes.Repeat([]byte("stag!"), 20_000)
	for _, off := range []uint64{0, 1, 16384, 50_001} {
		if got := h.lazyWrite(f, off, h.offer(data, region.RemoteRead)); got != nfs3.OK {
			t.Errorf("at %d: %v", off, got)
		}
		if r := h.read(f, off, 100_000); !bytes.Equal(r.Data, data) {
			t.Errorf("at %d: %d octets, other ones", off, len(r.Data))
		}
	}
	if h.conn.Stats().ReadsIn == 0 {
		t.Error("no RDMA Read was counted")
	}
}

func doCreate(p *peer, a nfs3.CreateArgs, want nfs3.Status) *nfs3.CreateRes {
	p.Helper()
	return nfs[nfs3.CreateRes](p, nfs3.ProcCreate, &a, want)
}

func TestCreate(t *testing.T) {
	onBoth(t, func(p *peer) {
		where := at(p.root, "f")
		r := doCreate(p, nfs3.CreateArgs{Where: where, Mode: nfs3.Guarded, Attr: mode(0o2640)}, nfs3.OK)
		if a := r.Attr.Attr; !r.Attr.Present || a.Mode != 0o2640 || a.Type != nfs3.TypeReg || !r.DirWcc.After.Present {
			p.Errorf("%+v", r)
		}
		if l := p.lookup(p.root, "f", nfs3.OK); string(l.Handle) != string(r.Handle.Handle) || l.Attr.Attr.FileID != r.Attr.Attr.FileID {
			p.Error("LOOKUP finds another file")
		}
		doCreate(p, nfs3.CreateArgs{Where: where, Mode: nfs3.Guarded}, nfs3.ErrExist)
		p.write(r.Handle.Handle, 0, "content")
		// Unchecked: the file is kept, with its mode; the size counts if asked for.
		again := doCreate(p, nfs3.CreateArgs{Where: where, Attr: mode(0o777)}, nfs3.OK)
		if a := again.Attr.Attr; string(again.Handle.Handle) != string(r.Handle.Handle) || a.Size != 7 || a.Mode&0o777 != 0o640 {
			p.Errorf("%+v", a)
		}
		cut := doCreate(p, nfs3.CreateArgs{Where: where, Attr: nfs3.SetAttr{SetSize: true, Size: 3}}, nfs3.OK)
		if a := cut.Attr.Attr; a.Size != 3 {
			p.Errorf("%+v", a)
		}
		p.mkdir(p.root, "d", 0o755)
		for m := nfs3.Unchecked; m <= nfs3.Exclusive; m++ {
			doCreate(p, nfs3.CreateArgs{Where: at(p.root, "d"), Mode: m}, nfs3.ErrExist)
		}
		if a := doCreate(p, nfs3.CreateArgs{Where: at(p.root, "plain")}, nfs3.OK).Attr.Attr; a.Mode != 0o644 {
			p.Errorf("default mode %o", a.Mode)
		}
		big := doCreate(p, nfs3.CreateArgs{Where: at(p.root, "big"), Attr: nfs3.SetAttr{SetSize: true, Size: 1 << 33}}, nfs3.OK)
		if a := big.Attr.Attr; a.Size != 1<<33 {
			p.Errorf("size %d", a.Size)
		}
	})
}

func TestCreateExclusive(t *testing.T) {
	onBoth(t, func(p *peer) {
		args := nfs3.CreateArgs{Where: at(p.root, "f"), Mode: nfs3.Exclusive, Verf: nfs3.CreateVerf{0xde, 0xad, 1, 2, 0xbe, 0xef, 3, 4}}
		first := doCreate(p, args, nfs3.OK)
		if a := first.Attr.Attr; a.Mode != 0o600 {
			p.Errorf("mode %o before the SETATTR", a.Mode)
		}
		second := doCreate(p, args, nfs3.OK)
		if string(first.Handle.Handle) != string(second.Handle.Handle) {
			p.Error("the retransmission made a second file")
		}
		other := args
		other.Verf[7]++
		doCreate(p, other, nfs3.ErrExist)
		server := nfs3.SetAttr{SetMode: true, Mode: 0o644, AtimeHow: nfs3.ServerTime, MtimeHow: nfs3.ServerTime}
		setattr(p, first.Handle.Handle, server, nfs3.OK)
		doCreate(p, args, nfs3.ErrExist)
	})
}

// TestCreateBesideRemove: an unchecked CREATE whose file another client removes, after it was found and before its size
// is set, makes a new one.
func TestCreateBesideRemove(t *testing.T) {
	fsys := &removingFS{FS: mem.New(nil)}
	p := newPeer(t, newServer(t, fsys), sys(0, 0))
	old := p.create(p.root, "f", 0o600)
	fsys.armed = true
	r := doCreate(p, nfs3.CreateArgs{Where: at(p.root, "f"), Attr: nfs3.SetAttr{SetSize: true, Size: 3}}, nfs3.OK)
	l := p.lookup(p.root, "f", nfs3.OK)
	if fsys.armed || string(r.Handle.Handle) == string(old) || string(r.Handle.Handle) != string(l.Handle) || l.Attr.Attr.Size != 3 {
		t.Errorf("%+v, then %+v", r, l)
	}
}

// removingFS removes the next name that a LOOKUP finds, if it is armed.
type removingFS struct {
	*mem.FS
	armed bool
}

type removingNode struct {
	backend.Node
	fs *removingFS
}

func (f *removingFS) Resolve(from net.Addr, h []byte) (backend.Node, error) {
	n, err := f.FS.Resolve(from, h)
	return removingNode{n, f}, err
}

func (n removingNode) As(who *caller.Identity) backend.Node {
	return removingNode{n.Node.As(who), n.fs}
}

func (n removingNode) Lookup(name string) (backend.Node, nfs3.Attr, error) {
	f, a, err := n.Node.Lookup(name)
	if err == nil && n.fs.armed {
		n.fs.armed = false
		err = n.Remove(name, false)
	}
	return f, a, err
}

// TestCreatePermissions: an unchecked CREATE of a file one may not write.
func TestCreatePermissions(t *testing.T) {
	root := newPeer(t, newServer(t, mem.New(nil)), sys(0, 0))
	d := root.mkdir(root.root, "d", 0o755)
	root.create(d, "f", 0o644)
	user := root.as(sys(10, 10))
	doCreate(user, nfs3.CreateArgs{Where: at(d, "f")}, nfs3.OK)
	doCreate(user, nfs3.CreateArgs{Where: at(d, "f"), Attr: nfs3.SetAttr{SetSize: true}}, nfs3.ErrAcces)
	doCreate(user, nfs3.CreateArgs{Where: at(d, "f"), Mode: nfs3.Guarded}, nfs3.ErrExist)
	doCreate(user, nfs3.CreateArgs{Where: at(d, "new")}, nfs3.ErrAcces)
	nfs[nfs3.MkdirRes](user, nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: at(d, "f")}, nfs3.ErrExist)
	nfs[nfs3.MkdirRes](user, nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: at(d, "new")}, nfs3.ErrAcces)
}

// TestOwner: whose the new files are.
func TestOwner(t *testing.T) {
	onBoth(t, func(p *peer) {
		if !p.srv.FirstFS().Info().Owners {
			p.Skip("this process cannot give files away")
		}
		shared := p.mkdir(p.root, "shared", 0o2777)
		setattr(p, shared, nfs3.SetAttr{SetGID: true, GID: 50, SetMode: true, Mode: 0o2777}, nfs3.OK)
		open := p.mkdir(p.root, "open", 0o777)
		user := p.as(sys(10, 11, 12))
		check := func(what string, h nfs3.FileHandle, uid, gid, bits uint32) {
			p.Helper()
			if a := p.attr(h); a.UID != uid || a.GID != gid || a.Mode&0o2000 != bits {
				p.Errorf("%s: %d:%d mode %o", what, a.UID, a.GID, a.Mode)
			}
		}
		check("file", user.create(open, "f", 0o600), 10, 11, 0)
		check("directory", user.mkdir(open, "d", 0o700), 10, 11, 0)
		check("file of the group", user.create(shared, "f", 0o600), 10, 50, 0)
		check("directory of the group", user.mkdir(shared, "d", 0o700), 10, 50, 0o2000)
		grp := nfs3.SetAttr{SetGID: true, GID: 12, SetUID: true, UID: 99}
		r := doCreate(user, nfs3.CreateArgs{Where: at(open, "asked"), Attr: grp}, nfs3.OK)
		check("asked for", r.Handle.Handle, 10, 12, 0)
		r = doCreate(p, nfs3.CreateArgs{Where: at(open, "roots"), Attr: grp}, nfs3.OK)
		check("root asked for", r.Handle.Handle, 99, 12, 0)
		l := nfs[nfs3.SymlinkRes](user, nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: at(open, "l"), Path: "f"}, nfs3.OK)
		check("link", l.Handle.Handle, 10, 11, 0)
		if a := p.attr(p.lookup(open, "f", nfs3.OK).Handle); a.UID != 10 {
			p.Errorf("the target got the owner of the link: %+v", a)
		}
	})
}

func TestMkdirSymlinkMknod(t *testing.T) {
	onBoth(t, func(p *peer) {
		d := nfs[nfs3.MkdirRes](p, nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: at(p.root, "d"), Attr: mode(0o711)}, nfs3.OK)
		if a := d.Attr.Attr; a.Type != nfs3.TypeDir || a.Mode != 0o711 {
			p.Errorf("%+v", a)
		}
		nfs[nfs3.MkdirRes](p, nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: at(p.root, "d")}, nfs3.ErrExist)
		long := strings.Repeat("x/", 2000)
		for target, want := range map[string]nfs3.Status{
			"../../etc/passwd": nfs3.OK, "/": nfs3.OK, long: nfs3.OK, "": nfs3.ErrAcces, strings.Repeat("x", 4096): nfs3.ErrNameTooLong,
		} {
			a := nfs3.SymlinkArgs{Where: at(p.root, "l"), Path: target}
			r := nfs[nfs3.SymlinkRes](p, nfs3.ProcSymlink, &a, want)
			if want != nfs3.OK {
				continue
			}
			l := nfs[nfs3.ReadLinkRes](p, nfs3.ProcReadLink, &nfs3.HandleArgs{Handle: r.Handle.Handle}, nfs3.OK)
			if l.Path != target || l.Attr.Attr.Type != nfs3.TypeLnk {
				p.Errorf("%q", l.Path)
			}
			rm := at(p.root, "l")
			nfs[nfs3.RemoveRes](p, nfs3.ProcRemove, &rm, nfs3.OK)
		}
		nfs[nfs3.ReadLinkRes](p, nfs3.ProcReadLink, &nfs3.HandleArgs{Handle: p.root}, nfs3.ErrInval)
		for typ, want := range map[nfs3.FileType]nfs3.Status{
			nfs3.TypeFIFO: nfs3.OK, nfs3.TypeSock: nfs3.OK, nfs3.TypeReg: nfs3.ErrBadType, nfs3.TypeDir: nfs3.ErrBadType, nfs3.TypeLnk: nfs3.ErrBadType,
		} {
			a := nfs3.MknodArgs{Where: at(p.root, typ.String()), Type: typ, Attr: mode(0o600)}
			if r := nfs[nfs3.MknodRes](p, nfs3.ProcMknod, &a, want); want == nfs3.OK && r.Attr.Attr.Type != typ {
				p.Errorf("%+v", r.Attr)
			}
		}
		user := p.as(sys(10, 10))
		open := p.mkdir(p.root, "open", 0o777)
		for _, typ := range []nfs3.FileType{nfs3.TypeChr, nfs3.TypeBlk} {
			a := nfs3.MknodArgs{Where: at(open, "dev"), Type: typ, Rdev: nfs3.Device{Major: 1, Minor: 3}}
			nfs[nfs3.MknodRes](user, nfs3.ProcMknod, &a, nfs3.ErrPerm)
		}
	})
}

// TestNameRules: the answer of every procedure to invalid names.
func TestNameRules(t *testing.T) {
	onBoth(t, func(p *peer) {
		f := p.create(p.root, "f", 0o644)
		for _, c := range []struct {
			name                                       string
			look, create, remove, rmdir, rename, linkd nfs3.Status
		}{
			{"", nfs3.ErrAcces, nfs3.ErrAcces, nfs3.ErrAcces, nfs3.ErrAcces, nfs3.ErrAcces, nfs3.ErrAcces},
			{"a/b", nfs3.ErrAcces, nfs3.ErrAcces, nfs3.ErrAcces, nfs3.ErrAcces, nfs3.ErrAcces, nfs3.ErrAcces},
			{"a\x00", nfs3.ErrAcces, nfs3.ErrAcces, nfs3.ErrAcces, nfs3.ErrAcces, nfs3.ErrAcces, nfs3.ErrAcces},
			{strings.Repeat("n", 256), nfs3.ErrNameTooLong, nfs3.ErrNameTooLong, nfs3.ErrNameTooLong, nfs3.ErrNameTooLong, nfs3.ErrNameTooLong, nfs3.ErrNameTooLong},
			{".", nfs3.OK, nfs3.ErrExist, nfs3.ErrAcces, nfs3.ErrInval, nfs3.ErrInval, nfs3.ErrExist},
			{"..", nfs3.OK, nfs3.ErrExist, nfs3.ErrAcces, nfs3.ErrExist, nfs3.ErrInval, nfs3.ErrExist},
			{"none", nfs3.ErrNoEnt, nfs3.OK, nfs3.OK, nfs3.ErrNoEnt, nfs3.ErrNoEnt, nfs3.OK},
		} {
			w := at(p.root, c.name)
			p.lookup(p.root, c.name, c.look)
			nfs[nfs3.RmdirRes](p, nfs3.ProcRmdir, &w, c.rmdir)
			nfs[nfs3.RenameRes](p, nfs3.ProcRename, &nfs3.RenameArgs{From: w, To: at(p.root, "t")}, c.rename)
			if c.name != "none" {
				nfs[nfs3.RenameRes](p, nfs3.ProcRename, &nfs3.RenameArgs{From: at(p.root, "f"), To: w}, c.rename)
			}
			for m := nfs3.Unchecked; m <= nfs3.Exclusive; m++ {
				doCreate(p, nfs3.CreateArgs{Where: w, Mode: m}, c.create)
				if c.create == nfs3.OK {
					nfs[nfs3.RemoveRes](p, nfs3.ProcRemove, &w, nfs3.OK)
				}
			}
			nfs[nfs3.LinkRes](p, nfs3.ProcLink, &nfs3.LinkArgs{Handle: f, Link: w}, c.linkd)
			nfs[nfs3.RemoveRes](p, nfs3.ProcRemove, &w, c.remove)
			nfs[nfs3.MkdirRes](p, nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: w}, c.create)
			if c.create == nfs3.OK {
				nfs[nfs3.RmdirRes](p, nfs3.ProcRmdir, &w, nfs3.OK)
			}
			nfs[nfs3.SymlinkRes](p, nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: w, Path: "x"}, c.create)
			if c.create == nfs3.OK {
				nfs[nfs3.RemoveRes](p, nfs3.ProcRemove, &w, nfs3.OK)
			}
			nfs[nfs3.MknodRes](p, nfs3.ProcMknod, &nfs3.MknodArgs{Where: w, Type: nfs3.TypeFIFO}, c.create)
		}
		for _, d := range []string{".", ".."} {
			if l := p.lookup(p.root, d, nfs3.OK); string(l.Handle) != string(p.root) {
				p.Errorf("%q of the root is not the root", d)
			}
		}
	})
}

// TestTwoExports: nothing goes from one to the other.
func TestTwoExports(t *testing.T) {
	s := newServer(t, mem.New(nil), func(c *server.Config) {
		c.Exports = append(c.Exports, server.Export{Path: "/other", FS: mem.New(nil), Squash: server.SquashNone})
	})
	p := newPeer(t, s, sys(0, 0))
	other := p.mount("/other")
	f := p.create(p.root, "f", 0o644)
	nfs[nfs3.RenameRes](p, nfs3.ProcRename, &nfs3.RenameArgs{From: at(p.root, "f"), To: at(other, "f")}, nfs3.ErrXDev)
	nfs[nfs3.LinkRes](p, nfs3.ProcLink, &nfs3.LinkArgs{Handle: f, Link: at(other, "f")}, nfs3.ErrXDev)
	p.lookup(other, "f", nfs3.ErrNoEnt)
	if a, b := p.attr(p.root), p.attr(other); a.FSID == b.FSID {
		t.Error("two file systems, one fsid")
	}
	// A handle of one export with the number of the other is nobody's.
	mixed := append(append(nfs3.FileHandle{}, other[:4]...), f[4:]...)
	nfs[nfs3.GetAttrRes](p, nfs3.ProcGetAttr, &nfs3.HandleArgs{Handle: mixed}, nfs3.ErrStale)
}

// page is one READDIR or READDIRPLUS.
func (p *peer) page(dir nfs3.FileHandle, plus bool, cookie uint64, verf nfs3.CookieVerf, names, size uint32, want nfs3.Status) *nfs3.ReadDirPlusRes {
	p.Helper()
	if plus {
		a := nfs3.ReadDirPlusArgs{Dir: dir, Cookie: cookie, Verf: verf, DirCount: names, MaxCount: size}
		return nfs[nfs3.ReadDirPlusRes](p, nfs3.ProcReadDirPlus, &a, want)
	}
	a := nfs3.ReadDirArgs{Dir: dir, Cookie: cookie, Verf: verf, Count: size}
	r := nfs[nfs3.ReadDirRes](p, nfs3.ProcReadDir, &a, want)
	out := &nfs3.ReadDirPlusRes{Status: r.Status, Attr: r.Attr, Verf: r.Verf, EOF: r.EOF}
	for _, e := range r.Entries {
		out.Entries = append(out.Entries, nfs3.DirPlusEntry{DirEntry: e})
	}
	return out
}

// list reads a whole directory and checks the bounds of every page.
func (p *peer) list(dir nfs3.FileHandle, plus bool, names, size uint32) (all []nfs3.DirPlusEntry) {
	p.Helper()
	var (
		cookie uint64
		verf   nfs3.CookieVerf
	)
	for range 10000 {
		r := p.page(dir, plus, cookie, verf, names, size, nfs3.OK)
		var octets, nameOctets int
		for i := range r.Entries {
			e := &r.Entries[i]
			nameOctets += e.DirEntry.Size() - 4
			octets += e.DirEntry.Size()
			if plus {
				octets += e.Size() - e.DirEntry.Size()
			}
		}
		if total := 88 + 8 + octets + 8; uint64(total) > uint64(size) {
			p.Fatalf("%d octets, asked for %d", total, size)
		}
		if plus && len(r.Entries) > 1 && nameOctets > int(names) {
			p.Fatalf("%d octets of names, asked for %d", nameOctets, names)
		}
		all = append(all, r.Entries...)
		if r.EOF {
			return all
		}
		if len(r.Entries) == 0 {
			p.Fatal("an empty page before the end")
		}
		cookie, verf = r.Entries[len(r.Entries)-1].Cookie, r.Verf
	}
	p.Fatal("no end")
	return nil
}

func namesOf(list []nfs3.DirPlusEntry) []string {
	var out []string
	for _, e := range list {
		out = append(out, e.Name)
	}
	slices.Sort(out)
	return out
}

func TestReadDir(t *testing.T) {
	onBoth(t, func(p *peer) {
		d := p.mkdir(p.root, "d", 0o755)
		want := []string{".", ".."}
		for i := range 100 {
			p.create(d, name(i), 0o644)
			want = append(want, name(i))
		}
		for _, c := range []struct {
			plus        bool
			names, size uint32
		}{{false, 0, 150}, {false, 0, 1000}, {false, 0, 1 << 20}, {false, 0, 1<<32 - 1}, {true, 1 << 20, 300}, {true, 200, 1 << 20}, {true, 0, 4096}, {true, 65536, 65536}} {
			list := p.list(d, c.plus, c.names, c.size)
			if got := namesOf(list); !slices.Equal(got, want) {
				p.Errorf("%+v: %d names", c, len(got))
			}
			for _, e := range list {
				if !c.plus {
					continue
				}
				l := p.lookup(d, e.Name, nfs3.OK)
				if !e.Attr.Present || !e.Handle.Present || string(e.Handle.Handle) != string(l.Handle) || e.FileID != l.Attr.Attr.FileID {
					p.Errorf("%+v, LOOKUP %+v", e, l)
				}
			}
		}
	})
}

func TestReadDirErrors(t *testing.T) {
	onBoth(t, func(p *peer) {
		d := p.mkdir(p.root, "d", 0o755)
		p.create(d, "a-name-of-some-length", 0o644)
		for _, plus := range []bool{false, true} {
			for _, size := range []uint32{0, 1, 103, 104, 120} {
				p.page(d, plus, 0, nfs3.CookieVerf{}, 1000, size, nfs3.ErrTooSmall)
			}
			r := p.page(d, plus, 0, nfs3.CookieVerf{}, 1000, 4096, nfs3.OK)
			cookie, bad := r.Entries[0].Cookie, r.Verf
			bad[3] ^= 0x40
			p.page(d, plus, cookie, bad, 1000, 4096, nfs3.ErrBadCookie)
			p.page(d, plus, cookie, nfs3.CookieVerf{}, 1000, 4096, nfs3.ErrBadCookie)
			p.page(d, plus, 0, bad, 1000, 4096, nfs3.OK) // the start needs none
			// After the last entry there is an empty page with eof.
			last := r.Entries[len(r.Entries)-1].Cookie
			if r := p.page(d, plus, last, r.Verf, 1000, 4096, nfs3.OK); len(r.Entries) != 0 || !r.EOF {
				p.Errorf("after the end: %+v", r)
			}
			f := p.lookup(d, "a-name-of-some-length", nfs3.OK).Handle
			p.page(f, plus, 0, nfs3.CookieVerf{}, 1000, 4096, nfs3.ErrNotDir)
		}
	})
}

// TestReadDirExact: the largest count that is too small, and the smallest that is not.
func TestReadDirExact(t *testing.T) {
	onBoth(t, func(p *peer) {
		d := p.mkdir(p.root, "d", 0o755)
		whole := p.page(d, false, 0, nfs3.CookieVerf{}, 0, 4096, nfs3.OK)
		size := uint32(88 + 8 + 8)
		for _, e := range whole.Entries {
			size += uint32(e.DirEntry.Size())
		}
		if r := p.page(d, false, 0, nfs3.CookieVerf{}, 0, size, nfs3.OK); !r.EOF || len(r.Entries) != 2 {
			p.Errorf("%d octets: %d entries, eof %v", size, len(r.Entries), r.EOF)
		}
		if r := p.page(d, false, 0, nfs3.CookieVerf{}, 0, size-1, nfs3.OK); r.EOF || len(r.Entries) != 1 {
			p.Errorf("%d octets: %d entries, eof %v", size-1, len(r.Entries), r.EOF)
		}
		args := nfs3.ReadDirArgs{Dir: d, Count: size}
		_, body := p.raw(nfs3.Program, 3, uint32(nfs3.ProcReadDir), xdr.Encode(nil, &args))
		if len(body) != int(size)+4 {
			p.Errorf("resok of %d octets, count %d", len(body)-4, size)
		}
	})
}

func TestFSProcs(t *testing.T) {
	onBoth(t, func(p *peer) {
		h := nfs3.HandleArgs{Handle: p.root}
		s := nfs[nfs3.FSStatRes](p, nfs3.ProcFSStat, &h, nfs3.OK)
		if s.TotalBytes == 0 || s.AvailBytes > s.TotalBytes || !s.Attr.Present {
			p.Errorf("%+v", s)
		}
		i := nfs[nfs3.FSInfoRes](p, nfs3.ProcFSInfo, &h, nfs3.OK)
		i.Attr = nfs3.OptAttr{}
		want := nfs3.FSInfoRes{
			RTMax: 1 << 20, RTPref: 1 << 20, RTMult: 4096, WTMax: 1 << 20, WTPref: 1 << 20, WTMult: 4096, DTPref: 64 << 10,
			MaxFileSize: p.srv.FirstFS().Info().MaxFileSize, TimeDelta: nfs3.Time{Nsec: 1}, Properties: 0x1b,
		}
		if *i != want {
			p.Errorf("%+v", i)
		}
		c := nfs[nfs3.PathConfRes](p, nfs3.ProcPathConf, &h, nfs3.OK)
		if c.NameMax != 255 || c.LinkMax < 2 || !c.NoTrunc || !c.ChownRestricted || c.CaseInsensitive || !c.CasePreserving {
			p.Errorf("%+v", c)
		}
		var d xdr.Decoder
		if xdr.Decode(&d, &nfs3.Void{}).Err() != nil {
			p.Error("void")
		}
	})
}

// limited is an FS with quotas: the id says how much, and is of a user that acts for itself.
type limited struct{ backend.FS }

func (limited) Info() backend.Info { return backend.Info{Owners: true, NameMax: 255} }

func (limited) Quota(group bool, id uint32) (backend.Quota, error) {
	switch {
	case id == 13:
		return backend.Quota{}, nfs3.ErrNotSupp
	case id == 14:
		return backend.Quota{}, nfs3.ErrPerm
	case group:
		return backend.Quota{Bytes: 1, SoftBytes: 2 << 40, HardBytes: 8 << 40, Files: 1 << 40, BytesTill: time.Now().Add(-time.Minute)}, nil
	}
	return backend.Quota{Bytes: uint64(id) << 10, SoftBytes: 2048, HardBytes: 4096, Files: 5, SoftFiles: 6, HardFiles: 7, FilesTill: time.Now().Add(time.Hour)}, nil
}

// TestQuota: everybody sees his own quotas, and root all of them where the export leaves him root; nobody sets them.
func TestQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := server.New(&server.Config{Exports: []server.Export{
			{Path: "/e", FS: limited{mem.New(nil)}, Squash: server.SquashNone, Secure: true},
			{Path: "/e/root", FS: limited{mem.New(nil)}},
			{Path: "/e/all", FS: limited{mem.New(nil)}, Squash: server.SquashAll, AnonUID: 77, AnonGID: 78},
			{Path: "/none", FS: mem.New(nil), Squash: server.SquashNone},
			{Path: "/away", Squash: server.SquashNone},
			{Path: "/closed", FS: limited{mem.New(nil)}, Squash: server.SquashNone, Clients: only("2001:db8::/32")},
			{Path: "/krb5", FS: limited{mem.New(nil)}, Squash: server.SquashNone, Sec: []xdr.AuthFlavor{server.Krb5p}},
			{Path: "/tls", FS: limited{mem.New(nil)}, Squash: server.SquashNone, XprtSec: server.XprtTLS},
		}})
		noErr(t, err)
		of := func(id uint32) []uint32 { return []uint32{1, 1024, 1, 4, 2, id, 7, 6, 5, 0, 3600} }
		group := []uint32{1, 4096, 1, 2 << 30, 1 << 29, 1, 0, 0, 1<<32 - 1, 1<<32 - 60, 0}
		none, perm := []uint32{2}, []uint32{3}
		for _, c := range []struct {
			name       string
			cred       xdr.Auth
			path       string
			vers, proc uint32
			args       []uint32 // in version 2 the type first
			want       []uint32
		}{
			{"own", sys(5, 6), "/e", 1, 1, []uint32{5}, of(5)},
			{"own, active, below", sys(5, 6), "/e/x/y", 1, 2, []uint32{5}, of(5)},
			{"other", sys(5, 6), "/e", 1, 1, []uint32{7}, perm},
			{"root", sys(0, 0), "/e", 1, 1, []uint32{7}, of(7)},
			{"root, squashed", sys(0, 0), "/e/root", 1, 1, []uint32{7}, perm},
			{"root, squashed, his own", sys(0, 0), "/e/root", 1, 1, []uint32{0}, of(65534)},
			{"all squashed", sys(5, 6), "/e/all", 1, 1, []uint32{5}, of(77)},
			{"who he is there", sys(5, 6), "/e/all", 1, 1, []uint32{77}, perm},
			{"version 2", sys(5, 6), "/e", 2, 1, []uint32{0, 5}, of(5)},
			{"group", sys(5, 6), "/e", 2, 1, []uint32{1, 6}, group},
			{"another group of his", sys(5, 6, 8, 9), "/e", 2, 1, []uint32{1, 9}, group},
			{"a group of others", sys(5, 6, 8, 9), "/e", 2, 1, []uint32{1, 10}, perm},
			{"project", sys(0, 0), "/e", 2, 1, []uint32{2, 6}, none},
			{"nobody", xdr.Auth{}, "/e", 1, 1, []uint32{0}, perm},
			{"no quota", sys(13, 6), "/e", 1, 1, []uint32{13}, none},
			{"not told to us", sys(14, 6), "/e", 1, 1, []uint32{14}, perm},
			{"no quotas", sys(5, 6), "/none", 1, 1, []uint32{5}, none},
			{"not there", sys(5, 6), "/away", 1, 1, []uint32{5}, none},
			{"not exported", sys(5, 6), "/other", 1, 1, []uint32{5}, none},
			{"not to him", sys(0, 0), "/closed", 1, 1, []uint32{5}, perm},
			{"not known by Kerberos", sys(0, 0), "/krb5", 1, 1, []uint32{5}, perm},
			{"in clear", sys(0, 0), "/tls", 1, 1, []uint32{5}, perm},
			{"set", sys(0, 0), "/e", 1, 3, []uint32{1, 5, 0, 0, 0}, perm},
			{"set active", sys(0, 0), "/e", 2, 4, nil, perm},
		} {
			args := xdr.AppendString(nil, c.path)
			for _, n := range c.args {
				args = xdr.AppendUint32(args, n)
			}
			// From a port that every user can have.
			req := rpc.Request{
				CallHeader: xdr.CallHeader{RPCVers: 2, Prog: server.QuotaProgram, Vers: c.vers, Proc: c.proc, Cred: c.cred},
				Args:       args, RemoteAddr: &net.UDPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 4000}, Network: "udp",
			}
			var resp rpc.Response
			s.ServeRPC(context.Background(), &req, &resp)
			var got []uint32
			for b := resp.Results; len(b) >= 4; b = b[4:] {
				got = append(got, binary.BigEndian.Uint32(b))
			}
			if !reflect.DeepEqual(got, c.want) || resp.Stat != 0 {
				t.Errorf("%s: %v %d, want %d", c.name, resp.Stat, got, c.want)
			}
			if req.Args = args[:len(args)-2]; c.proc < 3 {
				resp.Reset()
				if s.ServeRPC(context.Background(), &req, &resp); resp.Stat != xdr.GarbageArgs {
					t.Errorf("%s, cut: %v", c.name, resp.Stat)
				}
			}
		}
	})
}

// TestLockFile: who may read or write a file may lock it; giving back needs only the export. A port of UDP is
// looked at like one of TCP.
func TestLockFile(t *testing.T) {
	fsys := mem.New(nil)
	s := newServer(t, fsys, func(c *server.Config) { c.Exports[0].Secure = true })
	attr := nfs3.SetAttr{SetMode: true, Mode: 0o600, SetUID: true, UID: 7}
	n, _, err := fsys.Root().Create("f", &backend.Init{Attr: attr})
	noErr(t, err)
	handle := s.FirstHandle(n)
	ask := func(uid uint32, port uint16, h nfs3.FileHandle, open bool) error {
		t.Helper()
		a := net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr("192.0.2.7"), port))
		c := &server.Call{Request: &rpc.Request{RemoteAddr: a, Network: "udp"}, Cred: server.Cred{UID: uid, GID: uid}}
		got, inner, err := s.LockFile(t.Context(), c, h, open)
		if err == nil && (got != backend.FS(fsys) || string(inner) != string(h[4:])) {
			t.Errorf("%v, %x", got, inner)
		}
		return err
	}
	none := append(append(nfs3.FileHandle(nil), handle...), 0)
	other := append(nfs3.FileHandle{1, 2, 3, 4}, handle[4:]...)
	for _, tt := range []struct {
		what string
		err  error
		want error
	}{
		{"the owner", ask(7, 700, handle, true), nil},
		{"another", ask(8, 700, handle, true), nfs3.ErrAcces},
		{"another gives back", ask(8, 700, handle, false), nil},
		{"a port above 1023", ask(7, 1024, handle, true), nfs3.ErrAcces},
		{"a port above 1023 gives back", ask(7, 1024, handle, false), nfs3.ErrAcces},
		{"no handle", ask(7, 700, none, true), nfs3.ErrBadHandle},
		{"a handle of no export", ask(7, 700, other, true), nfs3.ErrStale},
		{"a short handle", ask(7, 700, handle[:4], false), nfs3.ErrBadHandle},
		{"a long handle", ask(7, 700, make(nfs3.FileHandle, 65), false), nfs3.ErrBadHandle},
	} {
		if !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.what, tt.err, tt.want)
		}
	}
}
