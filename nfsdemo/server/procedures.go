package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"

	"github.com/stag-rdma/stag/nfsdemo/backend"
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

// read is READ (RFC 1813 Section 3.3.6). The backend fills the transport's buffer.
func (o *op) read(d *xdr.Decoder) error {
	var args nfs3.ReadArgs
	if err := xdr.Decode(d, &args).Err(); err != nil {
		return err
	}
	var res nfs3.ReadRes
	f, err := o.file(args.Handle)
	if err == nil && f.attr.Type != nfs3.TypeReg {
		err = nfs3.ErrInval
	}
	var data []byte
	if err == nil {
		data, res.EOF, err = o.readData(&f, &args)
	}
	res.Status, res.Attr, res.Count = o.status(err), f.opt(), uint32(len(data))
	o.c.Resp.Results = xdr.Encode(o.c.Resp.Results, res.Head())
	if err == nil {
		o.c.Resp.AppendItem(data)
	}
	return nil
}

// readData reads at most Config.MaxIO octets. It allocates memory for the octets that the file has,
// not for those that the client asks for.
func (o *op) readData(f *file, args *nfs3.ReadArgs) (data []byte, eof bool, err error) {
	size := f.attr.Size
	if args.Offset >= size || args.Count == 0 {
		return nil, args.Offset >= size, f.node.Open(false, args.Offset, 0) // the caller must still be one who may read it
	}
	want := min(uint64(args.Count), uint64(o.s.cfg.MaxIO), size-args.Offset)
	buf := o.c.Resp.Scratch(int(want)) // only what Read has filled is appended
	n, err := f.node.Read(buf, args.Offset)
	if err != nil {
		return nil, false, err
	}
	if uint64(n) < want { // the file has shrunk since its attributes were read
		if f.attr, err = f.node.Attr(); err != nil {
			return nil, false, err
		}
		return buf[:n], true, nil
	}
	return buf[:n], args.Offset+want >= size, nil
}

// write is WRITE (RFC 1813 Section 3.3.7). Data that are still at the client are pulled only if
// they can be written. The backend gets the octets where the transport has received them, at most Config.MaxIO.
func (o *op) write(d *xdr.Decoder) error {
	var args nfs3.WriteArgs
	data := o.c.Opaque(xdr.Decode(d, args.Head()), math.MaxInt32)
	if err := d.Err(); err != nil {
		return err
	}
	var res nfs3.WriteRes
	var f file
	var err error
	refused := false
	if data.Pending() {
		if f, err = o.writeTo(&args, data.Len()); err == nil {
			err = f.node.Open(true, args.Offset, min(data.Len(), o.s.cfg.MaxIO))
		}
		refused = err != nil
	}
	if !refused {
		// No lock is held here, so that a slow client keeps nobody waiting. What was true before is asked again after.
		if args.Data, err = data.Pull(o.ctx); err != nil {
			return nil // the connection has ended: there is nobody to answer
		}
		defer o.hold(args.Handle, nil)()
		if f, err = o.writeTo(&args, len(args.Data)); err == nil {
			var w backend.WriteResult
			w, err = f.node.Write(args.Data[:min(len(args.Data), o.s.cfg.MaxIO)], args.Offset, args.Stable)
			res.Count, res.Committed, res.Verf = uint32(w.N), w.Committed, w.Verf
		}
	}
	if o.changed(&f, &res.Wcc); refused {
		res.Wcc.Before = nfs3.OptWcc{} // without the lock others may have changed it
	}
	res.Status = o.status(err)
	o.c.Resp.Results = xdr.Encode(o.c.Resp.Results, &res)
	return nil
}

// writeTo finds the file of a WRITE of n octets, and checks what does not depend on the caller.
//
// Choice: a count other than the length of the data is INVAL.
func (o *op) writeTo(args *nfs3.WriteArgs, n int) (file, error) {
	f, err := o.file(args.Handle)
	end := args.Offset + uint64(n)
	switch {
	case err != nil:
		return f, err
	case o.exp.ReadOnly:
		return f, nfs3.ErrROFS
	case f.attr.Type != nfs3.TypeReg || uint64(args.Count) != uint64(n):
		return f, nfs3.ErrInval
	case end < args.Offset || end > o.exp.info.MaxFileSize:
		return f, nfs3.ErrFBig
	}
	return f, nil
}

