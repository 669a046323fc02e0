package nfsclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// StatusError reports a procedure that the server refused. It works with errors.Is and
// fs.ErrNotExist, fs.ErrExist, fs.ErrPermission and fs.ErrInvalid.
type StatusError struct {
	Proc   nfs3.Proc
	Status nfs3.Status
}

// Error names the status as RFC 1813 Section 2.6 does.
func (e *StatusError) Error() string {
	return fmt.Sprintf("%s (%s answered %s)", cmp.Or(statusTexts[e.Status], "unknown status"), e.Proc, e.Status.String())
}

// Unwrap returns the status.
func (e *StatusError) Unwrap() error { return e.Status }

// statusTexts describe statuses in plain words.
var statusTexts = map[nfs3.Status]string{
	nfs3.ErrPerm: "operation not permitted", nfs3.ErrNoEnt: "no such file or directory",
	nfs3.ErrIO: "input/output error on the server", nfs3.ErrNXIO: "no such device", nfs3.ErrAcces: "permission denied",
	nfs3.ErrExist: "file exists", nfs3.ErrXDev: "on another file system", nfs3.ErrNoDev: "no such device",
	nfs3.ErrNotDir: "not a directory", nfs3.ErrIsDir: "is a directory", nfs3.ErrInval: "invalid argument",
	nfs3.ErrFBig: "file too large", nfs3.ErrNoSpc: "no space left on the server", nfs3.ErrROFS: "the export is read-only",
	nfs3.ErrMLink: "too many links", nfs3.ErrNameTooLong: "file name too long", nfs3.ErrNotEmpty: "directory not empty",
	nfs3.ErrDQuot: "disk quota exceeded", nfs3.ErrStale: "the file is gone from the server (stale handle)",
	nfs3.ErrRemote: "on another server", nfs3.ErrBadHandle: "bad file handle", nfs3.ErrNotSync: "changed meanwhile",
	nfs3.ErrBadCookie: "the directory changed while it was read", nfs3.ErrNotSupp: "not supported by the server",
	nfs3.ErrTooSmall: "the answer does not fit the size asked for", nfs3.ErrServerFault: "the server failed",
	nfs3.ErrBadType: "file type not supported", nfs3.ErrJukebox: "the server asks to try again later",
}

// isStatus reports whether err is a refusal with status s.
func isStatus(err error, s nfs3.Status) bool {
	e, ok := errors.AsType[*StatusError](err)
	return ok && e.Status == s
}

// MountError reports a path that the server refused to mount.
type MountError struct {
	Path   string // as asked for
	Status mount3.Status
}

// Error names the status as RFC 1813 Section 5.1.5 does.
func (e *MountError) Error() string {
	text := "the server refused the mount"
	switch e.Status {
	case mount3.ErrPerm, mount3.ErrAcces:
		text = "permission denied"
	case mount3.ErrNoEnt:
		text = "no such export"
	case mount3.ErrNotDir:
		text = "not a directory"
	case mount3.ErrNameTooLong:
		text = "name too long"
	case mount3.OK, mount3.ErrIO, mount3.ErrInval, mount3.ErrNotSupp, mount3.ErrServerFault:
	}
	return fmt.Sprintf("cannot mount %s: %s (MNT answered %s)", e.Path, text, e.Status.String())
}

// Unwrap returns the status.
func (e *MountError) Unwrap() error { return e.Status }

// Is makes errors.Is know fs.ErrPermission and fs.ErrNotExist.
func (e *MountError) Is(target error) bool {
	switch target {
	case fs.ErrPermission:
		return e.Status == mount3.ErrPerm || e.Status == mount3.ErrAcces
	case fs.ErrNotExist:
		return e.Status == mount3.ErrNoEnt
	}
	return false
}

// ExportError reports a path that is in no export of the server.
type ExportError struct {
	Path    string
	Exports []string // what is exported
}

