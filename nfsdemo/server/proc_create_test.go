package server_test

import (
	"net"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

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
