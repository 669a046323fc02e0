package mem

import (
	"encoding/binary"
	"time"

	"github.com/stag-rdma/stag/internal/shared"
	"github.com/stag-rdma/stag/nfsdemo/backend"
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
