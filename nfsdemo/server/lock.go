package server

import (
	"context"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// LockFile checks that the caller may use the export of a handle and, with open, that the file exists and that he may
// read or write it: then he may also lock it. It returns the file system, and the handle there, which is part
// of h. Errors are those of READ.
func (s *Server) LockFile(ctx context.Context, c *Call, h nfs3.FileHandle, open bool) (backend.FS, []byte, error) {
	e := s.export(h)
	switch {
	case len(h) <= handleHead || len(h) > nfs3.MaxHandle:
		return nil, nil, nfs3.ErrBadHandle
	case e == nil:
		return nil, nil, nfs3.ErrStale
	}
	if !open { // who gives back what he holds needs neither the file nor rights
		if _, err := s.admit(ended, e, c); err != nil {
			return nil, nil, err
		}
		return e.FS, h[handleHead:], nil
	}
	o := op{s: s, c: c, ctx: ctx}
	defer o.leave()
	n, err := o.node(h)
	if err != nil {
		return nil, nil, err
	}
	if err := n.Open(false, 0, 0); err != nil {
		if n.Open(true, 0, 0) != nil {
			return nil, nil, err
		}
	}
	return e.FS, h[handleHead:], nil
}
