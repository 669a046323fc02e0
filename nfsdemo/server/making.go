package server

import (
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// making is the common part of calls that make an object: it finds the directory, which the caller
// must be able to search, checks the name, runs fn, and answers.
func (o *op) making(where *nfs3.DirOpArgs, fn func(dir *file) (file, error)) {
	defer o.hold(where.Dir, nil)()
	var res nfs3.NewRes
	dir, err := o.dir(where.Dir, permX)
	ch := o.changing(dir)
	if err == nil {
		err = o.writable()
	}
	if err == nil {
		err = o.name(where.Name, nfs3.ErrExist)
	}
	var f file
	if err == nil {
		f, err = fn(&dir)
	}
	res.Status, res.DirWcc = o.status(err), ch.wcc()
	if err == nil {
		res.Handle, res.Attr = nfs3.SomeHandle(o.handleOf(f.node)), f.opt()
	}
	o.c.Resp.Results = res.Append(o.c.Resp.Results)
}

// makingNew is making for calls whose name must be free. A taken name is reported before a directory that
// cannot be written.
func (o *op) makingNew(where *nfs3.DirOpArgs, fn func(dir *file) (backend.Node, nfs3.Attr, error)) {
	o.making(where, func(dir *file) (file, error) {
		if !o.cred.may(&dir.attr, permW) {
			if _, err := o.find(dir, where.Name); err == nil {
				return file{}, nfs3.ErrExist
			}
			return file{}, nfs3.ErrAcces
		}
		n, a, err := fn(dir)
		return file{node: n, attr: a}, err
	})
}

// init returns the initial state of a new file: owned by the caller, with the group of a set-group-id
// directory, and the requested mode.
func (o *op) init(dir *file, s *nfs3.SetAttr, mode uint32) *backend.Init {
	in := &backend.Init{Attr: *s, UID: o.cred.UID, GID: o.cred.GID}
	if !s.SetMode {
		in.Attr.SetMode, in.Attr.Mode = true, mode
	}
	in.Attr.Mode &= 0o7777
	if dir.attr.Mode&modeSetGID != 0 {
		in.GID = dir.attr.GID
	}
	if s.SetUID && o.cred.root() {
		in.UID = s.UID
	}
	if s.SetGID && (o.cred.root() || o.cred.in(s.GID)) {
		in.GID = s.GID
	}
	return in
}
