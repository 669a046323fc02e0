package server

import (
	"errors"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// create is CREATE (RFC 1813 Section 3.3.8). Of an existing file, an unchecked one sets the size; the other attributes are only for a
// new file.
func (o *op) create(args *nfs3.CreateArgs, res *nfs3.CreateRes) error {
	in := initOf(nfs3.TypeReg, &args.Attr, 0o644)
	if args.Mode == nfs3.Exclusive {
		// A SETATTR sets the attributes; until then only the owner can use the file.
		in = initOf(nfs3.TypeReg, &nfs3.SetAttr{}, 0o600)
		in.Verf = &args.Verf
	}
	if args.Mode != nfs3.Unchecked {
		return o.making(&args.Where, in, res, nfs3.OK, nil)
	}
	return o.making(&args.Where, in, res, nfs3.OK, func(f *file) error {
		switch {
		case f.attr.Type != nfs3.TypeReg:
			return nfs3.ErrExist
		case !args.Attr.SetSize:
			return nil
		}
		err := f.node.SetAttr(&nfs3.SetAttr{SetSize: true, Size: args.Attr.Size})
		if err == nil {
			f.attr, err = f.node.Attr()
		}
		return err
	})
}

// mkdir is MKDIR (RFC 1813 Section 3.3.9).
func (o *op) mkdir(args *nfs3.MkdirArgs, res *nfs3.MkdirRes) error {
	return o.making(&args.Where, initOf(nfs3.TypeDir, &args.Attr, 0o755), res, nfs3.OK, nil)
}

// symlink is SYMLINK (RFC 1813 Section 3.3.10). It refuses an empty path: nobody could use such a
// link, and local file systems refuse it too.
func (o *op) symlink(args *nfs3.SymlinkArgs, res *nfs3.SymlinkRes) error {
	in, wrong := initOf(nfs3.TypeLnk, &args.Attr, 0o777), nfs3.OK
	switch in.Target = args.Path; {
	case args.Path == "":
		wrong = nfs3.ErrAcces
	case len(args.Path) >= nfs3.MaxPath:
		wrong = nfs3.ErrNameTooLong
	}
	return o.making(&args.Where, in, res, wrong, nil)
}

// mknod is MKNOD (RFC 1813 Section 3.3.11).
func (o *op) mknod(args *nfs3.MknodArgs, res *nfs3.MknodRes) error {
	in, wrong := initOf(args.Type, &args.Attr, 0o644), nfs3.OK
	in.Rdev = args.Rdev
	if args.Type == nfs3.TypeReg || args.Type == nfs3.TypeDir || args.Type == nfs3.TypeLnk {
		wrong = nfs3.ErrBadType
	}
	return o.making(&args.Where, in, res, wrong, nil)
}

// createTries limits the rounds of a CREATE whose name comes and goes.
const createTries = 8

// making makes an object as in says, and fills res. wrong is what is wrong with the arguments, of which a bad directory or name is
// told first. A file that has the name already is opened, if that is possible, otherwise the name must be free.
func (o *op) making(where *nfs3.DirOpArgs, in *backend.Init, res *nfs3.NewRes, wrong nfs3.Status, open func(*file) error) error {
	defer o.hold(where.Dir, nil)()
	dir, err := o.names(where, nfs3.ErrExist)
	defer o.changed(&dir, &res.DirWcc)
	if err == nil {
		err = wrong.Err()
	}
	if err != nil {
		return err
	}
	in.Call = o.callID()
	var f file
	for range createTries {
		if open != nil {
			if f, err = o.find(&dir, where.Name); err == nil {
				if err = open(&f); errors.Is(err, nfs3.ErrStale) { // removed since: the name is free again
					continue
				}
				break
			}
			if !errors.Is(err, nfs3.ErrNoEnt) {
				break
			}
		}
		if f.node, f.attr, err = dir.node.Create(where.Name, in); open == nil || !errors.Is(err, nfs3.ErrExist) {
			break
		}
	}
	if err == nil {
		res.Handle, res.Attr = nfs3.SomeHandle(o.exp.appendHandle(nil, f.node)), f.opt()
	}
	return err
}

// initOf returns the initial state of a new file: the attributes asked for, and a mode.
func initOf(typ nfs3.FileType, s *nfs3.SetAttr, mode uint32) *backend.Init {
	in := &backend.Init{Type: typ, Attr: *s}
	if !s.SetMode {
		in.Attr.SetMode, in.Attr.Mode = true, mode
	}
	in.Attr.Mode &= 0o7777
	return in
}
