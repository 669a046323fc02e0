package server_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/server"
)

// statuses are all of nfsstat3.
var statuses = []nfs3.Status{
	nfs3.OK, nfs3.ErrPerm, nfs3.ErrNoEnt, nfs3.ErrIO, nfs3.ErrNXIO, nfs3.ErrAcces, nfs3.ErrExist, nfs3.ErrXDev,
	nfs3.ErrNoDev, nfs3.ErrNotDir, nfs3.ErrIsDir, nfs3.ErrInval, nfs3.ErrFBig, nfs3.ErrNoSpc, nfs3.ErrROFS,
	nfs3.ErrMLink, nfs3.ErrNameTooLong, nfs3.ErrNotEmpty, nfs3.ErrDQuot, nfs3.ErrStale, nfs3.ErrRemote,
	nfs3.ErrBadHandle, nfs3.ErrNotSync, nfs3.ErrBadCookie, nfs3.ErrNotSupp, nfs3.ErrTooSmall,
	nfs3.ErrServerFault, nfs3.ErrBadType, nfs3.ErrJukebox,
}

// TestFit: every procedure answers any status of a backend with one of its own.
func TestFit(t *testing.T) {
	for p := nfs3.ProcGetAttr; p < nfs3.ProcCount; p++ {
		for _, s := range append(statuses, 42) {
			got := server.Fit(p, s)
			if !server.May(p, got) {
				t.Errorf("%v of %v: %v", s, p, got)
			}
			if server.May(p, s) && got != s {
				t.Errorf("%v of %v became %v", s, p, got)
			}
			if (s == nfs3.OK) != (got == nfs3.OK) {
				t.Errorf("%v of %v became %v", s, p, got)
			}
		}
	}
	for _, c := range []struct {
		p       nfs3.Proc
		s, want nfs3.Status
	}{
		{nfs3.ProcGetAttr, nfs3.ErrAcces, nfs3.ErrIO},
		{nfs3.ProcFSInfo, nfs3.ErrIO, nfs3.ErrServerFault},
		{nfs3.ProcCreate, nfs3.ErrPerm, nfs3.ErrAcces},
		{nfs3.ProcSetAttr, nfs3.ErrIsDir, nfs3.ErrInval},
		{nfs3.ProcRemove, nfs3.ErrIsDir, nfs3.ErrAcces},
		{nfs3.ProcMknod, nfs3.ErrPerm, nfs3.ErrPerm},
		{nfs3.ProcWrite, nfs3.ErrDQuot, nfs3.ErrDQuot},
		{nfs3.ProcRead, nfs3.ErrNoEnt, nfs3.ErrStale},
	} {
		if got := server.Fit(c.p, c.s); got != c.want {
			t.Errorf("%v of %v: %v, want %v", c.s, c.p, got, c.want)
		}
	}
}

func TestStatusOf(t *testing.T) {
	for _, c := range []struct {
		err   error
		want  nfs3.Status
		known bool
	}{
		{nil, nfs3.OK, true}, {nfs3.ErrStale, nfs3.ErrStale, true}, {fmt.Errorf("x: %w", nfs3.ErrNoSpc), nfs3.ErrNoSpc, true}, {errors.New("x"), nfs3.ErrIO, false},
	} {
		if s, known := server.StatusOf(c.err); s != c.want || known != c.known {
			t.Errorf("%v: %v, %v", c.err, s, known)
		}
	}
	for _, s := range statuses {
		if server.MountStatus(s) == 0 {
			t.Errorf("mountstat3 of %v is OK", s)
		}
	}
}
