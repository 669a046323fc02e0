package dir

import (
	"errors"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Whether to search for a file that has moved, on behalf of nobody: it has been where it was when its handle was
// resolved. The search itself must not do so.
const (
	mayFind  = true
	onlyLook = false
)

// at calls fn with the directory and the name where n is now. It forgets places that turn out
// to be wrong; if none is left, it searches for n if find says so.
func (n *node) at(find bool, fn func(d gripRef, name string, st *stat) error) error {
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
		if err := n.fs.lost.find(nil, n.key); err != nil {
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
func (n *node) try(p place, find bool, fn func(d gripRef, name string, st *stat) error) error {
	d, err := p.dir.openPlace(find)
	if errors.Is(err, nfs3.ErrStale) {
		return errMoved
	}
	if err != nil {
		return err
	}
	defer d.done()
	st, err := n.fs.statAt(d, p.name)
	switch {
	case errors.Is(err, nfs3.ErrNoEnt) || err == nil && st.key != n.key:
		return errMoved
	case err != nil:
		return err
	}
	return fn(d, p.name, &st)
}

// inPlace reports whether n is where it was seen, as far as can be told without a search.
func (n *node) inPlace() bool {
	g, err := n.holdBy(onlyLook)
	if err == nil {
		g.done()
	}
	return !errors.Is(err, nfs3.ErrStale)
}