// Error lists what is exported.
func (e *ExportError) Error() string {
	if len(e.Exports) == 0 {
		return e.Path + " is not exported; nothing is"
	}
	return fmt.Sprintf("%s is not exported; exported: %s", e.Path, strings.Join(e.Exports, ", "))
}

// Is makes errors.Is know fs.ErrNotExist.
func (e *ExportError) Is(target error) bool { return target == fs.ErrNotExist }

// MountServiceError reports that no MOUNT service was found, neither on the NFS port nor through
// rpcbind.
type MountServiceError struct {
	Host string
	Err  error // why rpcbind gave no port
}

// Error says what to do.
func (e *MountServiceError) Error() string {
	return fmt.Sprintf("cannot find the MOUNT service of %s: the NFS port does not answer MOUNT, and rpcbind failed (%v); name its port with ?mountport=N", e.Host, e.Err)
}

// Unwrap returns the cause.
func (e *MountServiceError) Unwrap() error { return e.Err }

// NoAnswerError reports a call that was not answered within Config.CallTimeout. It works with errors.Is and
// context.DeadlineExceeded.
type NoAnswerError struct {
	Proc  nfs3.Proc
	After time.Duration
	// Dropped counts the messages, in the life of the connection, that answered no call.
	Dropped uint64
}

// Error says what came instead, and what to do.
func (e *NoAnswerError) Error() string {
	s := fmt.Sprintf("the server has not answered %s within %v", e.Proc, e.After)
	if e.Dropped > 0 {
		return fmt.Sprintf("%s, and sent %d messages that answer no call (it may be broken; report this to its administrator)", s, e.Dropped)
	}
	return s + " (if it is only slow, raise the limit: Config.CallTimeout, --call-timeout)"
}

// Is makes errors.Is know context.DeadlineExceeded.
func (e *NoAnswerError) Is(target error) bool { return target == context.DeadlineExceeded }

// Causes of errors other than a status of the server.
var (
	// ErrDirLoop: a cookie of the directory came twice, so the list would never end.
	ErrDirLoop = errors.New("the directory listing runs in a circle: the server repeats a cookie (report this to its administrator)")
	// ErrDirEndless: the directory has more than 1,048,576 entries, or is nested deeper than paths of 4096
	// octets.
	ErrDirEndless = errors.New("the directory has more than 1,048,576 entries, or its path more than 4096 octets: the server may never end it")
	// ErrDirLarge: the directory is too large to be collected.
	ErrDirLarge = errors.New("the directory takes more than 64 MiB of memory: list it with Entries, which streams")
	// ErrTooDeep: the listings that are read at the same time, one per level, take more than 64 MiB.
	ErrTooDeep = errors.New("the directories being listed, one inside the other, take more than 64 MiB: the server may nest them without end (name a directory further down)")
	// ErrTreeEndless: more than Config.MaxTree names below one directory.
	ErrTreeEndless = errors.New("too many names below one directory: the server may never end it (if it is so large, raise the limit: Config.MaxTree, --max-names)")
	// ErrNoProgress: the server answered OK but did nothing, or hardly anything many times, so it is useless to repeat
	// the call.
	ErrNoProgress = errors.New("the server makes no progress")
	// ErrTooManyLinks: more than 40 symbolic links in one path.
	ErrTooManyLinks = errors.New("too many levels of symbolic links")
	// ErrOutside: a symbolic link leads out of the export.
	ErrOutside = errors.New("the symbolic link leads out of the export")
	// ErrVerifier: the server lost uncommitted data again and again.
	ErrVerifier = errors.New("the server keeps losing uncommitted data (write verifier changes)")
	// ErrBadReply: the server's answer contradicts the call.
	ErrBadReply = errors.New("the server's answer makes no sense")
)

// pathErr adds the operation and the path to err; nil stays nil.
func pathErr(op, path string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return err // the inner path is closer to the cause
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}
