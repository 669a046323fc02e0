package server

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

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
