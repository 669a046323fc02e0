package server_test

import (
	"context"
	"net"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

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
