package server

import (
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// getAttr is GETATTR (RFC 1813 Section 3.3.1). It needs no permission.
func (o *op) getAttr(d *xdr.Decoder) error {
	var args nfs3.GetAttrArgs
	if err := xdr.Decode(d, &args).Err(); err != nil {
		return err
	}
	var res nfs3.GetAttrRes
	f, err := o.file(args.Handle)
	res.Status, res.Attr = o.status(err), f.attr
	o.c.Resp.Results = xdr.Encode(o.c.Resp.Results, &res)
	return nil
}

// setAttr is SETATTR (RFC 1813 Section 3.3.2). It holds the file while it compares the guard and
// changes the attributes.
func (o *op) setAttr(d *xdr.Decoder) error {
	var args nfs3.SetAttrArgs
	if err := xdr.Decode(d, &args).Err(); err != nil {
		return err
	}
	defer o.s.locks.lock(args.Handle, nil)()
	var res nfs3.SetAttrRes
	f, err := o.file(args.Handle)
	ch := o.changing(f)
	if err == nil {
		err = o.applyAttr(&f, &args)
	}
	res.Status, res.Wcc = o.status(err), ch.wcc()
	o.c.Resp.Results = xdr.Encode(o.c.Resp.Results, &res)
	return nil
}

// guardOf returns the guard of a SETATTR, or nil if it has none.
func guardOf(args *nfs3.SetAttrArgs) *nfs3.Time {
	if args.Guard {
		return &args.Ctime
	}
	return nil
}

// applyAttr checks and executes a SETATTR.
func (o *op) applyAttr(f *file, args *nfs3.SetAttrArgs) error {
	if err := o.mayApply(f, guardOf(args), &args.Attr); err != nil {
		return err
	}
	if args.Attr.IsZero() {
		return nil
	}
	return f.node.SetAttr(&args.Attr)
}

// mayApply checks of a SETATTR what the backend does not: it decides what the caller may do.
func (o *op) mayApply(f *file, guard *nfs3.Time, set *nfs3.SetAttr) error {
	if err := o.writable(); err != nil {
		return err
	}
	if guard != nil && *guard != f.attr.Ctime {
		return nfs3.ErrNotSync
	}
	if set.SetSize && f.attr.Type != nfs3.TypeReg {
		return nfs3.ErrInval
	}
	return nil
}

// access is ACCESS (RFC 1813 Section 3.3.4).
func (o *op) access(d *xdr.Decoder) error {
	var args nfs3.AccessArgs
	if err := xdr.Decode(d, &args).Err(); err != nil {
		return err
	}
	var res nfs3.AccessRes
	f, err := o.file(args.Handle)
	res.Status, res.Attr = o.status(err), f.opt()
	if err == nil {
		res.Access, err = f.node.Access(args.Access)
		res.Status = o.status(err)
		if o.exp.ReadOnly {
			res.Access &^= nfs3.AccessModify | nfs3.AccessExtend | nfs3.AccessDelete
		}
	}
	o.c.Resp.Results = xdr.Encode(o.c.Resp.Results, &res)
	return nil
}
