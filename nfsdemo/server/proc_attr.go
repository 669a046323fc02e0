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
// changes the attributes. What the caller may do, the backend decides.
func (o *op) setAttr(args *nfs3.SetAttrArgs, res *nfs3.SetAttrRes) error {
	defer o.s.locks.lock(args.Handle, nil)()
	f, err := o.file(args.Handle)
	defer o.changed(&f, &res.Wcc)
	switch {
	case err != nil:
		return err
	case o.exp.ReadOnly:
		return nfs3.ErrROFS
	case args.Guard && args.Ctime != f.attr.Ctime:
		return nfs3.ErrNotSync
	case args.Attr.SetSize && f.attr.Type != nfs3.TypeReg:
		return nfs3.ErrInval
	case args.Attr.IsZero():
		return nil
	}
	return f.node.SetAttr(&args.Attr)
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
