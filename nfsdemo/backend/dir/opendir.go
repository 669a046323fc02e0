package dir

import (
	"errors"
	"os"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// openDir is an open directory: root for what os.Root can do, f for system calls on a
// descriptor.
type openDir struct {
	root *os.Root
	f    *os.File
	node *node
}

// newOpenDir takes root.
func newOpenDir(root *os.Root) (*openDir, error) {
	f, err := root.Open(".")
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	return &openDir{root: root, f: f}, nil
}

// Close closes both descriptors.
func (d *openDir) Close() error {
	err := d.f.Close()
	if rerr := d.root.Close(); err == nil {
		err = rerr
	}
	return err
}

// dirRef is an open directory in use.
type dirRef struct {
	*openDir
	slot *slot[*openDir] // nil for the root
}

// done ends the use.
func (r dirRef) done() {
	if r.slot != nil {
		r.node.fs.dirs.put(r.slot)
	}
}

// open opens n if it is a directory: ErrNotDir, ErrStale. The caller calls done.
func (n *node) open() (dirRef, error) { return n.openBy(mayFind) }

// Whether to search for a file that has moved. The search itself must not do so.
const (
	mayFind  = true
	onlyLook = false
)

// openBy is open with or without a search.
func (n *node) openBy(find bool) (dirRef, error) {
	f := n.fs
	switch {
	case n == f.root:
		return dirRef{openDir: f.top}, nil
	case n.typ != nfs3.TypeDir:
		return dirRef{}, nfs3.ErrNotDir
	}
	if s := f.dirs.get(n.key); s != nil {
		return dirRef{openDir: s.v, slot: s}, nil
	}
	var ref dirRef
	err := n.atBy(find, func(d *openDir, name string, _ *stat) error {
		sub, err := d.sub(n, name)
		if err != nil {
			return err
		}
		s := f.dirs.add(n.key, sub, false)
		ref = dirRef{openDir: s.v, slot: s}
		return nil
	})
	return ref, err
}

// sub opens the directory name, which must be n.
func (d *openDir) sub(n *node, name string) (*openDir, error) {
	root, err := d.root.OpenRoot(name)
	if err != nil {
		return nil, status(err)
	}
	sub, err := newOpenDir(root)
	if err != nil {
		return nil, status(err)
	}
	sub.node = n
	st, err := n.fs.statOpen(sub.f, n.key)
	if err == nil && st.key != n.key {
		err = nfs3.ErrStale // it was replaced since we looked
	}
	if err != nil {
		_ = sub.Close()
		return nil, err
	}
	return sub, nil
}

// at calls fn with the directory and the name where n is now. It forgets places that turn out
// to be wrong; if none is left, it searches for n.
func (n *node) at(fn func(d *openDir, name string, st *stat) error) error {
	return n.atBy(mayFind, fn)
}

// atBy is at with or without a search.
func (n *node) atBy(find bool, fn func(d *openDir, name string, st *stat) error) error {
	for round := 0; ; round++ {
		for _, p := range n.fs.tab.placesOf(n) {
			err := n.try(p, find, fn)
			if !errors.Is(err, errMoved) {
				return err
			}
			n.fs.tab.leave(n, p)
		}
		if round == 2 || n == n.fs.root || !find {
			return nfs3.ErrStale
		}
		if err := n.fs.lost.find(n.key); err != nil {
			return err
		}
		if found := n.fs.tab.get(n.key); found != nil {
			n = found
		}
	}
}

// errMoved means that a file is not where it was.
const errMoved = moved("dir: file is not where it was")

type moved string

func (m moved) Error() string { return string(m) }

// try calls fn if n is at p.
func (n *node) try(p place, find bool, fn func(d *openDir, name string, st *stat) error) error {
	ref, err := p.dir.openBy(find)
	if errors.Is(err, nfs3.ErrStale) {
		return errMoved
	}
	if err != nil {
		return err
	}
	defer ref.done()
	st, err := n.fs.statAt(ref.openDir, p.name)
	switch {
	case errors.Is(err, nfs3.ErrNoEnt) || err == nil && st.key != n.key:
		return errMoved
	case err != nil:
		return err
	}
	return fn(ref.openDir, p.name, &st)
}
