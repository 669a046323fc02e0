package server

import (
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// making is the common part of calls that make an object: it finds the directory, checks the name, runs fn,
// and answers.
func (o *op) making(where *nfs3.DirOpArgs, fn func(dir *file) (file, error)) {
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
		f, err = fn(&dir)
	}
	res.Status, res.DirWcc = o.status(err), ch.wcc()
	if err == nil {
		res.Handle, res.Attr = nfs3.SomeHandle(o.handleOf(f.node)), f.opt()
	}
	o.c.Resp.Results = res.Append(o.c.Resp.Results)
}

// makingNew is making for calls whose name must be free.
func (o *op) makingNew(where *nfs3.DirOpArgs, fn func(dir *file) (backend.Node, nfs3.Attr, error)) {
	o.making(where, func(dir *file) (file, error) {
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
