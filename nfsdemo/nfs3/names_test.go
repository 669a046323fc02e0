package nfs3

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"
)

func TestNames(t *testing.T) {
	for want, got := range map[string]fmt.Stringer{
		"NFS3_OK": OK, "NFS3ERR_JUKEBOX": ErrJukebox, "nfsstat3(0x2a)": Status(42),
		"READDIRPLUS": ProcReadDirPlus, "nfsproc3(0x16)": Proc(22), "NF3LNK": TypeLnk, "ftype3(0x0)": FileType(0),
		"SET_TO_CLIENT_TIME": ClientTime, "time_how(0x3)": TimeHow(3), "FILE_SYNC": FileSync,
		"stable_how(0xffffffff)": StableHow(1<<32 - 1), "EXCLUSIVE": Exclusive, "createmode3(0x9)": CreateMode(9),
	} {
		if got.String() != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if p := Proc(22); p.Known() || p.NewArgs() != nil || p.NewRes() != nil || p.MaxRes() != 0 {
		t.Error("procedure 22 is known")
	}
}

func TestStatusError(t *testing.T) {
	if OK.Err() != nil {
		t.Error("OK is an error")
	}
	err := fmt.Errorf("open: %w", ErrNoEnt.Err())
	if s, ok := errors.AsType[Status](err); !ok || s != ErrNoEnt || err.Error() != "open: nfs3: NFS3ERR_NOENT" {
		t.Errorf("%v", err)
	}
	for target, list := range map[error][]Status{
		fs.ErrNotExist: {ErrNoEnt, ErrStale}, fs.ErrExist: {ErrExist, ErrNotEmpty},
		fs.ErrPermission: {ErrPerm, ErrAcces}, fs.ErrInvalid: {ErrInval},
	} {
		for s := range statusNames {
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
		want      Time
	}{
		{0, 0, Time{}},
		{1, 2, Time{1, 2}},
		{-1, 5, Time{}},
		{1<<32 - 1, 9, Time{1<<32 - 1, 9}},
		{1 << 32, 0, Time{1<<32 - 1, 999999999}},
		{1 << 40, 0, Time{1<<32 - 1, 999999999}},
	} {
		if got := UnixTime(c.sec, c.nsec); got != c.want {
			t.Errorf("UnixTime(%d, %d) = %v, want %v", c.sec, c.nsec, got, c.want)
		}
	}
	now := time.Unix(1790000000, 123456789)
	if got := TimeOf(now).Time(); !got.Equal(now) {
		t.Errorf("%v, want %v", got, now)
	}
	if a := (&Attr{Size: 1, Mtime: Time{2, 3}, Ctime: Time{4, 5}}).Wcc(); a != (WccAttr{1, Time{2, 3}, Time{4, 5}}) {
		t.Errorf("%+v", a)
	}
	if !(&SetAttr{Mode: 5}).IsZero() || (&SetAttr{SetSize: true}).IsZero() || (&SetAttr{MtimeHow: ServerTime}).IsZero() {
		t.Error("IsZero")
	}
}
