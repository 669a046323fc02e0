package server_test

import (
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
)

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
