package dir

import (
	"os"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

var (
	_ backend.Dated    = (*FS)(nil)
	_ backend.Born     = (*file)(nil)
	_ backend.Finisher = (*file)(nil)
	_ backend.Syncer   = (*file)(nil)
)

// Birth returns the birth time.
func (n *node) Birth() int64 { return n.birth }

// Finish completes what Create, Mkdir, Symlink and Mknod do after their system call: an owner that root asked
// for, bits of a directory's mode, size and times. Owner, group, mode and ACL of the caller were there at
// once. It changes nothing if the file was changed later than just after its birth.
func (n *file) Finish(in *backend.Init) error {
	g, err := n.hold()
	if err != nil {
		return err
	}
	st, err := g.stat()
	g.done()
	if err != nil || !raw(&st) {
		return err
	}
	if in.Attr.SetSize && in.Attr.Size > 0 && st.attr.Size == 0 && n.typ == nfs3.TypeReg {
		if err := n.truncate(in.Attr.Size); err != nil {
			return err
		}
	}
	rest := *in
	if st.attr.UID != uint32(os.Geteuid()) { // its owner is right, and may have given it another group
		rest.Attr.SetUID, rest.Attr.SetGID = false, false
	}
	const special = 0o7000
	if rest.Attr.Mode&^special != st.attr.Mode&^special { // somebody has changed it
		rest.Attr.SetMode = false
	}
	if err := n.dress(&rest, &st); err != nil {
		return err
	}
	return n.settleAttr()
}

// raw reports whether nobody has visibly changed a file since it was made.
func raw(st *stat) bool {
	const later = time.Second
	return st.birth != 0 && st.attr.Ctime.Time().Sub(time.Unix(0, st.birth)) < later
}

// Sync syncs the file, or the root if the file cannot be opened.
func (n *file) Sync() error { return n.settleAttr() }
