package mount3

import (
	"strconv"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// RPC numbers and limits (RFC 1813 Section 5.1).
const (
	Program  = 100005
	Version  = 3
	Version1 = 1 // of NFSv2 (RFC 1094 Appendix A), as Version2 is
	Version2 = 2

	MaxPath = 1024 // MNTPATHLEN, octets
	MaxName = 255  // MNTNAMLEN, octets
)

// Proc is a procedure number of the program (RFC 1813 Section 5.2).
type Proc uint32

// Procedures.
const (
	ProcNull    Proc = 0
	ProcMnt     Proc = 1
	ProcDump    Proc = 2
	ProcUmnt    Proc = 3
	ProcUmntAll Proc = 4
	ProcExport  Proc = 5
	ProcCount        = 6
)

var procNames = [ProcCount]string{"NULL", "MNT", "DUMP", "UMNT", "UMNTALL", "EXPORT"}

// String returns the name in RFC 1813.
func (p Proc) String() string {
	if p < ProcCount {
		return procNames[p]
	}
	return "mountproc3(0x" + strconv.FormatUint(uint64(p), 16) + ")"
}

// NewArgs returns an empty value for the arguments of p, or nil if p is unknown.
func (p Proc) NewArgs() xdr.Message {
	switch p {
	case ProcMnt, ProcUmnt:
		return new(PathArgs)
	case ProcNull, ProcDump, ProcUmntAll, ProcExport:
		return new(nfs3.Void)
	}
	return nil
}

// NewRes returns an empty value for the results of p, or nil if p is unknown.
func (p Proc) NewRes() xdr.Message {
	switch p {
	case ProcMnt:
		return new(MountRes)
	case ProcDump:
		return new(DumpRes)
	case ProcExport:
		return new(ExportRes)
	case ProcNull, ProcUmnt, ProcUmntAll:
		return new(nfs3.Void)
	}
	return nil
}

// Status is a mountstat3 (RFC 1813 Section 5.1.5). It is also an error, but [OK] must not be used as
// one.
type Status uint32

// Statuses.
const (
	OK             Status = 0
	ErrPerm        Status = 1
	ErrNoEnt       Status = 2
	ErrIO          Status = 5
	ErrAcces       Status = 13
	ErrNotDir      Status = 20
	ErrInval       Status = 22
	ErrNameTooLong Status = 63
	ErrNotSupp     Status = 10004
	ErrServerFault Status = 10006
)

var statusNames = map[Status]string{
	OK: "MNT3_OK", ErrPerm: "MNT3ERR_PERM", ErrNoEnt: "MNT3ERR_NOENT", ErrIO: "MNT3ERR_IO",
	ErrAcces: "MNT3ERR_ACCES", ErrNotDir: "MNT3ERR_NOTDIR", ErrInval: "MNT3ERR_INVAL",
	ErrNameTooLong: "MNT3ERR_NAMETOOLONG", ErrNotSupp: "MNT3ERR_NOTSUPP",
	ErrServerFault: "MNT3ERR_SERVERFAULT",
}

// String returns the name in RFC 1813.
func (s Status) String() string {
	if n, ok := statusNames[s]; ok {
		return n
	}
	return "mountstat3(0x" + strconv.FormatUint(uint64(s), 16) + ")"
}

// Error returns "mount3: " and the name.
func (s Status) Error() string { return "mount3: " + s.String() }

// Err returns s as an error, nil for [OK].
func (s Status) Err() error {
	if s == OK {
		return nil
	}
	return s
}
