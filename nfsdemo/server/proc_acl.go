package server

import (
	"context"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// acls is the program NFSACL: what of the kernel's permissions the mode does not tell.
func (s *Server) acls() Program {
	return Program{
		Prog: nfs3.ACLProgram, Low: nfs3.ACLVersion, High: nfs3.ACLVersion, Procs: nfs3.ACLProcCount,
		Serve: s.serveACL,
		Describe: func(proc uint32, args []byte) (t rpc.Traits) {
			t.Blocks = s.blocking()
			if t.Once = proc == nfs3.ProcSetACL; t.Once {
				d := xdr.NewDecoder(args)
				t.Changes[0] = nfs3.FileHandle(d.Opaque(nfs3.MaxHandle)).Hash()
			}
			return t
		},
		weak: func(uint32) bool { return false },
	}
}

func (s *Server) serveACL(ctx context.Context, c *Call) error {
	o := op{s: s, c: c, ctx: ctx}
	defer o.leave()
	d := xdr.NewDecoder(c.Args)
	if c.Proc == nfs3.ProcGetACL {
		var args nfs3.GetACLArgs
		if err := xdr.Decode(&d, &args).Err(); err != nil {
			return err
		}
		res := nfs3.GetACLRes{Mask: args.Mask}
		f, err := o.file(args.Handle)
		if err == nil {
			res.Access, res.Default, err = f.acls(args.Mask)
		}
		res.Status, res.Attr = o.aclStatus(err), f.opt()
		c.Resp.Results = xdr.Encode(c.Resp.Results, &res)
		return nil
	}
	var args nfs3.SetACLArgs
	if err := xdr.Decode(&d, &args).Err(); err != nil {
		return err
	}
	defer s.locks.lock(args.Handle, nil)()
	var res nfs3.SetACLRes
	f, err := o.file(args.Handle)
	if err == nil {
		err = o.setACLs(&f, &args)
	}
	res.Status = o.aclStatus(err)
	if f.node != nil {
		if a, err := f.node.Attr(); err == nil { // an ACL changes the mode
			res.Attr = nfs3.SomeAttr(&a)
		}
	}
	c.Resp.Results = xdr.Encode(c.Resp.Results, &res)
	return nil
}

// acls returns the ACLs that a mask asks for. A file that has none has its mode, in three entries.
func (f *file) acls(mask uint32) (access, inherited nfs3.ACL, err error) {
	n, ok := f.node.(backend.ACLs)
	switch {
	case !nfs3.ACLMask(mask):
		return nil, nil, nfs3.ErrInval
	case !ok:
		return nil, nil, nfs3.ErrNotSupp
	}
	if mask&(nfs3.ACLAccess|nfs3.ACLAccessCount) != 0 {
		if access, err = n.ACL(false); access == nil {
			access = nfs3.ACL{
				{Tag: nfs3.ACEUserObj, Perm: f.attr.Mode >> 6 & 7},
				{Tag: nfs3.ACEGroupObj, Perm: f.attr.Mode >> 3 & 7},
				{Tag: nfs3.ACEOther, Perm: f.attr.Mode & 7},
			}
		}
	}
	if err == nil && mask&(nfs3.ACLDefault|nfs3.ACLDefaultCount) != 0 && f.attr.Type == nfs3.TypeDir {
		inherited, err = n.ACL(true)
	}
	return access, inherited, err
}

func (o *op) setACLs(f *file, args *nfs3.SetACLArgs) error {
	n, ok := f.node.(backend.ACLs)
	switch {
	case !ok:
		return nfs3.ErrNotSupp
	case !nfs3.ACLMask(args.Mask), args.Mask&nfs3.ACLDefault != 0 && len(args.Default) > 0 && f.attr.Type != nfs3.TypeDir:
		return nfs3.ErrInval
	}
	if o.exp.ReadOnly {
		return nfs3.ErrROFS
	}
	if args.Mask&nfs3.ACLAccess != 0 {
		if err := n.SetACL(false, args.Access); err != nil {
			return err
		}
	}
	if args.Mask&nfs3.ACLDefault != 0 && f.attr.Type == nfs3.TypeDir {
		return n.SetACL(true, args.Default)
	}
	return nil
}

// aclStatus is status; there is no list of those that the procedures may have.
func (o *op) aclStatus(err error) nfs3.Status {
	s, known := statusOf(err)
	if !known {
		o.s.cfg.Logger.Warn("server: backend error", zap.Uint32("nfsacl.procedure", o.c.Proc), zap.Error(err))
	}
	return s
}
