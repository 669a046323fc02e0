package server

import (
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// remove is REMOVE (RFC 1813 Section 3.3.12).
func (o *op) remove(d *xdr.Decoder) error {
	var args nfs3.RemoveArgs
	if err := xdr.Decode(d, &args).Err(); err != nil {
		return err
	}
	o.removing(&args, func(dir *file) error {
		if err := o.removable(args.Name); err != nil {
			return err
		}
		return o.notTwice(dir, args.Name, gone, func() error { return dir.node.Remove(args.Name) })
	})
	return nil
}

// removable checks a REMOVE.
func (o *op) removable(name string) error {
	if err := o.writable(); err != nil {
		return err
	}
	return o.name(name, nfs3.ErrAcces)
}

// rmdir is RMDIR (RFC 1813 Section 3.3.13): "." is INVAL, ".." EXIST.
func (o *op) rmdir(d *xdr.Decoder) error {
	var args nfs3.RmdirArgs
	if err := xdr.Decode(d, &args).Err(); err != nil {
		return err
	}
	dots := nfs3.ErrExist
	if args.Name == "." {
		dots = nfs3.ErrInval
	}
	o.removing(&args, func(dir *file) error {
		if err := o.name(args.Name, dots); err != nil {
			return err
		}
		return o.notTwice(dir, args.Name, gone, func() error { return dir.node.Rmdir(args.Name) })
	})
	return nil
}

// removing is the common part of the two removals.
func (o *op) removing(args *nfs3.DirOpArgs, fn func(dir *file) error) {
	defer o.hold(args.Dir, nil)()
	var res nfs3.WccRes
	dir, err := o.dir(args.Dir)
	ch := o.changing(dir)
	if err == nil {
		err = o.writable()
	}
	if err == nil {
		err = fn(&dir)
	}
	res.Status, res.Wcc = o.status(err), ch.wcc()
	o.c.Resp.Results = xdr.Encode(o.c.Resp.Results, &res)
}
