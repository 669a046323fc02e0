package proxy

import (
	"time"

	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// awayTime is how long a client whose server cannot be reached is answered before its connection ends. It
// connects again then, and so does the proxy to the server.
const awayTime = 10 * time.Second

// away answers a call instead of a server that cannot be reached. What it answers makes
// a client that has mounted the server wait, as it does for a server that does not answer, and one that
// mounts it fail with a reason:
//
//   - calls of NFSv3 get NFS3ERR_JUKEBOX, "try again later" (RFC 1813 Section 2.6);
//   - NULL gets SYSTEM_ERR, MNT gets MNT3ERR_SERVERFAULT, and the NULL of MOUNT succeeds;
//   - others cannot be answered like that: the connection ends.
//
// SYSTEM_ERR to other calls of NFS would be a lie with consequences: Linux makes EIO of it even for hard
// mounts, and programs lose what they wrote.
func (c *client) away(req *rpc.Request, resp *rpc.Response) {
	switch {
	case req.Prog == mount3.Program && req.Proc == 0: // so that the client asks, and gets an answer
	case req.Proc == 0:
		resp.Stat = xdr.SystemErr
	case req.Prog == nfs3.Program && req.Vers == nfs3.Version && req.Proc < nfs3.ProcCount:
		resp.Results = later(resp.Results, nfs3.Proc(req.Proc))
	case req.Prog == mount3.Program && req.Vers == mount3.Version && mount3.Proc(req.Proc) == mount3.ProcMnt:
		resp.Results = xdr.Encode(resp.Results, &mount3.MountRes{Status: mount3.ErrServerFault})
	case req.Prog == mount3.Program:
		resp.Stat = xdr.SystemErr
	default:
		c.hangUp(resp)
	}
}

// absent are how many optional attributes the results of a procedure have when it fails; all are left out
// (RFC 1813 Section 3.3).
var absent = [nfs3.ProcCount]int{
	nfs3.ProcGetAttr: 0, nfs3.ProcLookup: 1, nfs3.ProcAccess: 1, nfs3.ProcReadLink: 1, nfs3.ProcRead: 1,
	nfs3.ProcReadDir: 1, nfs3.ProcReadDirPlus: 1, nfs3.ProcFSStat: 1, nfs3.ProcFSInfo: 1, nfs3.ProcPathConf: 1,
	nfs3.ProcSetAttr: 2, nfs3.ProcWrite: 2, nfs3.ProcCreate: 2, nfs3.ProcMkdir: 2, nfs3.ProcSymlink: 2,
	nfs3.ProcMknod: 2, nfs3.ProcRemove: 2, nfs3.ProcRmdir: 2, nfs3.ProcCommit: 2, nfs3.ProcLink: 3, nfs3.ProcRename: 4,
}

// later appends the results of a call that the client shall repeat.
func later(b []byte, p nfs3.Proc) []byte {
	b = xdr.AppendUint32(b, uint32(nfs3.ErrJukebox))
	for range absent[p] {
		b = xdr.AppendBool(b, false)
	}
	return b
}
