package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"go.uber.org/zap"
)

// op is one NFS call in progress. The export and the ids are known after the first handle was resolved.
type op struct {
	s    *Server
	c    *Call
	ctx  context.Context
	proc nfs3.Proc
	exp  *export
	cred Cred            // as the export sees it
	who  caller.Identity // the same for the backend

	entered *export // its FS is in use until leave
}

// file is a file that an op works on.
type file struct {
	node backend.Node
	attr nfs3.Attr
}

// opt returns the attributes of f as post_op_attr: absent if there is no file.
func (f *file) opt() nfs3.OptAttr {
	if f.node == nil {
		return nfs3.OptAttr{}
	}
	return nfs3.SomeAttr(&f.attr)
}

// handleHead is the length in octets of the export number at the start of every handle.
const handleHead = 4

// appendHandle appends the handle of a file.
func (e *export) appendHandle(b []byte, n backend.Node) nfs3.FileHandle {
	return n.AppendHandle(binary.BigEndian.AppendUint32(b, e.id))
}

// node finds the file of a handle, and checks that the caller may use the export.
func (o *op) node(h nfs3.FileHandle) (backend.Node, error) {
	if len(h) <= handleHead {
		return nil, nfs3.ErrBadHandle
	}
	id := binary.BigEndian.Uint32(h)
	if o.entered == nil {
		o.entered = o.s.enter(id)
	}
	e := o.entered
	switch {
	case e == nil:
		return nil, nfs3.ErrStale
	case e.id != id && o.s.export(h) == nil:
		return nil, nfs3.ErrStale
	case e.id != id:
		return nil, nfs3.ErrXDev
	}
	e, err := o.s.admit(ended, e, o.c)
	c := o.c.Cred
	if errors.Is(err, errSec) && e.FS != nil && o.asksFirst() && bytes.Equal(h, e.appendHandle(nil, e.FS.Root())) {
		err, c = nil, Cred{Anonymous: true, Machine: c.Machine}
	}
	switch {
	case err != nil:
		return nil, err
	case e.FS == nil:
		return nil, nfs3.ErrJukebox
	}
	o.exp, o.cred = e, e.squash(c)
	o.who = o.cred.identity()
	n, err := e.FS.Resolve(o.c.RemoteAddr, h[handleHead:])
	if err != nil {
		return nil, err
	}
	return n.As(&o.who), nil
}

// asksFirst reports whether a client makes the call before it knows how users are to be known (RFC 2623 Section 2.3.2).
func (o *op) asksFirst() bool {
	return o.c.GSS == nil && (o.proc == nfs3.ProcGetAttr || o.proc == nfs3.ProcFSInfo || o.proc == nfs3.ProcFSStat)
}

// leave ends the use of the FS.
func (o *op) leave() {
	if o.entered != nil {
		o.entered.use.leave()
	}
}

// file finds the file of a handle and its attributes.
func (o *op) file(h nfs3.FileHandle) (file, error) {
	n, err := o.node(h)
	if err != nil {
		return file{}, err
	}
	a, err := n.Attr()
	if err != nil {
		return file{}, err
	}
	return file{node: n, attr: a}, nil
}

// dir is file for a directory.
func (o *op) dir(h nfs3.FileHandle) (file, error) {
	f, err := o.file(h)
	if err == nil && f.attr.Type != nfs3.TypeDir {
		err = nfs3.ErrNotDir
	}
	return f, err
}

// name checks a name that the call makes or removes in a directory.
func (o *op) name(name string, dots nfs3.Status) error {
	if backend.IsDots(name) {
		return dots
	}
	return o.lookupName(name)
}

// lookupName checks a name that the call looks up.
func (o *op) lookupName(name string) error {
	if err := backend.CheckName(name); err != nil {
		return err
	}
	if len(name) > o.exp.nameMax() {
		return nfs3.ErrNameTooLong
	}
	return nil
}

// status returns the status with which the procedure answers err, and logs errors that have none.
func (o *op) status(err error) nfs3.Status {
	s, known := statusOf(err)
	if !known {
		o.s.cfg.Logger.Warn("server: backend error", zap.Stringer("nfs.procedure", o.proc), zap.Error(err))
	}
	if errors.Is(err, errXprtSec) || errors.Is(err, errSec) {
		return s // Choice: as Linux, also where RFC 1813 lists no ACCES, so that a client that can do better knows
	}
	return fit(o.proc, s)
}

// prefix makes a handle of this server from that of a backend.
func (e *export) prefix(h []byte) nfs3.FileHandle {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, handleHead+len(h)), e.id), h...)
}
