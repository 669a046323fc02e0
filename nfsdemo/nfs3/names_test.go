package nfs3_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

func TestNames(t *testing.T) {
	for want, got := range map[string]fmt.Stringer{
		"NFS3_OK": nfs3.OK, "NFS3ERR_JUKEBOX": nfs3.ErrJukebox, "nfsstat3(0x2a)": nfs3.Status(42),
		"READDIRPLUS": nfs3.ProcReadDirPlus, "nfsproc3(0x16)": nfs3.Proc(22), "NF3LNK": nfs3.TypeLnk, "ftype3(0x0)": nfs3.FileType(0),
		"SET_TO_CLIENT_TIME": nfs3.ClientTime, "time_how(0x3)": nfs3.TimeHow(3), "FILE_SYNC": nfs3.FileSync,
		"stable_how(0xffffffff)": nfs3.StableHow(1<<32 - 1), "EXCLUSIVE": nfs3.Exclusive, "createmode3(0x9)": nfs3.CreateMode(9),
	} {
		if got.String() != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if p := nfs3.Proc(22); p.Known() || p.NewArgs() != nil || p.NewRes() != nil || p.MaxRes() != 0 {
		t.Error("procedure 22 is known")
	}
}

func TestStatusError(t *testing.T) {
	if nfs3.OK.Err() != nil {
		t.Error("OK is an error")
	}
	err := fmt.Errorf("open: %w", nfs3.ErrNoEnt.Err())
	if s, ok := errors.AsType[nfs3.Status](err); !ok || s != nfs3.ErrNoEnt || err.Error() != "open: nfs3: NFS3ERR_NOENT" {
		t.Errorf("%v", err)
	}
	for target, list := range map[error][]nfs3.Status{
		fs.ErrNotExist: {nfs3.ErrNoEnt, nfs3.ErrStale}, fs.ErrExist: {nfs3.ErrExist, nfs3.ErrNotEmpty},
		fs.ErrPermission: {nfs3.ErrPerm, nfs3.ErrAcces}, fs.ErrInvalid: {nfs3.ErrInval},
	} {
		for s := range *nfs3.StatusNames {
			want := false
			for _, l := range list {
				want = want || l == s
			}
			if errors.Is(s, target) != want {
				t.Errorf("errors.Is(%v, %v) = %v", s, target, !want)
			}
		}
	}
}

func TestTime(t *testing.T) {
	for _, c := range []struct {
		sec, nsec int64
		want      nfs3.Time
	}{
		{0, 0, nfs3.Time{}},
		{1, 2, nfs3.Time{1, 2}},
		{-1, 5, nfs3.Time{}},
		{1<<32 - 1, 9, nfs3.Time{1<<32 - 1, 9}},
		{1 << 32, 0, nfs3.Time{1<<32 - 1, 999999999}},
		{1 << 40, 0, nfs3.Time{1<<32 - 1, 999999999}},
	} {
		if got := nfs3.UnixTime(c.sec, c.nsec); got != c.want {
			t.Errorf("UnixTime(%d, %d) = %v, want %v", c.sec, c.nsec, got, c.want)
		}
	}
	now := time.Unix(1790000000, 123456789)
	if got := nfs3.TimeOf(now).Time(); !got.Equal(now) {
		t.Errorf("%v, want %v", got, now)
	}
	if a := (&nfs3.Attr{Size: 1, Mtime: nfs3.Time{2, 3}, Ctime: nfs3.Time{4, 5}}).Wcc(); a != (nfs3.WccAttr{1, nfs3.Time{2, 3}, nfs3.Time{4, 5}}) {
		t.Errorf("%+v", a)
	}
	if !(&nfs3.SetAttr{Mode: 5}).IsZero() || (&nfs3.SetAttr{SetSize: true}).IsZero() || (&nfs3.SetAttr{MtimeHow: nfs3.ServerTime}).IsZero() {
		t.Error("IsZero")
	}
}
