package mem

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/stag-rdma/stag/internal/shared"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// dirSize is the size a directory reports.
const dirSize = 4096

// node is a file of any kind.
type node struct {
	fs *FS

	// guarded by fs.mu
	parent *node // of a directory; the root is its own
	names  map[string]*entry
	order  []*entry // by cookie, ascending; removed entries stay until compaction
	dead   int      // removed entries in order
	cookie uint64   // last one given

	mu     shared.RWMutex // taken after fs.mu
	attr   nfs3.Attr
	pages  map[uint64][]byte // by page number; absent pages read as zeros
	target string            // of a symbolic link
	verf   *nfs3.CreateVerf  // of an exclusive CREATE, until something is changed
}

var _ backend.Node = (*file)(nil)

// AppendHandle appends 16 octets.
func (n *node) AppendHandle(b []byte) []byte {
	return binary.BigEndian.AppendUint64(append(b, n.fs.boot[:]...), n.attr.FileID)
}

// Attr returns the attributes.
func (n *node) Attr() (nfs3.Attr, error) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.attr.Nlink == 0 {
		return nfs3.Attr{}, nfs3.ErrStale
	}
	return n.attr, nil
}

// SetAttr changes attributes, all of them or none.
func (n *file) SetAttr(a *nfs3.SetAttr) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.attr.Nlink == 0 {
		return nfs3.ErrStale
	}
	if err := n.maySet(&n.attr, a); err != nil {
		return err
	}
	now := nfs3.TimeOf(time.Now())
	if a.SetSize {
		if err := n.truncate(a.Size); err != nil {
			return err
		}
		n.attr.Mtime = now
	}
	if a.SetSize || a.SetUID || a.SetGID {
		n.dropSetID()
	}
	if a.SetMode {
		n.attr.Mode = a.Mode & 0o7777
		if !n.root() && !n.in(n.attr.GID) && n.attr.Type != nfs3.TypeDir {
			n.attr.Mode &^= modeSetGID
		}
	}
	if a.SetUID {
		n.attr.UID = a.UID
	}
	if a.SetGID {
		n.attr.GID = a.GID
	}
	n.verf = nil
	n.attr.Ctime = now
	setTimes(&n.attr, a, now)
	return nil
}

// setTimes applies the times of s to a.
func setTimes(a *nfs3.Attr, s *nfs3.SetAttr, now nfs3.Time) {
	set := func(dst *nfs3.Time, how nfs3.TimeHow, v nfs3.Time) {
		switch how {
		case nfs3.ServerTime:
			*dst = now
		case nfs3.ClientTime:
			*dst = v
		case nfs3.DontChange:
		}
	}
	set(&a.Atime, s.AtimeHow, s.Atime)
	set(&a.Mtime, s.MtimeHow, s.Mtime)
}

// ReadLink returns the target.
func (n *node) ReadLink() (string, error) {
	if n.attr.Type != nfs3.TypeLnk { // never changes
		return "", nfs3.ErrInval
	}
	return n.target, nil
}

// touch notes a change of the directory's names. The caller holds fs.mu.
func (n *node) touch(links int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := nfs3.TimeOf(time.Now())
	n.attr.Mtime, n.attr.Ctime = now, now
	n.attr.Nlink = uint32(int(n.attr.Nlink) + links)
}

// relink changes the link count of a file that is not a directory. The caller holds fs.mu.
func (n *node) relink(links int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.attr.Ctime = nfs3.TimeOf(time.Now())
	n.attr.Nlink = uint32(int(n.attr.Nlink) + links)
	if n.attr.Nlink == 0 {
		n.drop()
	}
}

// drop forgets a file without names. The caller holds fs.mu and n.mu.
func (n *node) drop() {
	delete(n.fs.nodes, n.attr.FileID)
	n.fs.give(len(n.pages))
	n.pages = nil
}

// isDir is safe without locks: the type never changes.
func (n *node) isDir() bool { return n.attr.Type == nfs3.TypeDir }

// There is no kernel below this file system, so it decides by mode bits, as Linux does without ACLs.

// file is a file as a caller sees it.
type file struct {
	*node
	who *caller.Identity // nil: this process, which may do everything
}

// As returns the file as who sees it.
func (n *file) As(who *caller.Identity) backend.Node { return &file{n.node, who} }

// Permission bits of one class.
const (
	permR uint32 = 4
	permW uint32 = 2
	permX uint32 = 1
)

// Mode bits beyond the permissions.
const (
	modeSetUID uint32 = 0o4000
	modeSetGID uint32 = 0o2000
	modeSticky uint32 = 0o1000
)

// root reports whether the caller may do everything.
func (n *file) root() bool { return n.who == nil || n.who.UID == 0 }

// in reports whether the caller is a member of a group.
func (n *file) in(gid uint32) bool {
	return n.who == nil || n.who.GID == gid || slices.Contains(n.who.Groups, gid)
}

// owns reports whether the caller is the owner, or root.
func (n *file) owns(a *nfs3.Attr) bool { return n.root() || n.who.UID == a.UID }

