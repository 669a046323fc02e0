package dir

import (
	"errors"
	"io"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Read reads straight into p.
func (n *file) Read(p []byte, off uint64) (int, error) {
	s, fresh, err := n.openFile(false)
	if err != nil {
		return 0, err
	}
	defer n.fs.files.put(s)
	if !fresh {
		if err := n.prove(s.v); err != nil {
			return 0, err
		}
	}
	if off > 1<<63-1 {
		return 0, nil
	}
	got, err := n.fs.quick.ReadAt(s.v.f, p, int64(off))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return got, status(err)
}

// Write writes straight from p. If some octets were written before an error, it reports those:
// the client sends the rest again and gets the error then.
func (n *file) Write(p []byte, off uint64, how nfs3.StableHow) (backend.WriteResult, error) {
	var res backend.WriteResult
	if n.typ != nfs3.TypeReg {
		return res, nfs3.ErrInval
	}
	if off > n.fs.limit || uint64(len(p)) > n.fs.limit-off {
		return res, nfs3.ErrFBig
	}
	s, fresh, err := n.openFile(true)
	if err != nil {
		return res, err
	}
	defer n.fs.files.put(s)
	// Taken before the write: if a sync fails meanwhile, these octets may be lost with the
	// others, and the client must not get the verifier from after that.
	res.Verf = n.fs.writeVerf()
	err = n.writing(s.v, fresh, func() (err error) {
		res.N, err = n.fs.quick.WriteAt(s.v.f, p, int64(off))
		return err
	})
	if err != nil && res.N == 0 {
		return res, err
	}
	err = nil
	res.Committed = how
	switch how {
	case nfs3.DataSync:
		_, err = s.v.sync(syncData)
	case nfs3.FileSync:
		_, err = s.v.sync(syncAll)
	case nfs3.Unstable:
	}
	return res, err
}

// Commit syncs the whole file, which covers any range of it. Whoever may read or write a file may sync it.
func (n *file) Commit(uint64, uint32) (nfs3.WriteVerf, error) {
	s, _, err := n.openFile(true)
	if refused(err) {
		s, _, err = n.openFile(false)
	}
	if err != nil {
		return nfs3.WriteVerf{}, err
	}
	defer n.fs.files.put(s)
	return s.v.sync(syncAll)
}
