// Package mount3 holds the MOUNT version 3 protocol (RFC 1813 Appendix I): constants, types
// and the codec of arguments and results, in both directions, with the rules of package nfs3.
//
//	proc  name     arguments     results
//	0     NULL     void          void
//	1     MNT      PathArgs      MountRes
//	2     DUMP     void          DumpRes
//	3     UMNT     PathArgs      void
//	4     UMNTALL  void          void
//	5     EXPORT   void          ExportRes
//
// Versions 1 and 2 have the same numbers and messages, but for the result of MNT: a handle of 32 octets, which is not
// implemented.
package mount3

import (
	"math"
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

// PathArgs is a dirpath: the arguments of MNT and UMNT.
type PathArgs struct {
	Path string // at most MaxPath octets
}

func (a *PathArgs) Code(c *xdr.Coder) { c.String(&a.Path, MaxPath) }

// MountRes is mountres3, the result of MNT (RFC 1813 Section 5.2.1).
type MountRes struct {
	Status  Status
	Handle  nfs3.FileHandle  // of the export's root, with OK; lent by Decode
	Flavors []xdr.AuthFlavor // that the server accepts, best first, with OK
}

func (r *MountRes) Code(c *xdr.Coder) {
	if xdr.Word(c, &r.Status) == OK {
		r.Handle.Code(c)
		xdr.Array(c, &r.Flavors, math.MaxInt, 4, func(f *xdr.AuthFlavor, c *xdr.Coder) { xdr.Word(c, f) })
	}
}

// Mount is an entry of DUMP: who mounted what.
type Mount struct {
	Host string // at most MaxName octets
	Dir  string // at most MaxPath octets
}

func (m *Mount) Code(c *xdr.Coder) {
	c.String(&m.Host, MaxName)
	c.String(&m.Dir, MaxPath)
}

// DumpRes is the result of DUMP (RFC 1813 Section 5.2.2).
type DumpRes struct {
	Mounts []Mount // Decode reuses its capacity
}

func (r *DumpRes) Code(c *xdr.Coder) { xdr.List(c, &r.Mounts, (*Mount).Code) }

// Export is an entry of EXPORT: what may be mounted by whom.
type Export struct {
	Dir    string   // at most MaxPath octets
	Groups []string // empty: everybody; each at most MaxName octets
}

func (e *Export) Code(c *xdr.Coder) {
	c.String(&e.Dir, MaxPath)
	xdr.List(c, &e.Groups, func(g *string, c *xdr.Coder) { c.String(g, MaxName) })
}

// ExportRes is the result of EXPORT (RFC 1813 Section 5.2.5).
type ExportRes struct {
	Exports []Export // Decode reuses its capacity
}

func (r *ExportRes) Code(c *xdr.Coder) { xdr.List(c, &r.Exports, (*Export).Code) }

// Parse reads the exports list.