// may reports whether the mode bits grant all of want.
func (n *file) may(a *nfs3.Attr, want uint32) bool {
	if n.root() {
		// Root may execute a file only if somebody may.
		return want&permX == 0 || a.Type == nfs3.TypeDir || a.Mode&0o111 != 0
	}
	class := a.Mode
	switch {
	case n.who.UID == a.UID:
		class = a.Mode >> 6
	case n.in(a.GID):
		class = a.Mode >> 3
	}
	return class&want == want
}

// mayRead is the check of READ, with the exceptions of Node.Open.
func (n *file) mayRead(a *nfs3.Attr) bool { return n.owns(a) || n.may(a, permR) || n.may(a, permX) }

// mayWrite is the check of WRITE and of a change of size, with the same exception for the owner.
func (n *file) mayWrite(a *nfs3.Attr) bool { return n.owns(a) || n.may(a, permW) }

// searchable returns an error unless n is a directory that the caller may search. The caller holds fs.mu.
func (n *file) searchable() error {
	if err := n.live(); err != nil {
		return err
	}
	a, err := n.Attr()
	if err == nil && !n.may(&a, permX) {
		err = nfs3.ErrAcces
	}
	return err
}

// deletable returns the entry of a name that the caller may remove, ErrNoEnt if there is none. In a sticky directory he must own the file or the directory. The caller holds fs.mu.
func (n *file) deletable(name string) (*entry, error) {
	if err := n.searchable(); err != nil {
		return nil, err
	}
	dir, err := n.Attr()
	if err != nil {
		return nil, err
	}
	e, err := n.find(name)
	if err != nil {
		return nil, err
	}
	a, err := e.node.Attr()
	switch {
	case err != nil:
		return nil, err
	case !n.may(&dir, permW):
		return nil, nfs3.ErrAcces
	case dir.Mode&modeSticky != 0 && !n.owns(&a) && !n.owns(&dir):
		return nil, nfs3.ErrAcces
	}
	return e, nil
}

// mayMove: a directory that gets another parent changes itself, because it contains "..".
func (n *file) mayMove(c, to *node) error {
	if !c.isDir() || n.node == to {
		return nil
	}
	a, err := c.Attr()
	if err == nil && !n.may(&a, permW) {
		err = nfs3.ErrAcces
	}
	return err
}

// maySet returns an error unless the caller may make the change s to a. Everything is checked before anything
// is changed, so that the change is made completely or not at all.
func (n *file) maySet(a *nfs3.Attr, s *nfs3.SetAttr) error {
	owner := n.owns(a)
	switch {
	case s.SetSize && a.Type == nfs3.TypeDir:
		return nfs3.ErrIsDir
	case s.SetSize && a.Type != nfs3.TypeReg:
		return nfs3.ErrInval
	case s.SetSize && !n.mayWrite(a):
		return nfs3.ErrAcces
	case s.SetMode && !owner:
		return nfs3.ErrPerm
	case s.SetUID && !n.root() && (!owner || s.UID != a.UID):
		return nfs3.ErrPerm
	case s.SetGID && !n.root() && (!owner || s.GID != a.GID && !n.in(s.GID)):
		return nfs3.ErrPerm
	case (s.AtimeHow == nfs3.ClientTime || s.MtimeHow == nfs3.ClientTime) && !owner:
		return nfs3.ErrPerm
	case (s.AtimeHow == nfs3.ServerTime || s.MtimeHow == nfs3.ServerTime) && !owner && !n.may(a, permW):
		return nfs3.ErrAcces
	}
	return nil
}

// dropSetID clears the set-id bits of a file that an unprivileged caller changes. The caller holds n.mu.
func (n *file) dropSetID() {
	if !n.root() && n.attr.Type != nfs3.TypeDir {
		n.attr.Mode &^= modeSetUID | modeSetGID
	}
}

// Access returns the subset of want that is granted (RFC 1813 Section 3.3.4).
func (n *file) Access(want nfs3.Access) (nfs3.Access, error) {
	a, err := n.Attr()
	if err != nil {
		return 0, err
	}
	var got nfs3.Access
	dir := a.Type == nfs3.TypeDir
	if n.may(&a, permR) {
		got |= nfs3.AccessRead
	}
	if n.may(&a, permW) {
		got |= nfs3.AccessModify | nfs3.AccessExtend
		if dir {
			got |= nfs3.AccessDelete
		}
	}
	if n.may(&a, permX) {
		if dir {
			got |= nfs3.AccessLookup
		} else {
			got |= nfs3.AccessExecute
		}
	}
	return got & want, nil
}

// Open returns the error of Read or Write.
func (n *file) Open(write bool, off uint64, size int) error {
	a, err := n.Attr()
	switch {
	case err != nil:
		return err
	case a.Type != nfs3.TypeReg:
		return nfs3.ErrInval
	case write && !n.mayWrite(&a), !write && !n.mayRead(&a):
		return nfs3.ErrAcces
	case write && size > 0:
		return n.room(off, size)
	}
	return nil
}
