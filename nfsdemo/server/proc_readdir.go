package server

import (
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

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
			e.Handle.Handle = l.o.exp.prefix(e.Handle.Handle)
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