// nfsReady reports whether a WRITE can be done, as far as can be seen without its data, and without
// waiting for a disk. Whatever it is that refuses a WRITE, write finds it too, before it pulls.
func (s *Server) nfsReady(ctx context.Context, c *Call) bool {
	d := xdr.NewDecoder(c.Args)
	var args nfs3.WriteArgs
	if xdr.Decode(&d, args.Head()).Err() != nil {
		return false
	}
	o := op{s: s, c: c, ctx: ctx, proc: nfs3.ProcWrite}
	defer o.leave()
	if len(args.Handle) <= handleHead {
		return false
	}
	if o.entered = s.enter(binary.BigEndian.Uint32(args.Handle)); o.entered == nil {
		return false
	}
	e, err := s.admit(ended, o.entered, c)
	if err != nil || e.FS == nil {
		return false
	}
	cred := e.squash(c.Cred)
	who := cred.identity()
	if e.info.MayBlock && !e.FS.Ready(&who, args.Handle[handleHead:]) {
		return false
	}
	f, err := o.writeTo(&args, int(args.Count))
	return err == nil && f.node.Open(true, args.Offset, min(int(args.Count), s.cfg.MaxIO)) == nil
}

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

// dirTail is the length in octets of what follows the entries: the end of the list and eof.
const dirTail = 8

// readDir is READDIR (RFC 1813 Section 3.3.16). count limits the READDIR3resok with all its XDR, from the
// attributes to eof.
func (o *op) readDir(d *xdr.Decoder) error {
	var args nfs3.ReadDirArgs
	if err := xdr.Decode(d, &args).Err(); err != nil {
		return err
	}
	l := listing{o: o, max: args.Count, names: ^uint32(0)}
	l.list(args.Dir, args.Cookie, args.Verf)
	return nil
}

// readDirPlus is READDIRPLUS (RFC 1813 Section 3.3.17). dircount limits ids, names and cookies; maxcount
// limits the READDIRPLUS3resok.
func (o *op) readDirPlus(d *xdr.Decoder) error {
	var args nfs3.ReadDirPlusArgs
	if err := xdr.Decode(d, &args).Err(); err != nil {
		return err
	}
	l := listing{o: o, plus: true, max: args.MaxCount, names: args.DirCount}
	l.list(args.Dir, args.Cookie, args.Verf)
	return nil
}

// listing builds the reply of both. It encodes entries as the backend finds them, and writes the verifier
// in front of them last.
type listing struct {
	o     *op
	plus  bool
	max   uint32 // most octets of the resok
	names uint32 // most octets of ids, names and cookies
	start int    // where the resok starts in the results
	buf   []byte
	count int    // entries taken
	used  uint32 // octets used of names
	full  bool   // an entry did not fit
}

// list executes the call.
func (l *listing) list(h nfs3.FileHandle, cookie uint64, verf nfs3.CookieVerf) {
	o := l.o
	dir, err := o.dir(h)
	res := nfs3.ReadDirRes{Attr: dir.opt()}
	if err == nil {
		l.max = min(l.max, uint32(o.s.cfg.MaxIO))
		l.buf = xdr.Encode(o.c.Resp.Results, res.Head())
		l.start = len(o.c.Resp.Results) + 4
		at := len(l.buf) - nfs3.VerfSize
		res.Verf, res.EOF, err = dir.node.ReadDir(cookie, verf, l.plus, l.add)
		copy(l.buf[at:], res.Verf[:])
	}
	// No entry fits, or not even an empty list.
	if err == nil && (l.full && l.count == 0 || l.size() > l.max) {
		err = nfs3.ErrTooSmall
	}
	if err != nil {
		res.Status = o.status(err)
		o.c.Resp.Results = xdr.Encode(o.c.Resp.Results, &res)
		return
	}
	o.c.Resp.Results = xdr.AppendBool(xdr.AppendBool(l.buf, false), res.EOF)
}

