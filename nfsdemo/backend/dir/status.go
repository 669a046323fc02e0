package dir

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// byErrno maps system errors to statuses; all others are NFS3ERR_IO.
var byErrno = map[syscall.Errno]nfs3.Status{
	syscall.EPERM:        nfs3.ErrPerm,
	syscall.ENOENT:       nfs3.ErrNoEnt,
	syscall.EIO:          nfs3.ErrIO,
	syscall.ENXIO:        nfs3.ErrNXIO,
	syscall.EACCES:       nfs3.ErrAcces,
	syscall.EEXIST:       nfs3.ErrExist,
	syscall.EXDEV:        nfs3.ErrXDev,
	syscall.ENODEV:       nfs3.ErrNoDev,
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
	syscall.ESTALE:       nfs3.ErrStale,
	syscall.EOPNOTSUPP:   nfs3.ErrNotSupp,
	syscall.ENOSYS:       nfs3.ErrNotSupp,
	syscall.ETXTBSY:      nfs3.ErrAcces, // a running program cannot be written
	syscall.ELOOP:        nfs3.ErrInval, // a symbolic link, which we never follow
	syscall.EBUSY:        nfs3.ErrAcces, // a mount point: trying again does not help

	// Shortages that pass.
	syscall.EMFILE: nfs3.ErrJukebox,
	syscall.ENFILE: nfs3.ErrJukebox,
	syscall.ENOMEM: nfs3.ErrJukebox,
	syscall.EAGAIN: nfs3.ErrJukebox,
	syscall.EINTR:  nfs3.ErrJukebox,
}

// status turns a system error into an nfs3.Status. It returns other errors, and those of this
// package, unchanged.
func status(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrClosed): // the server is shutting down
		return nfs3.ErrJukebox
	}
	if s, ok := errors.AsType[nfs3.Status](err); ok {
		return s
	}
	if en, ok := errors.AsType[syscall.Errno](err); ok {
		if s, ok := byErrno[en]; ok {
			return s
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nfs3.ErrNoEnt
	case errors.Is(err, fs.ErrExist):
		return nfs3.ErrExist
	case errors.Is(err, fs.ErrPermission):
		return nfs3.ErrAcces
	}
	return err
}
