package crash

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Shared is the directory in which all workers have names, each with the worker's prefix.
const Shared = "shared"

// Model is what the names of one worker should be.
type Model struct {
	Worker uint16
	root   *node // holds Shared and the worker's directory
}

// node is a file, directory, link or FIFO.
type node struct {
	typ    nfs3.FileType
	handle []byte
	id     uint64 // 0: unknown
	mode   uint32
	moded  bool // mode is known
	target string
	names  map[string]*node // of a directory
	file
	ctime nfs3.Time
	fresh bool // ctime is the object's current one
}

// NewModel returns the model of a worker that has done nothing.
func NewModel(worker uint16) *Model {
	root := &node{typ: nfs3.TypeDir, names: make(map[string]*node)}
	root.names[Shared] = &node{typ: nfs3.TypeDir, names: make(map[string]*node)}
	return &Model{Worker: worker, root: root}
}

// find returns what is at p, nil if nothing is.
func (m *Model) find(p string) *node {
	n := m.root
	if p == "." {
		return n
	}
	for name := range strings.SplitSeq(p, "/") {
		if n == nil {
			return nil
		}
		n = n.names[name]
	}
	return n
}

// dir returns the directory of p, which must exist, and the last name.
func (m *Model) dir(p string) (*node, string) {
	d, name := path.Split(p)
	return m.find(path.Clean(d)), name
}

// clone copies the model, hard links included.
func (m *Model) clone() *Model {
	seen := make(map[*node]*node)
	var dup func(n *node) *node
	dup = func(n *node) *node {
		if c := seen[n]; c != nil {
			return c
		}
		c := new(*n)
		seen[n] = c
		c.file = n.file.clone()
		c.names = maps.Clone(n.names)
		for name, child := range c.names {
			c.names[name] = dup(child)
		}
		return c
	}
	return &Model{Worker: m.Worker, root: dup(m.root)}
}

// links counts the names of n.
func (m *Model) links(n *node) int {
	count := 0
	m.walk(func(_ string, c *node) {
		if c == n {
			count++
		}
	})
	return count
}

// walk calls f for all objects of the worker in the order of names, directories before their
// contents.
func (m *Model) walk(f func(p string, n *node)) {
	var down func(p string, n *node)
	down = func(p string, n *node) {
		for _, name := range slices.Sorted(maps.Keys(n.names)) {
			at := path.Join(p, name)
			if at != Shared {
				f(at, n.names[name])
			}
			down(at, n.names[name])
		}
	}
	down("", m.root)
}

// Apply applies an operation and returns the only right status of its answer. res, if not nil, is
// the answer; Apply takes handles and attributes from it. If res is nil, the operation may have
// been done.
func (m *Model) Apply(o *Op, res *Result) nfs3.Status {
	s, n := m.apply(o, res)
	if s == nfs3.OK && res != nil && res.Status != nfs3.OK && o.cut(res) {
		// The call has run, and the answer can only be that of a second run.
		if n != nil {
			n.fresh = false // the first has changed it
		}
		s, _ = m.apply(o, nil)
		return s
	}
	if n == nil || s != nfs3.OK {
		return s
	}
	n.fresh = false
	if res == nil || res.Status != nfs3.OK {
		return s
	}
	if res.Handle != nil && n.handle == nil {
		n.handle = res.Handle
	}
	if res.Attr != nil {
		n.ctime, n.fresh = res.Attr.Ctime, o.Kind == GetAttr
		if n.id == 0 {
			n.id = res.Attr.FileID
		}
	}
	return s
}

// apply also returns the object concerned, nil if it is gone.
func (m *Model) apply(o *Op, res *Result) (nfs3.Status, *node) {
	switch o.Kind {
	case Mkdir:
		return m.make(o, &node{typ: nfs3.TypeDir, mode: o.Mode, moded: true, names: make(map[string]*node)})
	case Symlink:
		return m.make(o, &node{typ: nfs3.TypeLnk, target: o.Target})
	case Mkfifo:
		return m.make(o, &node{typ: nfs3.TypeFIFO, mode: o.Mode, moded: true})
	case Guarded:
		return m.make(o, &node{typ: nfs3.TypeReg, mode: o.Mode, moded: true})
	case Exclusive: // attributes are undefined until they are set (RFC 1813 Section 3.3.8)
		return m.make(o, &node{typ: nfs3.TypeReg})
	case Create:
		n := m.find(o.Path)
		if n == nil {
			return m.make(o, &node{typ: nfs3.TypeReg, mode: o.Mode, moded: true})
		}
		n.truncate(0) // the mode is only for a new file (RFC 1813 Section 3.3.8)
		return nfs3.OK, n
	case Remove, Rmdir:
		return m.remove(o), nil
	case Rename:
		return m.rename(o)
	case Link:
		return m.link(o)
	default:
		n := m.find(o.Path)
		if n == nil {
			return nfs3.ErrNoEnt, nil // only LOOKUP; the others have a handle
		}
		return m.change(o, n, res), n
	}
}

// change applies an operation on an existing file.
func (m *Model) change(o *Op, n *node, res *Result) nfs3.Status {
	switch o.Kind {
	case Chmod:
		if o.Guard && (o.Ctime != n.ctime || !n.fresh) {
			return nfs3.ErrNotSync
		}
		n.mode, n.moded = o.Mode, true
	case Truncate:
		n.truncate(o.Pieces)
	case Write:
		n.write(m.Worker, o, res)
	case Commit:
		n.commit(res)
	default: // changes nothing
	}
	return nfs3.OK
}

func (m *Model) make(o *Op, n *node) (nfs3.Status, *node) {
	d, name := m.dir(o.Path)
	if d.names[name] != nil {
		return nfs3.ErrExist, nil
	}
	d.names[name], d.fresh = n, false
	return nfs3.OK, n
}

func (m *Model) remove(o *Op) nfs3.Status {
	d, name := m.dir(o.Path)
	n := d.names[name]
	switch {
	case n == nil:
		return nfs3.ErrNoEnt
	case o.Kind == Rmdir && len(n.names) > 0:
		return nfs3.ErrNotEmpty
	}
	n.fresh, d.fresh = false, false
	delete(d.names, name)
	return nfs3.OK
}

func (m *Model) rename(o *Op) (nfs3.Status, *node) {
	from, name := m.dir(o.Path)
	to, newName := m.dir(o.To)
	n := from.names[name]
	if n == nil {
		return nfs3.ErrNoEnt, nil
	}
	if old := to.names[newName]; old != nil {
		old.fresh = false
	}
	delete(from.names, name)
	to.names[newName] = n
	from.fresh, to.fresh = false, false
	return nfs3.OK, n
}

func (m *Model) link(o *Op) (nfs3.Status, *node) {
	n := m.find(o.Path)
	to, name := m.dir(o.To)
	if to.names[name] != nil {
		return nfs3.ErrExist, nil
	}
	to.names[name], to.fresh = n, false
	return nfs3.OK, n
}
