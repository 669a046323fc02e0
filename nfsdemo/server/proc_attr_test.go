package server_test

import (
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
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
