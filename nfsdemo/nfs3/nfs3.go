package nfs3

import (
	"hash/maphash"
	"io/fs"
	"strconv"

	"github.com/stag-rdma/stag/xdr"
)

// RPC numbers and limits (RFC 1813 Section 2).
const (
	Program = 100003 // NFS_PROGRAM
	Version = 3      // NFS_V3

	MaxHandle = 64 // NFS3_FHSIZE, octets
	VerfSize  = 8  // NFS3_COOKIEVERFSIZE, NFS3_CREATEVERFSIZE, NFS3_WRITEVERFSIZE
	MaxName   = 255
	MaxPath   = 4096 // longest symbolic link target served; Choice: PATH_MAX of Linux
)

// attrSize is the encoded size of an [Attr] in octets (RFC 1813 Section 2.5).
const attrSize = 84

// Access is the bit mask of ACCESS (RFC 1813 Section 3.3.4).
type Access uint32

// Access bits.
const (
	AccessRead    Access = 0x01 // read a file, list a directory
	AccessLookup  Access = 0x02 // look a name up in a directory
	AccessModify  Access = 0x04 // rewrite existing data or entries
	AccessExtend  Access = 0x08 // write new data or add entries
	AccessDelete  Access = 0x10 // delete an entry of a directory
	AccessExecute Access = 0x20 // execute a file
	AccessAll     Access = 0x3f
)

// Properties of FSINFO (RFC 1813 Section 3.3.19).
const (
	PropLink        uint32 = 0x01 // hard links
	PropSymlink     uint32 = 0x02 // symbolic links
	PropHomogeneous uint32 = 0x08 // PATHCONF is the same for all files
	PropCanSetTime  uint32 = 0x10 // SETATTR sets times to the server's precision
)

// FileHandle is an nfs_fh3: up to 64 octets that mean something only to the server
// (RFC 1813 Section 2.3.3).
type FileHandle []byte

func (h *FileHandle) Code(c *xdr.Coder) { c.Opaque((*[]byte)(h), MaxHandle) }

// CookieVerf, CreateVerf and WriteVerf are opaque 8-octet values (RFC 1813 Section 2.4).
type (
	CookieVerf [VerfSize]byte
	CreateVerf [VerfSize]byte
	WriteVerf  [VerfSize]byte
)

// FileType is an ftype3 (RFC 1813 Section 2.3.5).
type FileType uint32

// File types.
const (
	TypeReg  FileType = 1 // regular file
	TypeDir  FileType = 2 // directory
	TypeBlk  FileType = 3 // block device
	TypeChr  FileType = 4 // character device
	TypeLnk  FileType = 5 // symbolic link
	TypeSock FileType = 6 // socket
	TypeFIFO FileType = 7 // named pipe
)

var typeNames = [...]string{1: "NF3REG", "NF3DIR", "NF3BLK", "NF3CHR", "NF3LNK", "NF3SOCK", "NF3FIFO"}

// String returns the name in RFC 1813.
func (t FileType) String() string { return enumName(typeNames[:], uint32(t), "ftype3") }

// TimeHow says where a time of SETATTR comes from (RFC 1813 Section 2.6).
type TimeHow uint32

// Ways to set a time.
const (
	DontChange TimeHow = 0
	ServerTime TimeHow = 1 // SET_TO_SERVER_TIME
	ClientTime TimeHow = 2 // SET_TO_CLIENT_TIME
)

var timeNames = [...]string{"DONT_CHANGE", "SET_TO_SERVER_TIME", "SET_TO_CLIENT_TIME"}

// String returns the name in RFC 1813.
func (h TimeHow) String() string { return enumName(timeNames[:], uint32(h), "time_how") }

// StableHow is the stability of written data (RFC 1813 Section 3.3.7).
type StableHow uint32

// Stability levels, in increasing order.
const (
	Unstable StableHow = 0 // may be lost until COMMIT
	DataSync StableHow = 1 // data, and the attributes needed to find them
	FileSync StableHow = 2 // data and all attributes
)

var stableNames = [...]string{"UNSTABLE", "DATA_SYNC", "FILE_SYNC"}

// String returns the name in RFC 1813.
func (s StableHow) String() string { return enumName(stableNames[:], uint32(s), "stable_how") }

// CreateMode is a createmode3 (RFC 1813 Section 3.3.8).
type CreateMode uint32

// Ways to create a file.
const (
	Unchecked CreateMode = 0 // an existing file is opened
	Guarded   CreateMode = 1 // an existing file is an error
	Exclusive CreateMode = 2 // idempotent by a verifier
)

var createNames = [...]string{"UNCHECKED", "GUARDED", "EXCLUSIVE"}

// String returns the name in RFC 1813.
func (m CreateMode) String() string { return enumName(createNames[:], uint32(m), "createmode3") }

// enumName returns the name of v; unknown values print as kind(0x2a).
func enumName(names []string, v uint32, kind string) string {
	if uint64(v) < uint64(len(names)) && names[v] != "" {
		return names[v]
	}
	return kind + "(0x" + strconv.FormatUint(uint64(v), 16) + ")"
}

