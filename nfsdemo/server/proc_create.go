package server

import (
	"errors"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// create is CREATE (RFC 1813 Section 3.3.8).
func (o *op) create(d *xdr.Decoder) error {
	var args nfs3.CreateArgs
	if err := xdr.Decode(d, &args).Err(); err != nil {
		return err
	}
	in := initOf(&args.Attr, 0o644)
	if args.Mode == nfs3.Exclusive {
		// A SETATTR sets the attributes; until then only the owner can use the file.
		in = initOf(&nfs3.SetAttr{}, 0o600)
		in.Verf = &args.Verf
	}
	o.making(&args.Where, in, func(dir *file) (file, error) { return o.createFile(dir, &args, in) })
	return nil
}

// createTries limits the rounds of a CREATE whose name comes and goes.
const createTries = 8

// createFile finds or makes the file. If the name appears or vanishes in between, it tries again.
func (o *op) createFile(dir *file, args *nfs3.CreateArgs, in *backend.Init) (file, error) {
	var err error
	for range createTries {
		var f file
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
		n, a, cerr := dir.node.Create(args.Where.Name, in)
		if err = cerr; !errors.Is(err, nfs3.ErrExist) {
			return file{node: n, attr: a}, err
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
func (o *op) mkdir(d *xdr.Decoder) error {
	var args nfs3.MkdirArgs
	if err := xdr.Decode(d, &args).Err(); err != nil {
		return err
	}
	in := initOf(&args.Attr, 0o755)
	o.makingNew(&args.Where, in, func(dir *file) (backend.Node, nfs3.Attr, error) {
		return dir.node.Mkdir(args.Where.Name, in)
	})
	return nil
}

// symlink is SYMLINK (RFC 1813 Section 3.3.10). It refuses an empty path: nobody could use such a
// link, and local file systems refuse it too.
func (o *op) symlink(d *xdr.Decoder) error {
	var args nfs3.SymlinkArgs
	if err := xdr.Decode(d, &args).Err(); err != nil {
		return err
	}
	in := initOf(&args.Attr, 0o777)
	o.makingNew(&args.Where, in, func(dir *file) (backend.Node, nfs3.Attr, error) {
		switch {
		case args.Path == "":
			return nil, nfs3.Attr{}, nfs3.ErrAcces
		case len(args.Path) >= nfs3.MaxPath:
			return nil, nfs3.Attr{}, nfs3.ErrNameTooLong
		}
		return dir.node.Symlink(args.Where.Name, args.Path, in)
	})
	return nil
}

// mknod is MKNOD (RFC 1813 Section 3.3.11).
func (o *op) mknod(d *xdr.Decoder) error {
	var args nfs3.MknodArgs
	if err := xdr.Decode(d, &args).Err(); err != nil {
		return err
	}
	in := initOf(&args.Attr, 0o644)
	o.makingNew(&args.Where, in, func(dir *file) (backend.Node, nfs3.Attr, error) {
		switch args.Type {
		case nfs3.TypeChr, nfs3.TypeBlk, nfs3.TypeSock, nfs3.TypeFIFO:
		case nfs3.TypeReg, nfs3.TypeDir, nfs3.TypeLnk:
			return nil, nfs3.Attr{}, nfs3.ErrBadType
		}
		return dir.node.Mknod(args.Where.Name, args.Type, args.Rdev, in)
	})
	return nil
}
