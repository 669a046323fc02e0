package dir

import (
	"errors"
	"io"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Read reads straight into p.
func (n *node) Read(p []byte, off uint64) (int, error) {
	s, err := n.openFile(false)
	if err != nil {
		return 0, err
	}
	defer n.fs.files.put(s)
	if off > 1<<63-1 {
		return 0, nil
	}
	got, err := s.v.f.ReadAt(p, int64(off))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return got, status(err)
}

// Write writes straight from p. If some octets were written before an error, it reports those:
// the client sends the rest again and gets the error then.
func (n *node) Write(p []byte, off uint64, how nfs3.StableHow) (backend.WriteResult, error) {
	var res backend.WriteResult
	s, err := n.openFile(true)
	if err != nil {
		return res, err
	}
	defer n.fs.files.put(s)
	if off > 1<<63-1 || uint64(len(p)) > 1<<63-1-off {
		return res, nfs3.ErrFBig
	}
	// Taken before the write: if a sync fails meanwhile, these octets may be lost with the
	// others, and the client must not get the verifier from after that.
	res.Verf = n.fs.writeVerf()
	s.v.dirty.Store(true)
	res.N, err = s.v.f.WriteAt(p, int64(off))
	if err != nil && res.N == 0 {
		return res, status(err)
	}
	res.Committed = how
	switch how {
	case nfs3.DataSync:
		_, err = s.v.sync(syncData)
	case nfs3.FileSync:
		_, err = s.v.sync(syncAll)
	case nfs3.Unstable:
		err = nil
	}
	return res, err
}

// Commit syncs the whole file, which covers any range of it.
func (n *node) Commit(uint64, uint32) (nfs3.WriteVerf, error) {
	s, err := n.openFile(false)
	if errors.Is(err, nfs3.ErrAcces) { // perhaps we may only write it
		s, err = n.openFile(true)
	}
	if err != nil {
		return nfs3.WriteVerf{}, err
	}
	defer n.fs.files.put(s)
	return s.v.sync(syncAll)
}
