package server_test

import (
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
)

func TestRemove(t *testing.T) {
	onBoth(t, func(p *peer) {
		f := p.create(p.root, "f", 0o644)
		d := p.mkdir(p.root, "d", 0o755)
		p.create(d, "inner", 0o644)
		remove := func(dir nfs3.FileHandle, n string, want nfs3.Status) {
			p.Helper()
			a := at(dir, n)
			nfs[nfs3.RemoveRes](p, nfs3.ProcRemove, &a, want)
		}
		rmdir := func(dir nfs3.FileHandle, n string, want nfs3.Status) {
			p.Helper()
			a := at(dir, n)
			nfs[nfs3.RmdirRes](p, nfs3.ProcRmdir, &a, want)
		}
		remove(p.root, "x", nfs3.ErrNoEnt)
		remove(p.root, "d", nfs3.ErrAcces)
		remove(f, "x", nfs3.ErrNotDir)
		rmdir(p.root, "x", nfs3.ErrNoEnt)
		rmdir(p.root, "f", nfs3.ErrNotDir)
		rmdir(f, "x", nfs3.ErrNotDir)
		rmdir(p.root, "d", nfs3.ErrNotEmpty)
		remove(d, "inner", nfs3.OK)
		rmdir(p.root, "d", nfs3.OK)
		remove(p.root, "f", nfs3.OK)
		remove(p.root, "f", nfs3.ErrNoEnt)
		p.lookup(d, "x", nfs3.ErrStale)
		doCreate(p, nfs3.CreateArgs{Where: at(d, "x")}, nfs3.ErrStale)
	})
}

func TestRename(t *testing.T) {
	onBoth(t, func(p *peer) {
		rename := func(fd nfs3.FileHandle, f string, td nfs3.FileHandle, n string, want nfs3.Status) *nfs3.RenameRes {
			p.Helper()
			return nfs[nfs3.RenameRes](p, nfs3.ProcRename, &nfs3.RenameArgs{From: at(fd, f), To: at(td, n)}, want)
		}
		a, b := p.mkdir(p.root, "a", 0o755), p.mkdir(p.root, "b", 0o755)
		f := p.create(a, "f", 0o644)
		p.write(f, 0, "kept")
		r := rename(a, "f", b, "g", nfs3.OK)
		if !r.FromWcc.After.Present || !r.ToWcc.After.Present {
			p.Errorf("%+v", r)
		}
		if got := p.read(f, 0, 10); string(got.Data) != "kept" {
			p.Errorf("through the old handle: %q", got.Data)
		}
		if l := p.lookup(b, "g", nfs3.OK); string(l.Handle) != string(f) {
			p.Error("the handle changed with the name")
		}
		rename(a, "f", b, "h", nfs3.ErrNoEnt)
		old := p.create(b, "old", 0o644)
		rename(b, "g", b, "old", nfs3.OK)
		nfs[nfs3.GetAttrRes](p, nfs3.ProcGetAttr, &nfs3.HandleArgs{Handle: old}, nfs3.ErrStale)
		rename(b, "old", p.root, "a", nfs3.ErrExist) // a file over a directory
		rename(p.root, "a", b, "old", nfs3.ErrExist) // and the other way
		rename(p.root, "a", p.root, "b", nfs3.ErrNotEmpty)
		rename(p.root, "b", b, "in", nfs3.ErrInval)
		rename(f, "x", b, "y", nfs3.ErrNotDir)
		rename(b, "old", f, "y", nfs3.ErrNotDir)
		rename(p.root, "b", p.root, "a", nfs3.OK)
		p.lookup(p.root, "b", nfs3.ErrNoEnt)
		if got := p.read(f, 0, 10); string(got.Data) != "kept" {
			p.Errorf("below a renamed directory: %q", got.Data)
		}
	})
}

func TestLink(t *testing.T) {
	onBoth(t, func(p *peer) {
		f := p.create(p.root, "f", 0o644)
		d := p.mkdir(p.root, "d", 0o755)
		link := func(h nfs3.FileHandle, dir nfs3.FileHandle, n string, want nfs3.Status) *nfs3.LinkRes {
			p.Helper()
			return nfs[nfs3.LinkRes](p, nfs3.ProcLink, &nfs3.LinkArgs{Handle: h, Link: at(dir, n)}, want)
		}
		r := link(f, d, "g", nfs3.OK)
		if r.Attr.Attr.Nlink != 2 || !r.DirWcc.After.Present {
			p.Errorf("%+v", r)
		}
		if l := p.lookup(d, "g", nfs3.OK); string(l.Handle) != string(f) {
			p.Error("another handle under the other name")
		}
		link(f, d, "g", nfs3.ErrExist)
		link(d, p.root, "x", nfs3.ErrInval)
		link(f, f, "x", nfs3.ErrNotDir)
		a := at(p.root, "f")
		nfs[nfs3.RemoveRes](p, nfs3.ProcRemove, &a, nfs3.OK)
		if got := p.attr(f); got.Nlink != 1 {
			p.Errorf("%d links", got.Nlink)
		}
		p.write(f, 0, "still there")
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
