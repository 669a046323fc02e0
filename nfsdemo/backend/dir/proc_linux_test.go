package dir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"golang.org/x/sys/unix"
)

// TestProc: the fallbacks for older kernels work too, on files that nobody may open and on links.
func TestProc(t *testing.T) {
	path := t.TempDir()
	file, link := filepath.Join(path, "f"), filepath.Join(path, "l")
	ok(t, os.WriteFile(file, nil, 0o600))
	ok(t, os.Chmod(file, 0))
	ok(t, os.Symlink("f", link))
	ts := []unix.Timespec{{Sec: 11}, {Sec: 22}}
	named := func(path string, f func(fd int) error) {
		t.Helper()
		fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		ok(t, err)
		defer unix.Close(fd)
		ok(t, f(fd))
	}
	named(link, func(fd int) error { return timesProc(fd, ts) })
	if st, err := os.Stat(file); err != nil || st.ModTime().Unix() == 22 {
		t.Errorf("the link was followed: %v, %v", st.ModTime(), err)
	}
	if st, err := os.Lstat(link); err != nil || st.ModTime().Unix() != 22 {
		t.Errorf("%v, %v", st.ModTime(), err)
	}
	named(file, func(fd int) error { return timesProc(fd, ts) })
	named(file, func(fd int) error { return chmodProc(fd, 0o640) })
	if st, err := os.Stat(file); err != nil || st.ModTime().Unix() != 22 || st.Mode() != 0o640 {
		t.Errorf("%v %v, %v", st.ModTime(), st.Mode(), err)
	}
}

func TestTypeOf(t *testing.T) {
	for mode, want := range map[uint16]nfs3.FileType{
		unix.S_IFREG | 0o644: nfs3.TypeReg, unix.S_IFDIR: nfs3.TypeDir, unix.S_IFLNK | 0o777: nfs3.TypeLnk,
		unix.S_IFBLK: nfs3.TypeBlk, unix.S_IFCHR: nfs3.TypeChr, unix.S_IFIFO: nfs3.TypeFIFO, unix.S_IFSOCK: nfs3.TypeSock,
	} {
		if got := typeOf(mode); got != want {
			t.Errorf("%o: %v", mode, got)
		}
	}
}
