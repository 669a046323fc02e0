package server

import (
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// getAttr is GETATTR (RFC 1813 Section 3.3.1). It needs no permission.
func (o *op) getAttr(d *xdr.Decoder) error {
	var args nfs3.GetAttrArgs
	if err := args.Parse(d); err != nil {
		return err
	}
	var res nfs3.GetAttrRes
	f, err := o.file(args.Handle)
	res.Status, res.Attr = o.status(err), f.attr
	o.c.Resp.Results = res.Append(o.c.Resp.Results)
	return nil
}

// setAttr is SETATTR (RFC 1813 Section 3.3.2). It holds the file while it compares the guard and
// changes the attributes.
func (o *op) setAttr(d *xdr.Decoder) error {
	var args nfs3.SetAttrArgs
	if err := args.Parse(d); err != nil {
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
	o.c.Resp.Results = res.Append(o.c.Resp.Results)
	return nil
}

// settable finds the file of a SETATTR and checks everything that can be checked before.
func (o *op) settable(args *nfs3.SetAttrArgs) error {
	f, err := o.file(args.Handle)
	if err != nil {
		return err
	}
	return o.mayApply(&f, guardOf(args), &args.Attr)
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
	o.cred.dropSetID(&f.attr, &args.Attr)
	return f.node.SetAttr(&args.Attr)
}

// mayApply checks a SETATTR.
func (o *op) mayApply(f *file, guard *nfs3.Time, set *nfs3.SetAttr) error {
	if err := o.writable(); err != nil {
		return err
	}
	if guard != nil && *guard != f.attr.Ctime {
		return nfs3.ErrNotSync
	}
	return o.cred.maySet(&f.attr, set)
}

// maySet returns an error unless c may make the change s to a. Everything is checked before anything is
// changed, so that the change is made completely or not at all.
func (c *Cred) maySet(a *nfs3.Attr, s *nfs3.SetAttr) error {
	owner := c.owns(a)
	switch {
	case s.SetSize && a.Type != nfs3.TypeReg:
		return nfs3.ErrInval
	case s.SetSize && !c.mayWrite(a):
		return nfs3.ErrAcces
	case s.SetMode && !owner:
		return nfs3.ErrPerm
	case s.SetUID && !c.root() && (!owner || s.UID != a.UID):
		return nfs3.ErrPerm
	case s.SetGID && !c.root() && (!owner || s.GID != a.GID && !c.in(s.GID)):
		return nfs3.ErrPerm
	case (s.AtimeHow == nfs3.ClientTime || s.MtimeHow == nfs3.ClientTime) && !owner:
		return nfs3.ErrPerm
	case (s.AtimeHow == nfs3.ServerTime || s.MtimeHow == nfs3.ServerTime) && !owner && !c.may(a, permW):
		return nfs3.ErrAcces
	}
	return nil
}

// dropSetID clears the set-id bits if an unprivileged caller changes the content or owner of a file, as
// local file systems do.
func (c *Cred) dropSetID(a *nfs3.Attr, s *nfs3.SetAttr) {
	if c.root() || a.Type == nfs3.TypeDir {
		return
	}
	if s.SetMode && !c.in(a.GID) {
		s.Mode &^= modeSetGID
	}
	if !s.SetMode && (s.SetSize || s.SetUID || s.SetGID) && a.Mode&(modeSetUID|modeSetGID) != 0 {
		s.SetMode, s.Mode = true, a.Mode&^(modeSetUID|modeSetGID)
	}
}

// access is ACCESS (RFC 1813 Section 3.3.4).
func (o *op) access(d *xdr.Decoder) error {
	var args nfs3.AccessArgs
	if err := args.Parse(d); err != nil {
		return err
	}
	var res nfs3.AccessRes
	f, err := o.file(args.Handle)
	res.Status, res.Attr = o.status(err), f.opt()
	if err == nil {
		res.Access = o.cred.access(&f.attr, args.Access)
		if o.exp.ReadOnly {
			res.Access &^= nfs3.AccessModify | nfs3.AccessExtend | nfs3.AccessDelete
		}
	}
	o.c.Resp.Results = res.Append(o.c.Resp.Results)
	return nil
}
