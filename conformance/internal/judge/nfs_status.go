package judge

import (
	"slices"
	"strings"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// always are the statuses that every procedure may return (RFC 1813 Section 3.3).
var always = []nfs3.Status{nfs3.ErrStale, nfs3.ErrBadHandle, nfs3.ErrServerFault, nfs3.ErrJukebox}

// creating are those of the procedures that create something.
var creating = []nfs3.Status{
	nfs3.ErrIO, nfs3.ErrAcces, nfs3.ErrExist, nfs3.ErrNotDir, nfs3.ErrNoSpc, nfs3.ErrROFS, nfs3.ErrNameTooLong, nfs3.ErrDQuot, nfs3.ErrNotSupp,
}

// listing are those of READDIR.
var listing = []nfs3.Status{nfs3.ErrIO, nfs3.ErrAcces, nfs3.ErrNotDir, nfs3.ErrBadCookie, nfs3.ErrTooSmall}

// statuses are the further statuses that each procedure lists.
var statuses = [nfs3.ProcCount][]nfs3.Status{
	nfs3.ProcGetAttr:     {nfs3.ErrIO},
	nfs3.ProcSetAttr:     {nfs3.ErrPerm, nfs3.ErrIO, nfs3.ErrAcces, nfs3.ErrInval, nfs3.ErrNoSpc, nfs3.ErrROFS, nfs3.ErrDQuot, nfs3.ErrNotSync},
	nfs3.ProcLookup:      {nfs3.ErrIO, nfs3.ErrNoEnt, nfs3.ErrAcces, nfs3.ErrNotDir, nfs3.ErrNameTooLong},
	nfs3.ProcAccess:      {nfs3.ErrIO},
	nfs3.ProcReadLink:    {nfs3.ErrIO, nfs3.ErrInval, nfs3.ErrAcces, nfs3.ErrNotSupp},
	nfs3.ProcRead:        {nfs3.ErrIO, nfs3.ErrNXIO, nfs3.ErrAcces, nfs3.ErrInval},
	nfs3.ProcWrite:       {nfs3.ErrIO, nfs3.ErrAcces, nfs3.ErrFBig, nfs3.ErrDQuot, nfs3.ErrNoSpc, nfs3.ErrROFS, nfs3.ErrInval},
	nfs3.ProcCreate:      creating,
	nfs3.ProcMkdir:       creating,
	nfs3.ProcSymlink:     creating,
	nfs3.ProcMknod:       append(slices.Clone(creating), nfs3.ErrBadType),
	nfs3.ProcRemove:      {nfs3.ErrNoEnt, nfs3.ErrIO, nfs3.ErrAcces, nfs3.ErrNotDir, nfs3.ErrNameTooLong, nfs3.ErrROFS},
	nfs3.ProcRmdir:       {nfs3.ErrNoEnt, nfs3.ErrIO, nfs3.ErrAcces, nfs3.ErrInval, nfs3.ErrExist, nfs3.ErrNotDir, nfs3.ErrNameTooLong, nfs3.ErrROFS, nfs3.ErrNotEmpty, nfs3.ErrNotSupp},
	nfs3.ProcRename:      {nfs3.ErrNoEnt, nfs3.ErrIO, nfs3.ErrAcces, nfs3.ErrExist, nfs3.ErrXDev, nfs3.ErrNotDir, nfs3.ErrIsDir, nfs3.ErrInval, nfs3.ErrNoSpc, nfs3.ErrROFS, nfs3.ErrMLink, nfs3.ErrNameTooLong, nfs3.ErrNotEmpty, nfs3.ErrDQuot, nfs3.ErrNotSupp},
	nfs3.ProcLink:        {nfs3.ErrIO, nfs3.ErrAcces, nfs3.ErrExist, nfs3.ErrXDev, nfs3.ErrNotDir, nfs3.ErrInval, nfs3.ErrNoSpc, nfs3.ErrROFS, nfs3.ErrMLink, nfs3.ErrNameTooLong, nfs3.ErrDQuot, nfs3.ErrNotSupp},
	nfs3.ProcReadDir:     listing,
	nfs3.ProcReadDirPlus: append(slices.Clone(listing), nfs3.ErrNotSupp),
	nfs3.ProcFSStat:      {nfs3.ErrIO},
	nfs3.ProcCommit:      {nfs3.ErrIO},
}

// mountStatuses are the values of mountstat3 (RFC 1813 Section 5.1.5).
var mountStatuses = []uint32{0, 1, 2, 5, 13, 20, 22, 63, 10004, 10006}

// status judges the status of a reply.
func (m *rpcMachine) status(r *decode.RPC, c *rpcCall) {
	code := nfs3.Status(r.StatusCode)
	switch {
	case r.Status == "":
	case c.prog == progMount && mount3.Proc(c.proc) == mount3.ProcMnt:
		if !slices.Contains(mountStatuses, r.StatusCode) {
			m.violate("NFS-004", "%s: %s", r.Name, r.Status)
		}
	case c.prog != progNFS || c.progVers != nfs3.Version || !nfs3.Proc(c.proc).Known():
	case strings.HasPrefix(r.Status, "nfsstat3("):
		m.violate("NFS-004", "%s: %s", r.Name, r.Status)
	case code != nfs3.OK && !slices.Contains(always, code) && !slices.Contains(statuses[c.proc], code):
		m.violate("NFS-005", "%s: %s", r.Name, r.Status)
	}
}
