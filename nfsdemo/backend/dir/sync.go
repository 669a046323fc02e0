package dir

import (
	"os"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// syncOp is a kind of sync.
type syncOp int

const (
	syncData  syncOp = iota + 1 // fdatasync of a file: data, and the metadata needed to read them
	syncAll                     // fsync of a file
	syncNames                   // fsync of a directory or of a file whose attributes changed
)

// sync makes the file durable and returns the write verifier that covers what was written
// before. Only one sync of a file runs at a time: the kernel reports an error of the writes
// once, and the verifier must have changed before a later sync can report success.
func (o *openFile) sync(op syncOp) (nfs3.WriteVerf, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dirty.Store(false)
	if err := o.fs.doSync(o.f, op); err != nil {
		o.fs.newVerf()
		return nfs3.WriteVerf{}, nfs3.ErrIO
	}
	return o.fs.writeVerf(), nil
}

// doSync is the one place that syncs.
func (f *FS) doSync(file *os.File, op syncOp) error {
	if f.syncErr != nil {
		if err := f.syncErr(op); err != nil {
			return err
		}
	}
	if op == syncData {
		return datasync(file)
	}
	return file.Sync()
}

// settle makes a change of names in these directories durable.
func (f *FS) settle(dirs ...*openDir) error {
	if f.cfg.Async {
		return nil
	}
	for i, d := range dirs {
		if i > 0 && d == dirs[0] {
			continue
		}
		if err := f.doSync(d.f, syncNames); err != nil {
			return status(err)
		}
	}
	return nil
}

// settleAttr makes a change of n's attributes durable. If the file cannot be opened, because of
// its kind or permissions, the sync of its directory must do, which on journaling file systems
// includes the attributes.
func (n *node) settleAttr(d *openDir) error {
	if n.fs.cfg.Async {
		return nil
	}
	switch n.typ {
	case nfs3.TypeReg:
		if s, err := n.openFile(false); err == nil {
			defer n.fs.files.put(s)
			s.v.mu.Lock()
			defer s.v.mu.Unlock()
			if err := n.fs.doSync(s.v.f, syncNames); err != nil {
				n.fs.newVerf()
				return status(err)
			}
			return nil
		}
	case nfs3.TypeDir:
		if ref, err := n.open(); err == nil {
			defer ref.done()
			return n.fs.settle(ref.openDir)
		}
	case nfs3.TypeBlk, nfs3.TypeChr, nfs3.TypeLnk, nfs3.TypeSock, nfs3.TypeFIFO:
	}
	return n.fs.settle(d)
}
