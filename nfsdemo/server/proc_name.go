package server

import (
	"bytes"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// names finds the directory of a call that changes a name there, and checks the name, of which "." and ".." are refused with dots.
func (o *op) names(at *nfs3.DirOpArgs, dots nfs3.Status) (file, error) {
	dir, err := o.dir(at.Dir)
	switch {
	case err != nil:
		return dir, err
	case o.exp.ReadOnly:
		return dir, nfs3.ErrROFS
	}
	return dir, o.name(at.Name, dots)
}

// remove is REMOVE (RFC 1813 Section 3.3.12).
func (o *op) remove(args *nfs3.RemoveArgs, res *nfs3.RemoveRes) error {
	defer o.hold(args.Dir, nil)()
	dir, err := o.names(args, nfs3.ErrAcces)
	defer o.changed(&dir, &res.Wcc)
	if err != nil {
		return err
	}
	return o.notTwice(&dir, args.Name, gone, func() error { return dir.node.Remove(args.Name, false) })
}

// rmdir is RMDIR (RFC 1813 Section 3.3.13): "." is INVAL, ".." EXIST.
func (o *op) rmdir(args *nfs3.RmdirArgs, res *nfs3.RmdirRes) error {
	dots := nfs3.ErrExist
	if args.Name == "." {
		dots = nfs3.ErrInval
	}
	defer o.hold(args.Dir, nil)()
	dir, err := o.names(args, dots)
	defer o.changed(&dir, &res.Wcc)
	if err != nil {
		return err
	}
	return o.notTwice(&dir, args.Name, gone, func() error { return dir.node.Remove(args.Name, true) })
}

// rename is RENAME (RFC 1813 Section 3.3.14). "." and ".." are INVAL.
func (o *op) rename(args *nfs3.RenameArgs, res *nfs3.RenameRes) error {
	defer o.hold(args.From.Dir, args.To.Dir)()
	from, err := o.dir(args.From.Dir)
	defer o.changed(&from, &res.FromWcc)
	if err != nil {
		return err
	}
	to, err := o.dir(args.To.Dir)
	defer o.changed(&to, &res.ToWcc)
	switch {
	case err != nil:
		return err
	case o.exp.ReadOnly:
		return nfs3.ErrROFS
	}
	for _, name := range [...]string{args.From.Name, args.To.Name} {
		if err := o.name(name, nfs3.ErrInval); err != nil {
			return err
		}
	}
	return o.notTwice(&from, args.From.Name, gone, func() error {
		return from.node.Rename(args.From.Name, to.node, args.To.Name)
	})
}

// link is LINK (RFC 1813 Section 3.3.15). "." and ".." exist.
func (o *op) link(args *nfs3.LinkArgs, res *nfs3.LinkRes) error {
	defer o.hold(args.Link.Dir, nil)()
	f, err := o.file(args.Handle)
	if err != nil {
		return err
	}
	dir, err := o.names(&args.Link, nfs3.ErrExist)
	defer o.changed(&dir, &res.DirWcc)
	if err == nil && f.attr.Type == nfs3.TypeDir {
		err = nfs3.ErrInval
	}
	if err == nil {
		id := o.exp.appendHandle(nil, f.node)
		linked := func(was, is nfs3.FileHandle) bool { return bytes.Equal(is, id) && !bytes.Equal(was, id) }
		err = o.notTwice(&dir, args.Link.Name, linked, func() error { return dir.node.Link(f.node, args.Link.Name) })
	}
	if a, aerr := f.node.Attr(); aerr == nil { // of a link more
		f.attr = a
	}
	res.Attr = f.opt()
	return err
}
