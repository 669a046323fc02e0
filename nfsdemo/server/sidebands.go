package server

import (
	"context"
	"errors"
	"math"
	"path"
	"slices"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
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

// The program rquota (rquota.x of SunRPC and Linux's quota-tools), which quota(1) asks. Version 2 knows groups.
const (
	QuotaProgram  = 100011
	quotaVersion1 = 1
	QuotaVersion2 = 2

	procGetQuota       = 1
	procGetActiveQuota = 2
	procSetQuota       = 3
	procSetActiveQuota = 4

	quotaOK   = 1
	quotaNone = 2
	quotaPerm = 3
)

// quotas is the program rquota: who stores how much, and may store how much.
func (s *Server) quotas() Program {
	return Program{
		Prog: QuotaProgram, Low: quotaVersion1, High: QuotaVersion2, Procs: procSetActiveQuota + 1,
		Serve:    s.serveQuota,
		Describe: func(uint32, []byte) rpc.Traits { return rpc.Traits{Blocks: s.blocking()} },
		weak:     func(uint32) bool { return false },
	}
}

func (s *Server) serveQuota(_ context.Context, c *Call) error {
	d := xdr.NewDecoder(c.Args)
	if c.Proc != procGetQuota && c.Proc != procGetActiveQuota { // nobody sets quotas from elsewhere
		c.Resp.Results = xdr.AppendUint32(c.Resp.Results, quotaPerm)
		return nil
	}
	dir, typ := d.String(mount3.MaxPath), uint32(0)
	if c.Vers == QuotaVersion2 {
		typ = d.Uint32()
	}
	id := d.Uint32()
	if err := d.Err(); err != nil {
		return err
	}
	q, err := s.quota(c, dir, typ, id)
	b := c.Resp.Results
	switch {
	case errors.Is(err, nfs3.ErrNotSupp):
		b = xdr.AppendUint32(b, quotaNone)
	case err != nil:
		b = xdr.AppendUint32(b, quotaPerm)
	default:
		b = appendQuota(xdr.AppendUint32(b, quotaOK), &q)
	}
	c.Resp.Results = b
	return nil
}

// quota finds the quota of a user (type 0) or group (1) in the export of a path. It tells everybody of himself and his groups,
// and of others only root, if the export leaves him root. The port is not asked for: quota(1) is nobody's setuid program.
func (s *Server) quota(c *Call, dir string, typ, id uint32) (backend.Quota, error) {
	const ofUser, ofGroup = 0, 1
	e, _ := s.exportOf(path.Clean(dir))
	if e != nil {
		e = s.enter(e.id)
	}
	if e == nil || typ > ofGroup {
		return backend.Quota{}, nfs3.ErrNotSupp
	}
	defer e.use.leave()
	v, err := s.seenBy(ended, e, c)
	switch {
	case err != nil:
		return backend.Quota{}, err
	case v.XprtSec != 0 && v.XprtSec&xprtOf(c.TLS) == 0:
		return backend.Quota{}, errXprtSec
	case !slices.Contains(v.sec(), flavorOf(c.Request)):
		return backend.Quota{}, errSec
	case c.Cred.Anonymous:
		return backend.Quota{}, nfs3.ErrPerm
	}
	who := v.squash(c.Cred)
	switch {
	case typ == ofUser && id == c.Cred.UID:
		id = who.UID // who he is here
	case typ == ofGroup && id == c.Cred.GID:
		id = who.GID
	case who.UID == 0 && v.info.Owners, typ == ofGroup && slices.Contains(who.GIDs, id):
	default:
		return backend.Quota{}, nfs3.ErrPerm
	}
	fsys, ok := v.FS.(backend.Quoter)
	if !ok {
		return backend.Quota{}, nfs3.ErrNotSupp
	}
	q, err := fsys.Quota(typ == ofGroup, id)
	if errors.Is(err, nfs3.ErrPerm) {
		s.cfg.Logger.Warn("server: quotas are not told to this process: it lacks CAP_SYS_ADMIN", zap.String("path", v.Path))
	}
	return q, err
}

// appendQuota appends an rquota. Its numbers have 32 bits, so that much is counted in larger blocks.
func appendQuota(b []byte, q *backend.Quota) []byte {
	shift := 10
	for max(q.Bytes, q.SoftBytes, q.HardBytes)>>shift >= math.MaxUint32 && shift < 30 {
		shift++
	}
	blocks := func(n uint64) uint32 { return uint32(min((n+1<<shift-1)>>shift, math.MaxUint32)) }
	files := func(n uint64) uint32 { return uint32(min(n, math.MaxUint32)) }
	left := func(t time.Time) uint32 { // less than 0 as Linux sends it, in two's complement
		if t.IsZero() {
			return 0
		}
		return uint32(int32(min(max(time.Until(t)/time.Second, math.MinInt32), math.MaxInt32)))
	}
	for _, n := range []uint32{
		1 << shift, 1, // in use
		blocks(q.HardBytes), blocks(q.SoftBytes), blocks(q.Bytes),
		files(q.HardFiles), files(q.SoftFiles), files(q.Files), left(q.BytesTill), left(q.FilesTill),
	} {
		b = xdr.AppendUint32(b, n)
	}
	return b
}

// LockFile checks that the caller may use the export of a handle and, with open, that the file exists and that he may
// read or write it: then he may also lock it. It returns the file system, and the handle there, which is part
// of h. Errors are those of READ.
func (s *Server) LockFile(ctx context.Context, c *Call, h nfs3.FileHandle, open bool) (backend.FS, []byte, error) {
	e := s.export(h)
	switch {
	case len(h) <= handleHead || len(h) > nfs3.MaxHandle:
		return nil, nil, nfs3.ErrBadHandle
	case e == nil:
		return nil, nil, nfs3.ErrStale
	}
	if !open { // who gives back what he holds needs neither the file nor rights
		if _, err := s.admit(ended, e, c); err != nil {
			return nil, nil, err
		}
		return e.FS, h[handleHead:], nil
	}
	o := op{s: s, c: c, ctx: ctx}
	defer o.leave()
	n, err := o.node(h)
	if err != nil {
		return nil, nil, err
	}
	if err := n.Open(false, 0, 0); err != nil {
		if n.Open(true, 0, 0) != nil {
			return nil, nil, err
		}
	}
	return e.FS, h[handleHead:], nil
}
