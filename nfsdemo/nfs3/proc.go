package nfs3

import "github.com/stag-rdma/stag/xdr"

// Proc is a procedure number of the program (RFC 1813 Section 3.3).
type Proc uint32

// Procedures.
const (
	ProcNull        Proc = 0
	ProcGetAttr     Proc = 1
	ProcSetAttr     Proc = 2
	ProcLookup      Proc = 3
	ProcAccess      Proc = 4
	ProcReadLink    Proc = 5
	ProcRead        Proc = 6
	ProcWrite       Proc = 7
	ProcCreate      Proc = 8
	ProcMkdir       Proc = 9
	ProcSymlink     Proc = 10
	ProcMknod       Proc = 11
	ProcRemove      Proc = 12
	ProcRmdir       Proc = 13
	ProcRename      Proc = 14
	ProcLink        Proc = 15
	ProcReadDir     Proc = 16
	ProcReadDirPlus Proc = 17
	ProcFSStat      Proc = 18
	ProcFSInfo      Proc = 19
	ProcPathConf    Proc = 20
	ProcCommit      Proc = 21
	ProcCount            = 22
)

// Idempotent reports whether a call that is executed again has the same results (RFC 1813
// Section 4.5). Calls that make, remove or name something are not idempotent, nor is SETATTR, whose
// guard may fail the second time.
func (p Proc) Idempotent() bool {
	switch p {
	case ProcSetAttr, ProcCreate, ProcMkdir, ProcSymlink, ProcMknod, ProcRemove, ProcRmdir, ProcRename, ProcLink:
		return false
	default:
		return true
	}
}

// procInfo is a row of the procedure table.
type procInfo struct {
	name    string
	newArgs func() xdr.Message
	newRes  func() xdr.Message
	maxRes  int
}

// procs is the procedure table. maxRes is the size of the largest result in octets, without a
// reducible item or directory entries, which the caller limits.
var procs = [ProcCount]procInfo{
	ProcNull:        {"NULL", mk[Void], mk[Void], 0},
	ProcGetAttr:     {"GETATTR", mk[GetAttrArgs], mk[GetAttrRes], 88},
	ProcSetAttr:     {"SETATTR", mk[SetAttrArgs], mk[SetAttrRes], 120},
	ProcLookup:      {"LOOKUP", mk[LookupArgs], mk[LookupRes], 248},
	ProcAccess:      {"ACCESS", mk[AccessArgs], mk[AccessRes], 96},
	ProcReadLink:    {"READLINK", mk[ReadLinkArgs], mk[ReadLinkRes], 96},
	ProcRead:        {"READ", mk[ReadArgs], mk[ReadRes], 104},
	ProcWrite:       {"WRITE", mk[WriteArgs], mk[WriteRes], 136},
	ProcCreate:      {"CREATE", mk[CreateArgs], mk[CreateRes], 280},
	ProcMkdir:       {"MKDIR", mk[MkdirArgs], mk[MkdirRes], 280},
	ProcSymlink:     {"SYMLINK", mk[SymlinkArgs], mk[SymlinkRes], 280},
	ProcMknod:       {"MKNOD", mk[MknodArgs], mk[MknodRes], 280},
	ProcRemove:      {"REMOVE", mk[RemoveArgs], mk[RemoveRes], 120},
	ProcRmdir:       {"RMDIR", mk[RmdirArgs], mk[RmdirRes], 120},
	ProcRename:      {"RENAME", mk[RenameArgs], mk[RenameRes], 236},
	ProcLink:        {"LINK", mk[LinkArgs], mk[LinkRes], 208},
	ProcReadDir:     {"READDIR", mk[ReadDirArgs], mk[ReadDirRes], 108},
	ProcReadDirPlus: {"READDIRPLUS", mk[ReadDirPlusArgs], mk[ReadDirPlusRes], 108},
	ProcFSStat:      {"FSSTAT", mk[FSStatArgs], mk[FSStatRes], 144},
	ProcFSInfo:      {"FSINFO", mk[FSInfoArgs], mk[FSInfoRes], 140},
	ProcPathConf:    {"PATHCONF", mk[PathConfArgs], mk[PathConfRes], 116},
	ProcCommit:      {"COMMIT", mk[CommitArgs], mk[CommitRes], 128},
}

// mk makes a message of type T.
func mk[T any, P interface {
	*T
	xdr.Message
}]() xdr.Message {
	return P(new(T))
}

// Known reports whether p is a procedure of version 3.
func (p Proc) Known() bool { return p < ProcCount }

// String returns the name in RFC 1813.
func (p Proc) String() string {
	if p.Known() {
		return procs[p].name
	}
	return enumName(nil, uint32(p), "nfsproc3")
}

// NewArgs returns an empty value for the arguments of p, or nil if p is unknown.
func (p Proc) NewArgs() xdr.Message {
	if !p.Known() {
		return nil
	}
	return procs[p].newArgs()
}

// NewRes returns an empty value for the results of p, or nil if p is unknown.
func (p Proc) NewRes() xdr.Message {
	if !p.Known() {
		return nil
	}
	return procs[p].newRes()
}

// MaxRes returns the size in octets of the largest result of p, without the data of READ
// (plus pad), the path of READLINK (plus pad), and the entries of READDIR and READDIRPLUS;
// 0 if p is unknown.
func (p Proc) MaxRes() int {
	if !p.Known() {
		return 0
	}
	return procs[p].maxRes
}
