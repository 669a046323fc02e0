package server

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// write is WRITE (RFC 1813 Section 3.3.7). Data that are still at the client are pulled only if
// they can be written. The backend gets the octets where the transport has received them.
func (o *op) write(d *xdr.Decoder) error {
	var args nfs3.WriteArgs
	data := o.c.Opaque(xdr.Decode(d, args.Head()), math.MaxInt32)
	if err := d.Err(); err != nil {
		return err
	}
	if data.Pending() {
		f, err := o.writeTo(&args, data.Len())
		if err == nil {
			err = f.node.Open(true)
		}
		if err != nil {
			o.wrote(&nfs3.WriteRes{}, &change{file: f}, err)
			return nil
		}
	}
	var err error
	// No lock is held here, so that a slow client keeps nobody waiting.
	if args.Data, err = data.Pull(o.ctx); err != nil {
		return nil // the connection has ended: there is nobody to answer
	}
	defer o.hold(args.Handle, nil)()
	var res nfs3.WriteRes
	f, err := o.writeTo(&args, len(args.Data))
	ch := o.changing(f)
	if err == nil {
		err = o.writeData(&f, &args, &res)
	}
	o.wrote(&res, &ch, err)
	return nil
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
	if r, ok := e.FS.(backend.Readier); e.info.MayBlock && (!ok || !r.Ready(&who, args.Handle[handleHead:])) {
		return false
	}
	f, err := o.writeTo(&args, int(args.Count))
	return err == nil && f.node.Open(true) == nil
}

// wrote answers a WRITE.
func (o *op) wrote(res *nfs3.WriteRes, ch *change, err error) {
	res.Status, res.Wcc = o.status(err), ch.wcc()
	o.c.Resp.Results = xdr.Encode(o.c.Resp.Results, res)
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
	case o.writable() != nil:
		return f, o.writable()
	case f.attr.Type != nfs3.TypeReg || uint64(args.Count) != uint64(n):
		return f, nfs3.ErrInval
	case end < args.Offset || end > o.exp.info.MaxFileSize:
		return f, nfs3.ErrFBig
	}
	if r, ok := f.node.(backend.Roomer); ok && n > 0 {
		err = r.Room(args.Offset, min(n, o.s.cfg.MaxIO))
	}
	return f, err
}

// writeData writes at most Config.MaxIO octets.
func (o *op) writeData(f *file, args *nfs3.WriteArgs, res *nfs3.WriteRes) error {
	data := args.Data[:min(len(args.Data), o.s.cfg.MaxIO)]
	w, err := f.node.Write(data, args.Offset, args.Stable)
	res.Count, res.Committed, res.Verf = uint32(w.N), w.Committed, w.Verf
	return err
}
