package server

import (
	"errors"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// making is the common part of calls that make an object as in says: it finds the directory, checks the name, runs
// fn, and answers.
func (o *op) making(where *nfs3.DirOpArgs, in *backend.Init, fn func(dir *file) (file, error)) {
	defer o.hold(where.Dir, nil)()
	var res nfs3.NewRes
	dir, err := o.dir(where.Dir)
	ch := o.changing(dir)
	if err == nil {
		err = o.writable()
	}
	if err == nil {
		err = o.name(where.Name, nfs3.ErrExist)
	}
	var f file
	if err == nil {
		in.Call = o.callID()
		f, err = fn(&dir)
		if errors.Is(err, nfs3.ErrExist) {
			f, err = o.madeBefore(&dir, where.Name, in)
		}
	}
	res.Status, res.DirWcc = o.status(err), ch.wcc()
	if err == nil {
		res.Handle, res.Attr = nfs3.SomeHandle(o.handleOf(f.node)), f.opt()
	}
	o.c.Resp.Results = xdr.Encode(o.c.Resp.Results, &res)
}

// makingNew is making for calls whose name must be free.
func (o *op) makingNew(where *nfs3.DirOpArgs, in *backend.Init, fn func(dir *file) (backend.Node, nfs3.Attr, error)) {
	o.making(where, in, func(dir *file) (file, error) {
		n, a, err := fn(dir)
		return file{node: n, attr: a}, err
	})
}

// initOf returns the initial state of a new file: the attributes asked for, and a mode.
func initOf(s *nfs3.SetAttr, mode uint32) *backend.Init {
	in := &backend.Init{Attr: *s}
	if !s.SetMode {
		in.Attr.SetMode, in.Attr.Mode = true, mode
	}
	in.Attr.Mode &= 0o7777
	return in
}
