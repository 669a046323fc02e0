package juicefs

import (
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Read reads octets. What is unstable here is made stable before.
func (n *file) Read(p []byte, off uint64) (int, error) {
	if n.typ != nfs3.TypeReg {
		return 0, nfs3.ErrInval
	}
	o, err := n.fs.v.files.get(n.ino)
	if err != nil {
		return 0, err
	}
	defer n.fs.v.files.put(o)
	return o.read(n, p, off)
}

// Write writes octets, into this process or into the object store.
func (n *file) Write(p []byte, off uint64, how nfs3.StableHow) (backend.WriteResult, error) {
	v := n.fs.v
	res := backend.WriteResult{Committed: nfs3.Unstable, Verf: v.verf()}
	if n.typ != nfs3.TypeReg {
		return res, nfs3.ErrInval
	}
	if end := off + uint64(len(p)); end < off || end > maxFile {
		return res, nfs3.ErrFBig
	}
	if how != nfs3.Unstable {
		res.Committed = nfs3.FileSync
	}
	a, err := n.stat()
	if err == nil {
		err = n.mayWrite(&a)
	}
	if err != nil || len(p) == 0 {
		return res, err
	}
	o, err := v.files.get(n.ino)
	if err != nil {
		return res, err
	}
	defer v.files.put(o)
	if err := n.dropSetID(&a); err != nil {
		return res, err
	}
	if err := o.write(p, off, &a); err != nil {
		return res, err
	}
	if how != nfs3.Unstable {
		if err := o.flush(); err != nil {
			return res, err
		}
	}
	res.N = len(p)
	return res, nil
}

// Commit makes the whole file stable.
func (n *file) Commit(uint64, uint32) (nfs3.WriteVerf, error) {
	v := n.fs.v
	if n.typ != nfs3.TypeReg {
		return v.verf(), nfs3.ErrInval
	}
	a, err := n.stat()
	if err == nil && n.mayWrite(&a) != nil {
		err = n.mayRead(&a)
	}
	if err != nil {
		return v.verf(), err
	}
	o, err := v.files.get(n.ino)
	if err != nil {
		return v.verf(), err
	}
	defer v.files.put(o)
	err = o.flush()
	return v.verf(), err // read after the flush, which may have found a loss
}
