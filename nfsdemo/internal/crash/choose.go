package crash

import (
	"fmt"
	"math/rand/v2"
	"path"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// chooser chooses what a worker does next.
type chooser struct {
	*rand.Rand
	m *Model
}

// Limits: few names, so that each is used again and again, and small files.
const (
	ownNames    = 6
	sharedNames = 3
	innerNames  = 2
	maxPieces   = 48
	maxWrite    = 8
)

// kinds are the operations, each as often as it is to be chosen.
var kinds = []Kind{
	Create, Guarded, Guarded, Exclusive, Mkdir, Symlink, Mkfifo, Remove, Remove, Remove, Rmdir, Rename, Rename, Rename,
	Link, Link, Chmod, Chmod, Truncate, Read, Look, GetAttr, GetAttr,
	Write, Write, Write, Write, Write, Write, Write, Write, Write, Write, Commit, Commit, Commit, Commit, // few files exist
}

// next returns the next operation, without a number.
func (c *chooser) next() *Op {
	dir := own(c.m.Worker)
	if n := c.m.find(Shared); n.handle == nil {
		return c.ready(&Op{Kind: Look, Path: Shared})
	}
	if c.m.find(dir) == nil {
		return c.ready(&Op{Kind: Mkdir, Path: dir, Mode: 0o755})
	}
	for {
		o := &Op{Kind: kinds[c.IntN(len(kinds))]}
		if c.fill(o, c.IntN(10) == 0) {
			return c.ready(o)
		}
	}
}

// ready sets the handles of the operation, or returns a Look for the first unknown one.
func (c *chooser) ready(o *Op) *Op {
	need := []struct {
		path string
		to   *[]byte
	}{{path.Dir(o.Path), &o.Dir}}
	if o.To != "" {
		need = append(need, struct {
			path string
			to   *[]byte
		}{path.Dir(o.To), &o.Into})
	}
	if !o.Kind.once() && o.Kind != Look || o.Kind == Write || o.Kind == Chmod || o.Kind == Truncate || o.Kind == Link {
		need = append(need, struct {
			path string
			to   *[]byte
		}{o.Path, &o.File})
	}
	for _, n := range need {
		if *n.to = c.m.find(n.path).handle; *n.to == nil {
			return c.ready(&Op{Kind: Look, Path: n.path})
		}
	}
	return o
}

// path returns one of the paths of the worker.
func (c *chooser) path() string {
	dir := own(c.m.Worker)
	i := c.IntN(ownNames + sharedNames)
	if i >= ownNames {
		return fmt.Sprintf("%s/%s.%d", Shared, dir, i)
	}
	p := fmt.Sprintf("%s/n%d", dir, i)
	if n := c.m.find(p); n != nil && n.typ == nfs3.TypeDir && c.IntN(2) == 0 {
		p += fmt.Sprintf("/n%d", c.IntN(innerNames))
	}
	return p
}

// fill chooses the names and the other fields; with fails, so that the operation is refused. It
// reports whether that was possible.
func (c *chooser) fill(o *Op, fails bool) bool {
	o.Path = c.path()
	o.Mode = 0o600 + uint32(c.IntN(8)*8+c.IntN(8))
	n := c.m.find(o.Path)
	switch o.Kind {
	case Mkdir: // one level only, so that paths do not grow
		return (n != nil) == fails && path.Dir(o.Path) == own(c.m.Worker)
	case Guarded, Exclusive, Mkfifo:
		o.Verf = c.Uint64() >> 8
		return (n != nil) == fails
	case Symlink:
		o.Target = fmt.Sprintf("to/%d", c.Uint32())
		return (n != nil) == fails
	case Create:
		return n == nil || n.typ == nfs3.TypeReg
	case Remove:
		return (n == nil) == fails && (n == nil || n.typ != nfs3.TypeDir)
	case Rmdir:
		return (n == nil) == fails && (n == nil || n.typ == nfs3.TypeDir)
	case Rename:
		return c.fillRename(o, n, fails)
	case Link:
		o.To = c.path()
		return n != nil && n.typ == nfs3.TypeReg && (c.m.find(o.To) != nil) == fails
	case Look:
		return (n == nil) == fails
	default:
		return n != nil && c.fillFile(o, n, fails)
	}
}

func (c *chooser) fillRename(o *Op, n *node, fails bool) bool {
	o.To = c.path()
	to := c.m.find(o.To)
	if n == nil {
		return fails && to == nil
	}
	if n.typ == nfs3.TypeDir { // stays at its level, so that paths do not grow
		return !fails && to == nil && path.Dir(o.To) == own(c.m.Worker)
	}
	return !fails && to != n && (to == nil || to.typ != nfs3.TypeDir)
}

// fillFile is fill for operations on an existing file or directory.
func (c *chooser) fillFile(o *Op, n *node, fails bool) bool {
	if o.Kind == GetAttr {
		return true
	}
	if n.typ == nfs3.TypeDir {
		return o.Kind == Chmod && !fails && c.chmod(o, n)
	}
	if n.typ != nfs3.TypeReg {
		return false
	}
	switch o.Kind {
	case Chmod:
		o.Guard = fails || n.fresh
		if !fails {
			o.Ctime = n.ctime
		}
		return true
	case Truncate:
		o.Pieces = c.IntN(maxPieces)
	case Read:
		o.First, o.Pieces = c.IntN(maxPieces), 1+c.IntN(maxWrite)
	case Write:
		c.fillWrite(o, n)
	default: // Commit has no other fields
	}
	return true
}

// chmod chooses a mode; a directory stays usable.
func (c *chooser) chmod(o *Op, n *node) bool {
	o.Mode |= 0o700
	if o.Guard = n.fresh; o.Guard {
		o.Ctime = n.ctime
	}
	return true
}

// fillWrite chooses new data, or data to write again because they may have been lost.
func (c *chooser) fillWrite(o *Op, n *node) {
	if c.IntN(2) == 0 {
		if first, some := n.unsure(maxWrite); some > 0 {
			o.First, o.Pieces, o.Stable = first, some, nfs3.FileSync
			return
		}
	}
	o.First, o.Pieces = c.IntN(maxPieces-maxWrite), 1+c.IntN(maxWrite)
	o.Stable = [...]nfs3.StableHow{nfs3.Unstable, nfs3.DataSync, nfs3.FileSync}[c.IntN(3)]
}