// Status is an nfsstat3 (RFC 1813 Section 2.6). It is also an error, so that file systems can return
// it, but [OK] must not be used as one: see [Status.Err].
type Status uint32

// Statuses.
const (
	OK             Status = 0
	ErrPerm        Status = 1 // not the owner
	ErrNoEnt       Status = 2
	ErrIO          Status = 5
	ErrNXIO        Status = 6
	ErrAcces       Status = 13
	ErrExist       Status = 17
	ErrXDev        Status = 18
	ErrNoDev       Status = 19
	ErrNotDir      Status = 20
	ErrIsDir       Status = 21
	ErrInval       Status = 22
	ErrFBig        Status = 27
	ErrNoSpc       Status = 28
	ErrROFS        Status = 30
	ErrMLink       Status = 31
	ErrNameTooLong Status = 63
	ErrNotEmpty    Status = 66
	ErrDQuot       Status = 69
	ErrStale       Status = 70
	ErrRemote      Status = 71
	ErrBadHandle   Status = 10001
	ErrNotSync     Status = 10002 // SETATTR guard does not match
	ErrBadCookie   Status = 10003
	ErrNotSupp     Status = 10004
	ErrTooSmall    Status = 10005
	ErrServerFault Status = 10006
	ErrBadType     Status = 10007
	ErrJukebox     Status = 10008 // try again later, with a new XID
)

var statusNames = map[Status]string{
	OK: "NFS3_OK", ErrPerm: "NFS3ERR_PERM", ErrNoEnt: "NFS3ERR_NOENT", ErrIO: "NFS3ERR_IO",
	ErrNXIO: "NFS3ERR_NXIO", ErrAcces: "NFS3ERR_ACCES", ErrExist: "NFS3ERR_EXIST",
	ErrXDev: "NFS3ERR_XDEV", ErrNoDev: "NFS3ERR_NODEV", ErrNotDir: "NFS3ERR_NOTDIR",
	ErrIsDir: "NFS3ERR_ISDIR", ErrInval: "NFS3ERR_INVAL", ErrFBig: "NFS3ERR_FBIG",
	ErrNoSpc: "NFS3ERR_NOSPC", ErrROFS: "NFS3ERR_ROFS", ErrMLink: "NFS3ERR_MLINK",
	ErrNameTooLong: "NFS3ERR_NAMETOOLONG", ErrNotEmpty: "NFS3ERR_NOTEMPTY",
	ErrDQuot: "NFS3ERR_DQUOT", ErrStale: "NFS3ERR_STALE", ErrRemote: "NFS3ERR_REMOTE",
	ErrBadHandle: "NFS3ERR_BADHANDLE", ErrNotSync: "NFS3ERR_NOT_SYNC",
	ErrBadCookie: "NFS3ERR_BAD_COOKIE", ErrNotSupp: "NFS3ERR_NOTSUPP",
	ErrTooSmall: "NFS3ERR_TOOSMALL", ErrServerFault: "NFS3ERR_SERVERFAULT",
	ErrBadType: "NFS3ERR_BADTYPE", ErrJukebox: "NFS3ERR_JUKEBOX",
}

// String returns the name in RFC 1813.
func (s Status) String() string {
	if n, ok := statusNames[s]; ok {
		return n
	}
	return "nfsstat3(0x" + strconv.FormatUint(uint64(s), 16) + ")"
}

// Error returns "nfs3: " and the name.
func (s Status) Error() string { return "nfs3: " + s.String() }

// Err returns s as an error, nil for [OK].
func (s Status) Err() error {
	if s == OK {
		return nil
	}
	return s
}

// Is makes errors.Is(s, fs.ErrNotExist) and its siblings work.
func (s Status) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return s == ErrNoEnt || s == ErrStale
	case fs.ErrExist:
		return s == ErrExist || s == ErrNotEmpty
	case fs.ErrPermission:
		return s == ErrPerm || s == ErrAcces
	case fs.ErrInvalid:
		return s == ErrInval
	}
	return false
}

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

// Changes reports whether a call of p changes something, and returns the hashes of the handles of the files and
// directories that it changes, as far as args have them; 0: none.
//
// Choice: WRITE does. If it runs again, it writes the same octets, but perhaps after a later WRITE
// to the same place: the first transmission may still wait in a connection that its client has
// given up.
func (p Proc) Changes(args []byte) (objects [2]uint64, changes bool) {
	switch p {
	case ProcSetAttr, ProcWrite, ProcCreate, ProcMkdir, ProcSymlink, ProcMknod, ProcRemove, ProcRmdir, ProcRename, ProcLink:
	default:
		return objects, false
	}
	d := xdr.NewDecoder(args)
	objects[0] = FileHandle(d.Opaque(MaxHandle)).Hash()
	if p == ProcRename {
		d.Opaque(MaxName)
	}
	if p == ProcRename || p == ProcLink {
		objects[1] = FileHandle(d.Opaque(MaxHandle)).Hash()
	}
	return objects, true
}

var handleSeed = maphash.MakeSeed()

// Hash returns a hash of h that holds in this process, 0 if h is empty.
func (h FileHandle) Hash() uint64 {
	if len(h) == 0 {
		return 0
	}
	return maphash.Bytes(handleSeed, h) | 1
}
