package dir

import (
	"errors"
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
	o.file.mu.Lock()
	defer o.file.mu.Unlock()
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
func (f *FS) settle(dirs ...gripRef) error {
	if f.cfg.Async {
		return nil
	}
	for i, d := range dirs {
		if i > 0 && d.grip == dirs[0].grip {
			continue
		}
		if err := f.syncDir(d); err != nil {
			return status(err)
		}
	}
	return nil
}

// syncDir syncs a directory, or, if this process may not read it, the root: on journaling file systems
// that includes all changes of names and attributes before it.
func (f *FS) syncDir(d gripRef) error {
	file, err := d.syncFile()
	if errors.Is(status(err), nfs3.ErrAcces) {
		file, err = f.top.syncFile()
	}
	if err != nil {
		return err
	}
	return f.doSync(file, syncNames)
}

// settleAttr makes a change of n's attributes durable. If the file cannot be opened, because of its kind
// or permissions, the sync of the root must do.
func (n *node) settleAttr() error {
	f := n.fs
	if f.cfg.Async {
		return nil
	}
	g, err := n.hold()
	if err != nil {
		return err
	}
	defer g.done()
	switch n.typ {
	case nfs3.TypeDir:
		return status(f.syncDir(g))
	case nfs3.TypeReg:
		file, err := g.openFile(false)
		if err != nil {
			break
		}
		defer file.Close()
		sh := f.share.enter(n.key, -1)
		defer f.share.leave(n.key)
		sh.mu.Lock()
		defer sh.mu.Unlock()
		if err := f.doSync(file, syncNames); err != nil {
			f.newVerf()
			return status(err)
		}
		return nil
	case nfs3.TypeBlk, nfs3.TypeChr, nfs3.TypeLnk, nfs3.TypeSock, nfs3.TypeFIFO:
	}
	return f.settle(gripRef{grip: f.top})
}
