package server

import (
	"errors"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// create is CREATE (RFC 1813 Section 3.3.8).
func (o *op) create(args *nfs3.CreateArgs, res *nfs3.CreateRes) error {
	in := initOf(&args.Attr, 0o644)
	if args.Mode == nfs3.Exclusive {
		// A SETATTR sets the attributes; until then only the owner can use the file.
		in = initOf(&nfs3.SetAttr{}, 0o600)
		in.Verf = &args.Verf
	}
	return o.making(&args.Where, in, res, func(dir *file) (file, error) { return o.createFile(dir, args, in) })
}

// createTries limits the rounds of a CREATE whose name comes and goes.
const createTries = 8

// createFile finds or makes the file. If the name appears or vanishes in between, it tries again.
func (o *op) createFile(dir *file, args *nfs3.CreateArgs, in *backend.Init) (f file, err error) {
	for range createTries {
		if f, err = o.find(dir, args.Where.Name); !errors.Is(err, nfs3.ErrNoEnt) {
			if err != nil {
				return file{}, err
			}
			// It may be removed in between: the name is free again.
			if f, err = o.openExisting(f, args); !errors.Is(err, nfs3.ErrStale) {
				return f, err
			}
			continue
		}
		if f.node, f.attr, err = dir.node.Create(args.Where.Name, in); !errors.Is(err, nfs3.ErrExist) {
			return f, err
		}
	}
	return file{}, err
}

// openExisting is CREATE of an existing name.
func (o *op) openExisting(f file, args *nfs3.CreateArgs) (file, error) {
	switch args.Mode {
	case nfs3.Exclusive:
		ok, err := f.node.HasVerf(args.Verf)
		if err == nil && !ok {
			err = nfs3.ErrExist
		}
		return f, err
	case nfs3.Unchecked:
		if f.attr.Type != nfs3.TypeReg {
			return f, nfs3.ErrExist
		}
		return f, o.resize(&f, &args.Attr)
	case nfs3.Guarded:
	}
	return f, nfs3.ErrExist
}

// resize applies the size of an unchecked CREATE to an existing file. The other attributes are only for a
// new file.
func (o *op) resize(f *file, s *nfs3.SetAttr) error {
	if !s.SetSize {
		return nil
	}
	set := nfs3.SetAttr{SetSize: true, Size: s.Size}
	if err := f.node.SetAttr(&set); err != nil {
		return err
	}
	a, err := f.node.Attr()
	f.attr = a
	return err
}

// mkdir is MKDIR (RFC 1813 Section 3.3.9).
func (o *op) mkdir(args *nfs3.MkdirArgs, res *nfs3.MkdirRes) error {
	in := initOf(&args.Attr, 0o755)
	return o.making(&args.Where, in, res, func(dir *file) (f file, err error) {
		f.node, f.attr, err = dir.node.Mkdir(args.Where.Name, in)
		return f, err
	})
}

// symlink is SYMLINK (RFC 1813 Section 3.3.10). It refuses an empty path: nobody could use such a
// link, and local file systems refuse it too.
func (o *op) symlink(args *nfs3.SymlinkArgs, res *nfs3.SymlinkRes) error {
	in := initOf(&args.Attr, 0o777)
	return o.making(&args.Where, in, res, func(dir *file) (f file, err error) {
		switch {
		case args.Path == "":
			return f, nfs3.ErrAcces
		case len(args.Path) >= nfs3.MaxPath:
			return f, nfs3.ErrNameTooLong
		}
		f.node, f.attr, err = dir.node.Symlink(args.Where.Name, args.Path, in)
		return f, err
	})
}

// mknod is MKNOD (RFC 1813 Section 3.3.11).
func (o *op) mknod(args *nfs3.MknodArgs, res *nfs3.MknodRes) error {
	in := initOf(&args.Attr, 0o644)
	return o.making(&args.Where, in, res, func(dir *file) (f file, err error) {
		switch args.Type {
		case nfs3.TypeChr, nfs3.TypeBlk, nfs3.TypeSock, nfs3.TypeFIFO:
		case nfs3.TypeReg, nfs3.TypeDir, nfs3.TypeLnk:
			return f, nfs3.ErrBadType
		}
		f.node, f.attr, err = dir.node.Mknod(args.Where.Name, args.Type, args.Rdev, in)
		return f, err
	})
}

// making is the common part of calls that make an object as in says: it finds the directory, checks the name, runs
// fn, and fills res.
func (o *op) making(where *nfs3.DirOpArgs, in *backend.Init, res *nfs3.NewRes, fn func(dir *file) (file, error)) error {
	defer o.hold(where.Dir, nil)()
	dir, err := o.names(where, nfs3.ErrExist)
	defer o.changed(&dir, &res.DirWcc)
	if err != nil {
		return err
	}
	in.Call = o.callID()
	f, err := fn(&dir)
	if errors.Is(err, nfs3.ErrExist) {
		f, err = o.madeBefore(&dir, where.Name, in)
	}
	if err == nil {
		res.Handle, res.Attr = nfs3.SomeHandle(o.handleOf(f.node)), f.opt()
	}
	return err
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
