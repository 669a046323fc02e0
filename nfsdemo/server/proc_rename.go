package server

import (
	"bytes"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// rename is RENAME (RFC 1813 Section 3.3.14). "." and ".." are INVAL.
func (o *op) rename(d *xdr.Decoder) error {
	var args nfs3.RenameArgs
	if err := xdr.Decode(d, &args).Err(); err != nil {
		return err
	}
	defer o.hold(args.From.Dir, args.To.Dir)()
	var res nfs3.RenameRes
	from, err := o.dir(args.From.Dir)
	src := o.changing(from)
	var dst change
	if err == nil {
		var to file
		to, err = o.dir(args.To.Dir)
		dst = o.changing(to)
	}
	if err == nil {
		err = o.move(&src.file, &dst.file, &args)
	}
	res.Status, res.FromWcc, res.ToWcc = o.status(err), src.wcc(), dst.wcc()
	o.c.Resp.Results = xdr.Encode(o.c.Resp.Results, &res)
	return nil
}

// move checks and executes a RENAME.
func (o *op) move(from, to *file, args *nfs3.RenameArgs) error {
	if err := o.movable(args); err != nil {
		return err
	}
	return o.notTwice(from, args.From.Name, gone, func() error {
		return from.node.Rename(args.From.Name, to.node, args.To.Name)
	})
}

// movable checks a RENAME.
func (o *op) movable(args *nfs3.RenameArgs) error {
	if err := o.writable(); err != nil {
		return err
	}
	for _, name := range [...]string{args.From.Name, args.To.Name} {
		if err := o.name(name, nfs3.ErrInval); err != nil {
			return err
		}
	}
	return nil
}

// link is LINK (RFC 1813 Section 3.3.15). "." and ".." exist.
func (o *op) link(d *xdr.Decoder) error {
	var args nfs3.LinkArgs
	if err := xdr.Decode(d, &args).Err(); err != nil {
		return err
	}
	defer o.hold(args.Link.Dir, nil)()
	var res nfs3.LinkRes
	f, err := o.file(args.Handle)
	var ch change
	if err == nil {
		var dir file
		dir, err = o.dir(args.Link.Dir)
		ch = o.changing(dir)
	}
	if err == nil {
		err = o.addName(&f, &ch.file, args.Link.Name)
	}
	if f.node != nil {
		if a, aerr := f.node.Attr(); aerr == nil {
			f.attr = a
		}
	}
	res.Status, res.Attr, res.DirWcc = o.status(err), f.opt(), ch.wcc()
	o.c.Resp.Results = xdr.Encode(o.c.Resp.Results, &res)
	return nil
}

// addName checks and executes a LINK.
func (o *op) addName(f, dir *file, name string) error {
	if err := o.writable(); err != nil {
		return err
	}
	if err := o.name(name, nfs3.ErrExist); err != nil {
		return err
	}
	if f.attr.Type == nfs3.TypeDir {
		return nfs3.ErrInval
	}
	id := o.handleOf(f.node)
	linked := func(was, is nfs3.FileHandle) bool { return bytes.Equal(is, id) && !bytes.Equal(was, id) }
	return o.notTwice(dir, name, linked, func() error { return dir.node.Link(f.node, name) })
}
