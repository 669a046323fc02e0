package server

import (
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
		return nil, args.Offset >= size, f.node.Open(false) // the caller must still be one who may read it
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

// commit is COMMIT (RFC 1813 Section 3.3.21).
func (o *op) commit(d *xdr.Decoder) error {
	var args nfs3.CommitArgs
	if err := xdr.Decode(d, &args).Err(); err != nil {
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
	default:
		res.Verf, err = f.node.Commit(args.Offset, args.Count)
	}
	res.Status, res.Wcc = o.status(err), ch.wcc()
	o.c.Resp.Results = xdr.Encode(o.c.Resp.Results, &res)
	return nil
}
