package dir_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

func TestStatus(t *testing.T) {
	other := errors.New("other")
	for _, c := range []struct{ err, want error }{
		{nil, nil},
		{syscall.ENOSPC, nfs3.ErrNoSpc},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, nfs3.ErrAcces},
		{&os.LinkError{Op: "rename", Err: syscall.EXDEV}, nfs3.ErrXDev},
		{syscall.EMFILE, nfs3.ErrJukebox},
		{fmt.Errorf("x: %w", fs.ErrNotExist), nfs3.ErrNoEnt},
		{fs.ErrExist, nfs3.ErrExist},
		{fs.ErrPermission, nfs3.ErrAcces},
		{os.ErrClosed, nfs3.ErrJukebox},
		{nfs3.ErrStale, nfs3.ErrStale},
		{fmt.Errorf("x: %w", nfs3.ErrStale), nfs3.ErrStale},
		{dir.ErrMoved, dir.ErrMoved},
		{other, other},
	} {
		if got := dir.Status(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}
