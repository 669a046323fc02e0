package dir

import (
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Lookup finds a name. ".." is the directory in which this one was last seen, never the
// kernel's "..", which might be outside the export.
func (n *node) Lookup(name string) (backend.Node, nfs3.Attr, error) {
	if n.typ != nfs3.TypeDir {
		return nil, nfs3.Attr{}, nfs3.ErrNotDir
	}
	switch name {
	case ".":
		return n.with()
	case "..":
		return n.parent()
	}
	if err := backend.CheckName(name); err != nil {
		return nil, nfs3.Attr{}, err
	}
	ref, err := n.open()
	if err != nil {
		return nil, nfs3.Attr{}, err
	}
	defer ref.done()
	return n.found(ref.openDir, name)
}

// found looks at a name in d, which is n, and enters the file in the table.
func (n *node) found(d *openDir, name string) (backend.Node, nfs3.Attr, error) {
	st, err := n.fs.statAt(d, name)
	if err != nil {
		return nil, nfs3.Attr{}, err
	}
	return n.fs.tab.enter(n.fs, place{n, name}, &st), st.attr, nil
}

// parent returns the directory that n is in.
func (n *node) parent() (backend.Node, nfs3.Attr, error) {
	if n != n.fs.root {
		// Check that it is still where it was, to notice a move by somebody else.
		if err := n.at(func(*openDir, string, *stat) error { return nil }); err != nil {
			return nil, nfs3.Attr{}, err
		}
	}
	return n.fs.tab.parentOf(n).with()
}

// with returns n and its attributes.
func (n *node) with() (backend.Node, nfs3.Attr, error) {
	a, err := n.Attr()
	if err != nil {
		return nil, a, err
	}
	return n, a, nil
}
