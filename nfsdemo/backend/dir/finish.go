package dir

import (
	"os"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

var (
	_ backend.Dated    = (*FS)(nil)
	_ backend.Born     = (*node)(nil)
	_ backend.Finisher = (*node)(nil)
	_ backend.Syncer   = (*node)(nil)
)

// Birth returns the birth time, which is part of the identity.
func (n *node) Birth() int64 { return n.key.birth }

// Finish sets the attributes of a file that is still as the system calls of Create, Mkdir,
// Symlink and Mknod leave it: owned by this process, and with no access for others.
func (n *node) Finish(in *backend.Init) error {
	return n.at(func(d *openDir, name string, st *stat) error {
		if !raw(st) {
			return nil
		}
		if in.Attr.SetSize && in.Attr.Size > 0 && st.attr.Size == 0 && n.typ == nfs3.TypeReg {
			if err := n.truncate(in.Attr.Size); err != nil {
				return err
			}
		}
		set := n.fs.dressing(in, st)
		now := *st
		return n.dress(d, name, &set, &now)
	})
}

// raw reports whether a file is as it was made. The set-group-id bit comes from the directory.
func raw(st *stat) bool {
	if st.attr.UID != uint32(os.Geteuid()) {
		return false
	}
	switch mode := st.attr.Mode &^ 0o2000; st.attr.Type {
	case nfs3.TypeLnk:
		return true
	case nfs3.TypeDir:
		return mode == 0o700
	default:
		return mode == 0o600
	}
}

// Sync syncs the file, or its directory if the file cannot be opened.
func (n *node) Sync() error {
	if n == n.fs.root {
		return n.fs.settle(n.fs.top)
	}
	return n.at(func(d *openDir, _ string, _ *stat) error { return n.settleAttr(d) })
}
