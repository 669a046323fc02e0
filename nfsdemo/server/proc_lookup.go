package server

import (
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// lookup is LOOKUP (RFC 1813 Section 3.3.3).
func (o *op) lookup(d *xdr.Decoder) error {
	var args nfs3.LookupArgs
	if err := xdr.Decode(d, &args).Err(); err != nil {
		return err
	}
	var res nfs3.LookupRes
	dir, err := o.dir(args.Dir)
	var f file
	var over *file
	if err == nil {
		f, err = o.find(&dir, args.Name)
	}
	if err == nil {
		res.Handle, over, err = o.cross(&f)
	}
	res.Status, res.DirAttr = o.status(err), dir.opt()
	if over != nil {
		res.Attr = over.opt()
	} else if err == nil {
		var buf [nfs3.MaxHandle]byte
		res.Handle, res.Attr = o.exp.appendHandle(buf[:0], f.node), f.opt()
	}
	o.c.Resp.Results = xdr.Encode(o.c.Resp.Results, &res)
	return nil
}

// find looks up a name in a directory.
func (o *op) find(dir *file, name string) (file, error) {
	if err := o.lookupName(name); err != nil {
		return file{}, err
	}
	n, a, err := dir.node.Lookup(name)
	if err != nil {
		return file{}, err
	}
	return file{node: n, attr: a}, nil
}

// readLink is READLINK (RFC 1813 Section 3.3.5). The server does not interpret the path, which is
// reducible. Links have no permissions.
func (o *op) readLink(d *xdr.Decoder) error {
	var args nfs3.ReadLinkArgs
	if err := xdr.Decode(d, &args).Err(); err != nil {
		return err
	}
	var res nfs3.ReadLinkRes
	f, err := o.file(args.Handle)
	var path string
	if err == nil {
		path, err = f.node.ReadLink()
	}
	res.Status, res.Attr = o.status(err), f.opt()
	o.c.Resp.Results = xdr.Encode(o.c.Resp.Results, res.Head())
	if err == nil {
		buf := o.c.Resp.Scratch(len(path))
		copy(buf, path)
		o.c.Resp.AppendItem(buf)
	}
	return nil
}
