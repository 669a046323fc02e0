package juicefs

import (
	"syscall"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// statuses are the errors of the metadata engine. All it says about a database that cannot be reached is EIO, so that
// is a reason to try again later.
var statuses = map[syscall.Errno]nfs3.Status{
	syscall.EPERM:        nfs3.ErrPerm,
	syscall.ENOENT:       nfs3.ErrNoEnt,
	syscall.EACCES:       nfs3.ErrAcces,
	syscall.EEXIST:       nfs3.ErrExist,
	syscall.ENOTDIR:      nfs3.ErrNotDir,
	syscall.EISDIR:       nfs3.ErrIsDir,
	syscall.EINVAL:       nfs3.ErrInval,
	syscall.EFBIG:        nfs3.ErrFBig,
	syscall.ENOSPC:       nfs3.ErrNoSpc,
	syscall.EROFS:        nfs3.ErrROFS,
	syscall.EMLINK:       nfs3.ErrMLink,
	syscall.ENAMETOOLONG: nfs3.ErrNameTooLong,
	syscall.ENOTEMPTY:    nfs3.ErrNotEmpty,
	syscall.EDQUOT:       nfs3.ErrDQuot,
	syscall.EBADF:        nfs3.ErrStale,
	syscall.ENOTSUP:      nfs3.ErrNotSupp,
}

// status turns the result of a call to the metadata engine into an error.
func status(st syscall.Errno) error {
	if st == 0 {
		return nil
	}
	if s, ok := statuses[st]; ok {
		return s
	}
	return nfs3.ErrJukebox
}

// gone is status for a call about a file itself, which is gone if it is not found.
func gone(st syscall.Errno) error {
	if st == syscall.ENOENT {
		return nfs3.ErrStale
	}
	return status(st)
}

// lost is gone for a READ: the object store was asked until JuiceFS gave up, and waiting does not bring an object back.
func lost(st syscall.Errno) error {
	if st == syscall.EIO {
		return nfs3.ErrIO
	}
	return gone(st)
}
