package crash

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// message is the call of an operation.
type message struct {
	vers uint32 // 0: version 3, of NFS and MOUNT
	proc nfs3.Proc
	args []byte // without the item and its pad
	item []byte // of WRITE
	sink int    // most octets of data in the results of READ
}

// whole returns the arguments with nothing reduced.
func (m *message) whole() []byte {
	return xdr.AppendPad(append(bytes.Clone(m.args), m.item...), len(m.item))
}

// call returns the call of o.
func (o *Op) call(worker uint16) (*message, error) {
	if o.Kind == Write {
		w := &nfs3.WriteArgs{
			Handle: o.File, Offset: uint64(o.First * Piece),
			Count: uint32(o.Pieces * Piece), Stable: o.Stable,
		}
		return &message{proc: nfs3.ProcWrite, args: xdr.AppendUint32(xdr.Encode(nil, w.Head()), w.Count), item: o.data(worker)}, nil
	}
	proc, args := o.args()
	if args == nil {
		return nil, fmt.Errorf("%v is not a call", o)
	}
	m := &message{proc: proc, args: xdr.Encode(nil, args)}
	if o.Kind == Read {
		m.sink = o.Pieces * Piece
	}
	return m, nil
}

// args returns the arguments of all but Write.
func (o *Op) args() (nfs3.Proc, xdr.Message) {
	at := nfs3.DirOpArgs{Dir: o.Dir, Name: base(o.Path)}
	to := nfs3.DirOpArgs{Dir: o.Into, Name: base(o.To)}
	mode := nfs3.SetAttr{SetMode: true, Mode: o.Mode}
	switch o.Kind {
	case Mkdir:
		return nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: at, Attr: mode}
	case Create:
		mode.SetSize = true
		return nfs3.ProcCreate, &nfs3.CreateArgs{Where: at, Mode: nfs3.Unchecked, Attr: mode}
	case Guarded:
		return nfs3.ProcCreate, &nfs3.CreateArgs{Where: at, Mode: nfs3.Guarded, Attr: mode}
	case Exclusive:
		a := &nfs3.CreateArgs{Where: at, Mode: nfs3.Exclusive}
		binary.BigEndian.PutUint64(a.Verf[:], o.Verf)
		return nfs3.ProcCreate, a
	case Symlink:
		return nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: at, Path: o.Target}
	case Mkfifo:
		return nfs3.ProcMknod, &nfs3.MknodArgs{Where: at, Type: nfs3.TypeFIFO, Attr: mode}
	case Remove:
		return nfs3.ProcRemove, &at
	case Rmdir:
		return nfs3.ProcRmdir, &at
	case Rename:
		return nfs3.ProcRename, &nfs3.RenameArgs{From: at, To: to}
	case Link:
		return nfs3.ProcLink, &nfs3.LinkArgs{Handle: o.File, Link: to}
	case Chmod:
		return nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Handle: o.File, Attr: mode, Guard: o.Guard, Ctime: o.Ctime}
	case Truncate:
		size := nfs3.SetAttr{SetSize: true, Size: uint64(o.Pieces * Piece)}
		return nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Handle: o.File, Attr: size}
	case Look:
		return nfs3.ProcLookup, &at
	case GetAttr:
		return nfs3.ProcGetAttr, &nfs3.GetAttrArgs{Handle: o.File}
	case Read:
		return nfs3.ProcRead, &nfs3.ReadArgs{Handle: o.File, Offset: uint64(o.First * Piece), Count: uint32(o.Pieces * Piece)}
	case Commit:
		return nfs3.ProcCommit, &nfs3.CommitArgs{Handle: o.File}
	default:
		return 0, nil
	}
}

// base returns the last name of a path.
func base(p string) string {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] == '/' {
			return p[i+1:]
		}
	}
	return p
}

// result decodes the results of a call, including the data.
func (o *Op) result(proc nfs3.Proc, raw []byte) (*Result, error) {
	msg, ok := proc.NewRes().(nfs3.Result)
	if !ok {
		return nil, fmt.Errorf("%v has no results", proc)
	}
	d := xdr.NewDecoder(raw)
	if err := xdr.Decode(&d, msg).Err(); err != nil {
		return nil, err
	}
	if err := d.End(); err != nil {
		return nil, err
	}
	r := &Result{Status: *msg.Stat()}
	if o.Once() {
		r.Raw = bytes.Clone(raw)
	}
	if r.Status == nfs3.OK {
		r.take(o, msg)
	}
	return r, nil
}

// take copies the fields of msg that matter for o.
func (r *Result) take(o *Op, msg nfs3.Result) {
	attr := func(a nfs3.OptAttr) {
		if a.Present {
			r.Attr = &a.Attr
		}
	}
	switch m := msg.(type) {
	case *nfs3.NewRes:
		attr(m.Attr)
		r.Handle = bytes.Clone(m.Handle.Handle)
	case *nfs3.LookupRes:
		attr(m.Attr)
		r.Handle = bytes.Clone(m.Handle)
	case *nfs3.GetAttrRes:
		r.Attr = &m.Attr
	case *nfs3.LinkRes:
		attr(m.Attr)
	case *nfs3.WccRes:
		if o.Kind == Chmod || o.Kind == Truncate {
			attr(m.Wcc.After)
		}
	case *nfs3.ReadRes:
		attr(m.Attr)
		r.Stamps = stamps(m.Data)
	case *nfs3.WriteRes:
		attr(m.Wcc.After)
		r.Stable = m.Committed != nfs3.Unstable
		r.Verf = binary.BigEndian.Uint64(m.Verf[:])
		if int(m.Count) != o.Pieces*Piece {
			r.Status = nfs3.ErrIO // Choice: no server has a reason to write only a part of so little
		}
	case *nfs3.CommitRes:
		attr(m.Wcc.After)
		r.Verf = binary.BigEndian.Uint64(m.Verf[:])
	}
}