// size returns the octets that the resok would have if it ended here.
func (l *listing) size() uint32 { return uint32(len(l.buf)-l.start) + dirTail }

// add takes an entry if it fits.
func (l *listing) add(e *nfs3.DirPlusEntry) bool {
	n := e.DirEntry.Size()
	if l.plus {
		if e.Attr.Present && l.o.exp.over(&e.Attr.Attr) != nil { // LOOKUP crosses
			e.Attr.Present, e.Handle.Present = false, false
		}
		if e.Handle.Present {
			h := make([]byte, 0, handleHead+len(e.Handle.Handle))
			e.Handle.Handle = append(binary.BigEndian.AppendUint32(h, l.o.exp.id), e.Handle.Handle...)
		}
		n = e.Size()
	}
	// dircount does not limit the word that announces an entry. The first entry may exceed it:
	// otherwise a list would not get on.
	names := uint32(e.DirEntry.Size() - 4)
	if l.size()+uint32(n) > l.max || l.count > 0 && l.used+names > l.names {
		l.full = true
		return false
	}
	l.count++
	l.used += names
	l.buf = xdr.AppendBool(l.buf, true)
	if l.plus {
		l.buf = xdr.Encode(l.buf, e)
	} else {
		l.buf = xdr.Encode(l.buf, &e.DirEntry)
	}
	return true
}

// fsStat is FSSTAT (RFC 1813 Section 3.3.18).
func (o *op) fsStat(args *nfs3.FSStatArgs, res *nfs3.FSStatRes) error {
	f, err := o.file(args.Handle)
	if res.Attr = f.opt(); err != nil {
		return err
	}
	u, err := o.exp.FS.Usage()
	res.TotalBytes, res.FreeBytes, res.AvailBytes = u.TotalBytes, u.FreeBytes, u.AvailBytes
	res.TotalFiles, res.FreeFiles, res.AvailFiles = u.TotalFiles, u.FreeFiles, u.AvailFiles
	return err
}

// Choice: the numbers of FSINFO other than Config.MaxIO.
const (
	ioMult = 4096
	dtPref = 64 << 10
)

// fsInfo is FSINFO (RFC 1813 Section 3.3.19).
func (o *op) fsInfo(args *nfs3.FSInfoArgs, res *nfs3.FSInfoRes) error {
	f, err := o.file(args.Handle)
	if res.Attr = f.opt(); err != nil {
		return err
	}
	io := uint32(o.s.cfg.MaxIO)
	res.RTMax, res.RTPref, res.RTMult = io, io, ioMult
	res.WTMax, res.WTPref, res.WTMult = io, io, ioMult
	res.DTPref = min(dtPref, io)
	res.MaxFileSize = o.exp.info.MaxFileSize
	res.TimeDelta = nfs3.Time{Nsec: 1}
	res.Properties = nfs3.PropLink | nfs3.PropSymlink | nfs3.PropHomogeneous | nfs3.PropCanSetTime
	return nil
}

// pathConf is PATHCONF (RFC 1813 Section 3.3.20).
func (o *op) pathConf(args *nfs3.PathConfArgs, res *nfs3.PathConfRes) error {
	f, err := o.file(args.Handle)
	if res.Attr = f.opt(); err != nil {
		return err
	}
	info := &o.exp.info
	res.LinkMax, res.NameMax = info.LinkMax, uint32(o.exp.nameMax())
	res.NoTrunc, res.ChownRestricted = true, true
	res.CaseInsensitive, res.CasePreserving = info.CaseFolding, true
	return nil
}

// commit is COMMIT (RFC 1813 Section 3.3.21).
func (o *op) commit(args *nfs3.CommitArgs, res *nfs3.CommitRes) error {
	defer o.hold(args.Handle, nil)()
	f, err := o.file(args.Handle)
	defer o.changed(&f, &res.Wcc)
	switch {
	case err != nil:
		return err
	case f.attr.Type != nfs3.TypeReg:
		return nfs3.ErrInval
	}
	res.Verf, err = f.node.Commit(args.Offset, args.Count)
	return err
}
