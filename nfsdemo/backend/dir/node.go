package dir

import (
	"errors"

	"github.com/stag-rdma/stag/internal/shared"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// file is a file as a caller sees it.
type file struct {
	*node
	who *caller.Identity // nil: this process

	mu    shared.Mutex
	found proof // by Attr, for the Open or Write that follows: all of a stat would make each call allocate 200 octets more, twice
	has   bool
}

var _ backend.Node = (*file)(nil)

// As returns the file as who sees it.
func (n *file) As(who *caller.Identity) backend.Node { return &file{node: n.node, who: who} }

// with returns another file as the same caller sees it.
func (n *file) with(c *node) *file {
	if c == n.node {
		return n
	}
	return &file{node: c, who: n.who}
}

// do runs system calls as the caller. Whatever waits for other goroutines stays outside.
func (n *file) do(fn func() error) error {
	if n.who == nil || n.fs.sw == nil {
		return fn()
	}
	return n.fs.sw.Do(n.who, fn)
}

// doWrite is do for a write to a file that the kernel has let the caller open: what is left to decide goes by the uid,
// where the file system keeps blocks for one, and by the capability to exceed quotas.
func (n *file) doWrite(fn func() error) error {
	switch {
	case n.who == nil || n.fs.sw == nil:
		return fn()
	case n.fs.noReserve:
		return n.fs.sw.Limited(n.who, fn)
	}
	return n.fs.sw.DoUser(n.who, fn)
}

// override is do for a caller whom the mode of the file does not stop.
func (n *file) override(fn func() error) error {
	if n.who == nil || n.fs.sw == nil {
		return fn()
	}
	return n.fs.sw.Override(n.who, fn)
}

// owns reports whether the caller is the owner of a file, as far as NFS makes exceptions for owners.
func (n *file) owns(a *nfs3.Attr) bool {
	if n.who == nil || n.fs.sw == nil {
		return a.UID == n.fs.Info().UID
	}
	return a.UID == n.who.UID
}

// super reports whether the caller is root.
func (n *file) super() bool { return n.fs.sw != nil && (n.who == nil || n.who.UID == 0) }

// AppendHandle appends the handle.
func (n *node) AppendHandle(b []byte) []byte { return n.fs.seal.append(b, &n.key) }

func (n *node) look() (stat, error) {
	g, err := n.hold()
	if err != nil {
		return stat{}, err
	}
	defer g.done()
	return n.alive(g.stat())
}

// Attr asks the kernel. It needs no permission.
func (n *file) Attr() (nfs3.Attr, error) {
	st, err := n.node.look()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.found, n.has = st.proof(), err == nil
	return st.attr, err
}

// take returns what Attr has found, once.
func (n *file) take() (found proof, has bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	found, has, n.has = n.found, n.has, false
	return found, has
}

// alive returns ErrStale for a file that has lost its last name, and lets go of it.
func (n *node) alive(st stat, err error) (stat, error) {
	if err == nil && st.attr.Nlink == 0 {
		n.fs.gone(n.key)
		return stat{}, nfs3.ErrStale
	}
	return st, err
}

// Access asks the kernel, as the caller.
func (n *file) Access(want nfs3.Access) (got nfs3.Access, err error) {
	g, err := n.hold()
	if err != nil {
		return 0, err
	}
	defer g.done()
	search := nfs3.AccessExecute
	change := nfs3.AccessModify | nfs3.AccessExtend
	if n.typ == nfs3.TypeDir {
		search = nfs3.AccessLookup
		change |= nfs3.AccessDelete
	}
	st, err := n.alive(g.stat())
	if err != nil {
		return 0, err
	}
	const all = mayRead | mayWrite | mayExec
	has, known := n.known(&st.attr, all)
	if !known {
		has = 0
		err = n.do(func() error {
			for _, right := range [...]uint32{mayRead, mayWrite, mayExec} {
				err := g.access(right)
				if err == nil {
					has |= right
				} else if !refused(err) {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return 0, status(err)
		}
		n.learn(&st.attr, all, has)
	}
	if has&mayRead != 0 {
		got |= nfs3.AccessRead
	}
	if has&mayWrite != 0 {
		got |= change
	}
	if has&mayExec != 0 {
		got |= search
	}
	return got & want, nil
}

// refused reports whether an error says that a right is missing.
func refused(err error) bool {
	return errors.Is(err, nfs3.ErrAcces) || errors.Is(err, nfs3.ErrPerm) || errors.Is(err, nfs3.ErrROFS)
}

// Rights of access(2).
const (
	mayExec  uint32 = 1
	mayWrite uint32 = 2
	mayRead  uint32 = 4
)

// SetAttr changes attributes as the caller. It refuses at once what needs the owner, so that a change of
// size is not made without the rest.
func (n *file) SetAttr(a *nfs3.SetAttr) error {
	g, err := n.hold()
	if err != nil {
		return err
	}
	defer g.done()
	st, err := n.alive(g.stat())
	if err != nil {
		return err
	}
	if a.SetSize {
		if a.SetMode || a.SetUID || a.SetGID || a.AtimeHow == nfs3.ClientTime || a.MtimeHow == nfs3.ClientTime {
			if !n.owns(&st.attr) && !n.super() {
				return nfs3.ErrPerm
			}
		}
		if err := n.truncate(a.Size); err != nil {
			return err
		}
	}
	if err := n.do(func() error { return g.set(a) }); err != nil {
		return status(err)
	}
	return n.settleAttr()
}

// truncate sets the size.
func (n *file) truncate(size uint64) error {
	switch {
	case n.typ == nfs3.TypeDir:
		return nfs3.ErrIsDir
	case size > n.fs.limit:
		return nfs3.ErrFBig
	}
	s, fresh, err := n.openFile(true)
	if err != nil {
		return err
	}
	defer n.fs.files.put(s)
	return n.writing(s.v, fresh, func() error { return n.fs.quick.Truncate(s.v.f, int64(size)) })
}

// ReadLink returns the target.
func (n *node) ReadLink() (string, error) {
	if n.typ != nfs3.TypeLnk {
		return "", nfs3.ErrInval
	}
	g, err := n.hold()
	if err != nil {
		return "", err
	}
	defer g.done()
	target, err := g.readLink()
	return target, status(err)
}
