package server

import (
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// read is READ (RFC 1813 Section 3.3.6). The backend fills the transport's buffer.
func (o *op) read(d *xdr.Decoder) error {
	var args nfs3.ReadArgs
	if err := args.Parse(d); err != nil {
		return err
	}
	var res nfs3.ReadRes
	f, err := o.file(args.Handle)
	if err == nil {
		err = o.readable(&f)
	}
	var data []byte
	if err == nil {
		data, res.EOF, err = o.readData(&f, &args)
	}
	res.Status, res.Attr, res.Count = o.status(err), f.opt(), uint32(len(data))
	o.c.Resp.Results = res.AppendHead(o.c.Resp.Results)
	if err == nil {
		o.c.Resp.AppendItem(data)
	}
	return nil
}

// readable checks type and permissions of a file to be read.
func (o *op) readable(f *file) error {
	switch {
	case f.attr.Type != nfs3.TypeReg:
		return nfs3.ErrInval
	case !o.cred.mayRead(&f.attr):
		return nfs3.ErrAcces
	}
	return nil
}

// readData reads at most Config.MaxIO octets. Memory is taken for what the file can give,
// not for what the client asks.
func (o *op) readData(f *file, args *nfs3.ReadArgs) (data []byte, eof bool, err error) {
	size := f.attr.Size
	if args.Offset >= size {
		return nil, true, nil
	}
	want := min(uint64(args.Count), uint64(o.s.cfg.MaxIO), size-args.Offset)
	buf := o.c.Resp.Buffer(int(want))
	n, err := f.node.Read(buf, args.Offset)
	if err != nil {
		return nil, false, err
	}
	if uint64(n) < want { // the file shrank since its attributes were taken
		if f.attr, err = f.node.Attr(); err != nil {
			return nil, false, err
		}
		return buf[:n], true, nil
	}
	return buf[:n], args.Offset+want >= size, nil
}

// write is WRITE (RFC 1813 Section 3.3.7). The backend gets the octets where the transport
// received them.
func (o *op) write(d *xdr.Decoder) error {
	var args nfs3.WriteArgs
	if err := args.Parse(d); err != nil {
		return err
	}
	defer o.hold(args.Handle, nil)()
	var res nfs3.WriteRes
	f, err := o.file(args.Handle)
	ch := o.changing(f)
	if err == nil {
		err = o.writableFile(&f, &args)
	}
	if err == nil {
		err = o.writeData(&f, &args, &res)
	}
	res.Status, res.Wcc = o.status(err), ch.wcc()
	o.c.Resp.Results = res.Append(o.c.Resp.Results)
	return nil
}

// writableFile checks type, permissions and arguments of a WRITE.
//
// Choice: a count that is not the length of the data is INVAL.
func (o *op) writableFile(f *file, args *nfs3.WriteArgs) error {
	end := args.Offset + uint64(len(args.Data))
	switch {
	case o.writable() != nil:
		return nfs3.ErrROFS
	case f.attr.Type != nfs3.TypeReg || uint64(args.Count) != uint64(len(args.Data)):
		return nfs3.ErrInval
	case !o.cred.mayWrite(&f.attr):
		return nfs3.ErrAcces
	case end < args.Offset || end > o.exp.info.MaxFileSize:
		return nfs3.ErrFBig
	}
	return nil
}

// writeData writes at most Config.MaxIO octets.
func (o *op) writeData(f *file, args *nfs3.WriteArgs, res *nfs3.WriteRes) error {
	data := args.Data[:min(len(args.Data), o.s.cfg.MaxIO)]
	if !o.cred.root() && f.attr.Mode&(modeSetUID|modeSetGID) != 0 {
		drop := nfs3.SetAttr{SetMode: true, Mode: f.attr.Mode &^ (modeSetUID | modeSetGID)}
		if err := f.node.SetAttr(&drop); err != nil {
			return err
		}
	}
	w, err := f.node.Write(data, args.Offset, args.Stable)
	res.Count, res.Committed, res.Verf = uint32(w.N), w.Committed, w.Verf
	return err
}

// commit is COMMIT (RFC 1813 Section 3.3.21).
func (o *op) commit(d *xdr.Decoder) error {
	var args nfs3.CommitArgs
	if err := args.Parse(d); err != nil {
		return err
	}
	defer o.hold(args.Handle, nil)()
	var res nfs3.CommitRes
	f, err := o.file(args.Handle)
	ch := o.changing(f)
	switch {
	case err != nil:
	case f.attr.Type != nfs3.TypeReg:
		err = nfs3.ErrInval
	case !o.cred.mayWrite(&f.attr):
		err = nfs3.ErrAcces
	default:
		res.Verf, err = f.node.Commit(args.Offset, args.Count)
	}
	res.Status, res.Wcc = o.status(err), ch.wcc()
	o.c.Resp.Results = res.Append(o.c.Resp.Results)
	return nil
}
