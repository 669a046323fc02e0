package nfs3

import (
	"io/fs"
	"strconv"
)

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
