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

// The program rquota (rquota.x of SunRPC and Linux's quota-tools), which quota(1) asks. Version 2 knows groups.
const (
	QuotaProgram  = 100011
	QuotaVersion1 = 1
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
		Prog: QuotaProgram, Low: QuotaVersion1, High: QuotaVersion2, Procs: procSetActiveQuota + 1,
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
