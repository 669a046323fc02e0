package server

import (
	"context"
	"fmt"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Grant is the right to write to a regular file other than by WRITE. It can be kept across restarts:
// nothing in it belongs to this process.
type Grant struct {
	File nfs3.FileHandle
	Cred Cred // as the export sees it
}

// Room says how much room there is for writes under a Grant.
type Room struct {
	Avail  uint64 // octets that the file system has left
	Export string // the export of that file system
}

// Grant checks a caller's right to write to a file, in the same order as WRITE. Errors are those of
// WRITE, as nfs3.Status: ErrInval if the file is not a regular one.
func (s *Server) Grant(ctx context.Context, c *Call, h nfs3.FileHandle) (*Grant, Room, error) {
	o := op{s: s, c: c, ctx: ctx, proc: nfs3.ProcWrite}
	f, err := o.writeTo(&nfs3.WriteArgs{Handle: h}, 0)
	if err == nil {
		err = f.node.Open(true)
	}
	if err != nil {
		return nil, Room{}, err
	}
	u, err := o.exp.FS.Usage()
	if err != nil {
		return nil, Room{}, err
	}
	g := &Grant{File: append(nfs3.FileHandle(nil), h...), Cred: o.cred}
	return g, Room{Avail: u.AvailBytes, Export: o.exp.Path}, nil
}

// WriteGrant writes all of p, which it borrows, at off, UNSTABLE, under a Grant, whose rights it checks
// again. It returns the write verifier that was valid before. After an error some of p may have been
// written. Errors are those of WRITE.
func (s *Server) WriteGrant(g *Grant, p []byte, off uint64) (verf nfs3.WriteVerf, err error) {
	o := op{s: s, proc: nfs3.ProcWrite}
	defer o.hold(g.File, nil)()
	f, err := o.granted(g)
	if err != nil {
		return verf, err
	}
	switch end := off + uint64(len(p)); {
	case o.exp.fixed():
		return verf, nfs3.ErrROFS
	case end < off || end > o.exp.info.MaxFileSize:
		return verf, nfs3.ErrFBig
	}
	for first := true; len(p) > 0; first = false {
		var res nfs3.WriteRes
		args := nfs3.WriteArgs{Data: p, Offset: off, Stable: nfs3.Unstable}
		if err := o.writeData(&f, &args, &res); err != nil {
			return verf, err
		}
		if first {
			verf = res.Verf
		}
		if res.Count == 0 || res.Verf != verf {
			return verf, fmt.Errorf("server: no progress in a write of %d octets: %w", len(p), nfs3.ErrIO)
		}
		p, off = p[res.Count:], off+uint64(res.Count)
	}
	return verf, nil
}

// SyncGrant makes the file of a Grant durable and returns the write verifier that covers what was written
// before. If it differs from those of the writes, some of them may be lost.
func (s *Server) SyncGrant(g *Grant) (nfs3.WriteVerf, error) {
	o := op{s: s, proc: nfs3.ProcCommit}
	f, err := o.granted(g)
	if err != nil {
		return nfs3.WriteVerf{}, err
	}
	return f.node.Commit(0, 0)
}

// granted finds the file of a Grant. Its caller was squashed, and the address admitted, when it was
// given.
func (o *op) granted(g *Grant) (f file, err error) {
	e := o.s.export(g.File)
	if e == nil {
		return f, nfs3.ErrStale
	}
	o.exp, o.cred, o.who = e, g.Cred, g.Cred.identity()
	n, err := e.FS.Resolve(g.File[handleHead:])
	if err != nil {
		return f, err
	}
	f.node = n.As(&o.who)
	if f.attr, err = f.node.Attr(); err == nil && f.attr.Type != nfs3.TypeReg {
		err = nfs3.ErrInval
	}
	return f, err
}
