package dir

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
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

var ann = &caller.Identity{UID: 1000, GID: 1000}

var bob = &caller.Identity{UID: 1001, GID: 1001}

// TestRightsBounded: answers are bounded in number, and end.
func TestRightsBounded(t *testing.T) {
	var c rightsCache
	a := &nfs3.Attr{Mode: 0o644, Ctime: nfs3.Time{Sec: 1}}
	for i := range maxRights + 10 {
		c.put(fileKey{key: k(i)}, ann, a, 7, 5)
	}
	if len(c.m) != maxRights || c.order.Len() != maxRights {
		t.Errorf("%d answers", len(c.m))
	}
	last := fileKey{key: k(maxRights)}
	if asked, got := c.get(last, ann, a); asked != 7 || got != 5 {
		t.Errorf("%d, %d", asked, got)
	}
	for what, x := range map[string]func() (uint32, uint32){
		"another caller": func() (uint32, uint32) { return c.get(last, bob, a) },
		"another mode":   func() (uint32, uint32) { b := *a; b.Mode = 0; return c.get(last, ann, &b) },
		"another ctime":  func() (uint32, uint32) { b := *a; b.Ctime.Nsec = 1; return c.get(last, ann, &b) },
		"one that ended": func() (uint32, uint32) {
			c.m[last].Value.(*answer).until = time.Now().Add(-1)
			return c.get(last, ann, a)
		},
		"one that is out": func() (uint32, uint32) { return c.get(fileKey{key: k(1)}, ann, a) },
	} {
		if asked, _ := x(); asked != 0 {
			t.Errorf("%s has rights", what)
		}
	}
}

// TestKernelDeep: a directory whose path is longer than any path may be is in the export, also where only paths
// tell that.
func TestKernelDeep(t *testing.T) {
	f, err := New(t.TempDir(), &Config{Async: true})
	ok(t, err)
	t.Cleanup(func() { _ = f.Close() })
	if !f.Handled() {
		t.Skip(f.Authority())
	}
	n := f.Root()
	for i := range 60 {
		n, _, err = n.Create(fmt.Sprintf("%0200d", i), &backend.Init{Type: nfs3.TypeDir, Attr: nfs3.SetAttr{SetMode: true, Mode: 0o755}})
		ok(t, err)
	}
	g, err := n.(*file).hold()
	ok(t, err)
	defer g.done()
	for fd, want := range map[int]bool{g.fd: true, f.top.fd: true} {
		if in, err := f.climb(fd); err != nil || in != want {
			t.Errorf("%v, %v", in, err)
		}
	}
	outside, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	ok(t, err)
	defer unix.Close(outside)
	if in, err := f.climb(outside); in || err != nil {
		t.Errorf("outside: %v, %v", in, err)
	}
}

// What the tests with a kernel need of the inside: what the FS may do, and how to take it away.

func (f *FS) Handled() bool { return f.sys.handled }
func (f *FS) Private() bool { return f.sys.private }
func (f *FS) CloseGrips()   { f.grips.clear() }

// Publish has the root at fd, a path that others can see, as without the right to copy the mount.
func (f *FS) Publish(fd int) error {
	f.sys.private = false
	unix.Close(f.top.fd)
	f.top.fd = fd
	err := unix.Close(f.sys.mount)
	if err == nil {
		f.sys.mount, err = openat(fd, ".", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	f.sys.lacks = f.tryHandles(0)
	return err
}

// Unwatch is as if the kernel reported no changes.
func (f *FS) Unwatch() error {
	err := f.share.watch.close()
	f.share.watch = watcher{}
	return err
}

func (f *FS) Do(who *caller.Identity, fn func() error) error { return f.sw.Do(who, fn) }

// Foreign returns handles of the same files in another export.
func (f *FS) Foreign(secret []byte) func(h []byte) ([]byte, error) {
	other := newSealer(secret, "/another/export", nil)
	return func(h []byte) ([]byte, error) {
		k, err := f.seal.parse(h)
		return other.append(h[:0], &k), err
	}
}

// FID is not 0 if files are told apart by handles that cannot be opened.
func (f *FS) FID() int64 {
	if !f.sys.fids {
		return 0
	}
	return f.fid(f.top.fd, "", unix.AT_EMPTY_PATH)
}

// UUIDs asks the file system of a path in each way that it understands.
func UUIDs(t testing.TB, path string) (all [][16]byte) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		t.Fatal(err)
	}
	every := uuids
	defer func() { uuids = every }()
	for _, u := range every {
		uuids = append(every[:0:0], u)
		if id, ok := uuid(fd, int64(st.Type)); ok { //nolint:unconvert // another type on other machines
			all = append(all, id)
		}
	}
	if len(all) == 0 {
		t.Error("no UUID")
	}
	return all
}

func (f *FS) NoKernelFile() []byte { return f.seal.append(nil, &key{kind: 1, n: 8}) }
