package dir_test

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/backendtest"
	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"golang.org/x/sys/unix"
)

var (
	kernelOn  = flag.String("kernel.on", "tmpfs,ext4", "file systems for the tests named Kernel")
	manyFiles = flag.Int("files", 20000, "files of TestKernelMany")
)

var (
	ann = &caller.Identity{UID: 1000, GID: 1000}
	bob = &caller.Identity{UID: 1001, GID: 1001}
)

func serve(t testing.TB, path string) *dir.FS {
	t.Helper()
	f, err := dir.New(path, &dir.Config{Async: true, Key: secret})
	ok(t, err)
	return f
}

// onKernels runs a test on each file system that can be mounted here.
func onKernels(t *testing.T, fn func(t *testing.T, kind string, m *backendtest.Mounted)) {
	t.Helper()
	for kind := range strings.SplitSeq(*kernelOn, ",") {
		t.Run(kind, func(t *testing.T) { fn(t, kind, backendtest.Mount(t, kind, 400<<20)) })
	}
}

// TestKernelHandles: a handle outlives renames, the process and the mount; that of a file that is gone never is
// another file's, although that has its inode; each octet of it counts; it is of one export.
func TestKernelHandles(t *testing.T) {
	onKernels(t, func(t *testing.T, kind string, m *backendtest.Mounted) {
		ok(t, os.MkdirAll(m.At+"/export/d", 0o755))
		ok(t, os.MkdirAll(m.At+"/other", 0o755))
		f := serve(t, m.At+"/export")
		if !f.Handled() {
			t.Fatal(f.Authority())
		}
		d, _, err := f.Root().Lookup("d")
		ok(t, err)
		n := create(t, d, "f")
		_, err = n.Write([]byte("text"), 0, nfs3.FileSync)
		ok(t, err)
		h := n.AppendHandle(nil)
		t.Logf("%d octets", len(h))
		look := func(what string, want error) {
			t.Helper()
			c, err := f.Resolve(nil, h)
			if err == nil {
				_, err = c.As(ann).Attr()
			}
			if err != want {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		ok(t, os.Rename(m.At+"/export/d/f", m.At+"/export/g"))
		look("renamed", nil)
		ok(t, f.Close())
		f = serve(t, m.At+"/export")
		look("a new process", nil)
		for i := range h {
			bad := append([]byte(nil), h...)
			bad[i] ^= 1
			if _, err := f.Resolve(nil, bad); err == nil {
				t.Errorf("octet %d does not count", i)
			}
		}
		o := serve(t, m.At+"/other")
		if _, err := o.Resolve(nil, h); err != nfs3.ErrStale {
			t.Errorf("in another export: %v", err)
		}
		ok(t, o.Close())
		ok(t, f.Close())
		if kind != "tmpfs" {
			m.Remount()
			f = serve(t, m.At+"/export")
			look("a new mount", nil)
		} else {
			f = serve(t, m.At+"/export")
		}
		ok(t, f.Root().Remove("g", false))
		look("removed", nfs3.ErrStale)
		for i := range 200 { // one of them gets its inode
			create(t, f.Root(), fmt.Sprint("n", i))
			look("reused", nfs3.ErrStale)
			ok(t, os.Remove(fmt.Sprint(m.At, "/export/n", i)))
		}
		ok(t, f.Close())
	})
}

// TestKernelNoProc: without /proc nothing is served, since most of it would be stale.
func TestKernelNoProc(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("hides /proc: for root")
	}
	path, ended := t.TempDir(), make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its view
		if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
			ended <- err
			return
		}
		if err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("none", "/proc", "tmpfs", 0, "")); err != nil {
			ended <- err
			return
		}
		f, err := dir.New(path, &dir.Config{Async: true, Key: secret})
		if err == nil {
			_ = f.Close()
		}
		ended <- err
	}()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "mount -t proc proc /proc") {
		t.Errorf("%v", err)
	}
}

// TestKernelMovedOut: a directory that is moved out of the export is out, at any depth, and so is what could be
// reached through it.
func TestKernelMovedOut(t *testing.T) {
	for _, private := range []bool{true, false} {
		onKernels(t, func(t *testing.T, _ string, m *backendtest.Mounted) {
			ok(t, os.MkdirAll(m.At+"/export/a/b/c", 0o777))
			f := serve(t, m.At+"/export")
			defer f.Close()
			if !f.Private() {
				t.Skip("no private copy of the mount")
			}
			if !private {
				// Without the right to copy the mount the root has a path that others can see.
				fd, err := unix.Open(m.At+"/export", unix.O_PATH|unix.O_CLOEXEC, 0)
				ok(t, err)
				ok(t, f.Publish(fd))
			}
			n := f.Root()
			for _, name := range []string{"a", "b", "c"} {
				c, _, err := n.Lookup(name)
				ok(t, err)
				n = c
			}
			h := n.AppendHandle(nil)
			use := func() error {
				f.CloseGrips()
				c, err := f.Resolve(nil, h)
				if err != nil {
					return err
				}
				if _, _, err := c.As(ann).Lookup(".."); err != nil {
					return err
				}
				_, _, err = c.ReadDir(0, nfs3.CookieVerf{}, true, func(*nfs3.DirPlusEntry) bool { return true })
				return err
			}
			ok(t, use())
			ok(t, os.Rename(m.At+"/export/a/b", m.At+"/b"))
			want(t, use(), nfs3.ErrStale)
			if _, _, err := n.Create("x", in644); err != nfs3.ErrStale {
				t.Errorf("Create: %v", err)
			}
			ok(t, os.Rename(m.At+"/b", m.At+"/export/b"))
			ok(t, use())
			up, _, err := n.Lookup("..")
			ok(t, err)
			up, _, err = up.Lookup("..")
			ok(t, err)
			if string(up.AppendHandle(nil)) != string(f.Root().AppendHandle(nil)) {
				t.Error("\"..\" twice is not the root")
			}
			up, _, err = up.Lookup("..")
			ok(t, err)
			if string(up.AppendHandle(nil)) != string(f.Root().AppendHandle(nil)) {
				t.Error("\"..\" of the root is not the root")
			}
		})
	}
}

// TestKernelBetween: rights that are taken away between two calls are gone in the second one, although the file
// is open; those that are given are there.
func TestKernelBetween(t *testing.T) {
	onKernels(t, func(t *testing.T, _ string, m *backendtest.Mounted) {
		t.Run("reported", func(t *testing.T) { between(t, m, serve(t, m.At)) })
		t.Run("asked", func(t *testing.T) { between(t, m, serveUnwatched(t, m.At)) })
	})
}

// serveUnwatched is serve where the kernel reports no changes, as on other file systems.
func serveUnwatched(t *testing.T, path string) *dir.FS {
	f := serve(t, path)
	ok(t, f.Unwatch())
	return f
}

func between(t *testing.T, m *backendtest.Mounted, f *dir.FS) {
	defer f.Close()
	name := filepath.Join(m.At, "f")
	acl := func(perm byte) error { // of bob
		b := []byte{2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, perm, 0, 0xe9, 3, 0, 0, 4, 0, 6, 0, 255, 255, 255, 255, 16, 0, 6, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255}
		return unix.Setxattr(name, "system.posix_acl_access", b, 0)
	}
	for what, x := range map[string]struct{ give, take func() error }{
		"mode":  {func() error { return os.Chmod(name, 0o666) }, func() error { return os.Chmod(name, 0o600) }},
		"owner": {func() error { return os.Chown(name, 1001, 1001) }, func() error { return os.Chown(name, 0, 0) }},
		"ACL":   {func() error { return acl(6) }, func() error { return acl(0) }}, // leaves the mode as it is
	} {
		_ = os.Remove(name)
		ok(t, os.WriteFile(name, []byte("text"), 0o600))
		n, _, err := f.Root().As(bob).Lookup("f")
		ok(t, err)
		settled := 0
		for range 20 { // also within one tick of the clock
			ok(t, x.give())
			if _, err := n.Read(make([]byte, 4), 0); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			for range 3 { // the later ones are not asked for
				if _, err := n.Write([]byte("x"), 0, nfs3.Unstable); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
			ok(t, n.Open(true, 0, 1))
			if got, err := n.Access(nfs3.AccessAll); got&nfs3.AccessModify == 0 {
				t.Fatalf("%s: ACCESS %#x, %v", what, got, err)
			}
			if settled++; settled%5 == 0 {
				time.Sleep(25 * time.Millisecond) // the next answer is remembered
				_, _ = n.Access(nfs3.AccessAll)
			}
			ok(t, x.take())
			if got, err := n.Access(nfs3.AccessAll); got != 0 || err != nil {
				t.Fatalf("%s: ACCESS after it was taken: %#x, %v", what, got, err)
			}
			if _, err := n.Read(make([]byte, 4), 0); err != nfs3.ErrAcces {
				t.Fatalf("%s: READ after it was taken: %v", what, err)
			}
			if _, err := n.Write([]byte("x"), 0, nfs3.Unstable); err != nfs3.ErrAcces {
				t.Fatalf("%s: WRITE after it was taken: %v", what, err)
			}
			if n.Open(false, 0, 1) != nfs3.ErrAcces || n.Open(true, 0, 1) != nfs3.ErrAcces {
				t.Fatalf("%s: Open after it was taken", what)
			}
		}
	}
}

// TestKernelFlags: a file that becomes immutable cannot be written any more, although it is open and its mode
// allows it.
func TestKernelFlags(t *testing.T) {
	onKernels(t, func(t *testing.T, _ string, m *backendtest.Mounted) {
		f := serve(t, m.At)
		defer f.Close()
		name := filepath.Join(m.At, "f")
		ok(t, os.WriteFile(name, nil, 0o600))
		ok(t, os.Chown(name, 1001, 1001))
		file, err := os.Open(name)
		ok(t, err)
		defer file.Close()
		set := func(flags int) error { return unix.IoctlSetPointerInt(int(file.Fd()), unix.FS_IOC_SETFLAGS, flags) }
		if err := set(unix.STATX_ATTR_IMMUTABLE); err != nil { // FS_IMMUTABLE_FL has the same value
			t.Skip("no flags here:", err)
		}
		ok(t, set(0))
		n, _, err := f.Root().As(bob).Lookup("f")
		ok(t, err)
		for range 5 {
			for range 3 {
				_, err = n.Write([]byte("x"), 0, nfs3.Unstable)
				ok(t, err)
			}
			ok(t, set(unix.STATX_ATTR_IMMUTABLE))
			_, err = n.Write([]byte("x"), 0, nfs3.Unstable)
			want(t, err, nfs3.ErrPerm)
			ok(t, set(0))
		}
	})
}

// TestKernelSetID: each WRITE clears the set-id bits as one of a local process does, which may depend on its groups.
func TestKernelSetID(t *testing.T) {
	onKernels(t, func(t *testing.T, _ string, m *backendtest.Mounted) {
		f := serve(t, m.At)
		defer f.Close()
		name, local := filepath.Join(m.At, "f"), filepath.Join(m.At, "local")
		for _, p := range []string{name, local} {
			ok(t, os.WriteFile(p, nil, 0o666))
			ok(t, os.Chown(p, 1000, 77))
		}
		n, _, err := f.Root().Lookup("f")
		ok(t, err)
		for _, who := range []*caller.Identity{ann, bob, {UID: 1001, GID: 1001, Groups: []uint32{77}}, {UID: 1001, GID: 77}, {}} {
			n := n.As(who)
			for _, mode := range []uint32{0o666, 0o6777, 0o666, 0o2666, 0o4666, 0o2777} {
				ok(t, unix.Chmod(name, mode))
				ok(t, unix.Chmod(local, mode))
				for range 2 {
					_, err = n.Write([]byte("x"), 0, nfs3.Unstable)
					ok(t, err)
				}
				file, err := os.OpenFile(local, os.O_WRONLY, 0)
				ok(t, err)
				ok(t, f.Do(who, func() error { _, err := file.WriteAt([]byte("x"), 0); return err }))
				ok(t, file.Close())
				var here, there unix.Stat_t
				ok(t, unix.Stat(name, &here))
				ok(t, unix.Stat(local, &there))
				if here.Mode != there.Mode {
					t.Errorf("%+v, mode %o: %o after a WRITE, locally %o", who, mode, here.Mode, there.Mode)
				}
			}
		}
	})
}

// TestKernelStorm: changes by the ten thousand, more than the kernel keeps, keep nobody waiting, and the last one counts.
func TestKernelStorm(t *testing.T) {
	onKernels(t, func(t *testing.T, _ string, m *backendtest.Mounted) {
		f := serve(t, m.At)
		defer f.Close()
		var nodes []backend.Node
		for i := range 20 {
			name := filepath.Join(m.At, fmt.Sprint(i))
			ok(t, os.WriteFile(name, nil, 0o666))
			n, _, err := f.Root().As(bob).Lookup(fmt.Sprint(i))
			ok(t, err)
			_, err = n.Write([]byte("x"), 0, nfs3.Unstable)
			ok(t, err)
			nodes = append(nodes, n)
		}
		for i := range 20000 { // in turn, since the kernel joins equal events that follow each other
			ok(t, os.Chmod(filepath.Join(m.At, fmt.Sprint(i%20)), 0o600+os.FileMode(i/20%2)<<1))
		}
		for i, n := range nodes {
			ok(t, os.Chmod(filepath.Join(m.At, fmt.Sprint(i)), 0o600))
			_, err := n.Write([]byte("x"), 0, nfs3.Unstable)
			want(t, err, nfs3.ErrAcces)
		}
	})
}

// TestKernelSearch: the right to search a directory is remembered, for this caller, until it is taken.
func TestKernelSearch(t *testing.T) {
	onKernels(t, func(t *testing.T, _ string, m *backendtest.Mounted) {
		f := serve(t, m.At)
		defer f.Close()
		ok(t, os.Mkdir(m.At+"/d", 0o700))
		ok(t, os.WriteFile(m.At+"/d/f", nil, 0o600))
		ok(t, os.Chown(m.At+"/d", 1000, 1000))
		n, _, err := f.Root().Lookup("d")
		ok(t, err)
		look := func(who *caller.Identity) error {
			_, _, err := n.As(who).Lookup("f")
			return err
		}
		for range 3 {
			for _, wait := range []time.Duration{0, 25 * time.Millisecond} {
				time.Sleep(wait)
				for range 3 {
					ok(t, look(ann))
					want(t, look(bob), nfs3.ErrAcces)
				}
				ok(t, os.Chmod(m.At+"/d", 0o600))
				want(t, look(ann), nfs3.ErrAcces)
				ok(t, os.Chmod(m.At+"/d", 0o700))
			}
		}
		_, _, err = n.As(ann).Lookup("none")
		want(t, err, nfs3.ErrNoEnt)
	})
}

// TestKernelOpenFor: a file that is open for one caller is not open for another, nor for one with other groups.
func TestKernelOpenFor(t *testing.T) {
	onKernels(t, func(t *testing.T, _ string, m *backendtest.Mounted) {
		f := serve(t, m.At)
		defer f.Close()
		ok(t, os.WriteFile(m.At+"/f", []byte("text"), 0o640))
		ok(t, os.Chown(m.At+"/f", 1000, 77))
		n, _, err := f.Root().Lookup("f")
		ok(t, err)
		for _, c := range []struct {
			who *caller.Identity
			err error
		}{
			{ann, nil},
			{bob, nfs3.ErrAcces},
			{&caller.Identity{UID: 1001, GID: 1001, Groups: []uint32{5, 77}}, nil},
			{&caller.Identity{UID: 1001, GID: 1001, Groups: []uint32{77, 5}}, nil},
			{&caller.Identity{UID: 1001, GID: 1001, Groups: []uint32{5}}, nfs3.ErrAcces},
			{&caller.Identity{UID: 1001, GID: 77}, nil},
			{bob, nfs3.ErrAcces},
			{nil, nil},
		} {
			if _, err := n.As(c.who).Read(make([]byte, 4), 0); err != c.err {
				t.Errorf("%+v: %v", c.who, err)
			}
		}
		ok(t, n.Open(true, 0, 1)) // by root
		_, err = n.As(bob).Write([]byte("x"), 0, nfs3.Unstable)
		want(t, err, nfs3.ErrAcces)
	})
}

// TestKernelReserved: blocks that are reserved for root are not for users; root goes on.
func TestKernelReserved(t *testing.T) {
	m := backendtest.Mount(t, "ext4", 64<<20, "-m", "50")
	f := serve(t, m.At)
	defer f.Close()
	ok(t, os.Chmod(m.At, 0o777))
	fill := func(who *caller.Identity, name string) (octets uint64, err error) {
		n, _, err := f.Root().As(who).Create(name, in644)
		ok(t, err)
		block := make([]byte, 1<<20)
		for ; ; octets += 1 << 20 {
			if _, err := n.Write(block, octets, nfs3.FileSync); err != nil {
				return octets, err
			}
		}
	}
	users, err := fill(ann, "ann")
	want(t, err, nfs3.ErrNoSpc)
	roots, err := fill(&caller.Identity{}, "root")
	want(t, err, nfs3.ErrNoSpc)
	t.Logf("a user gets %d MiB, root %d MiB more", users>>20, roots>>20)
	if users > 40<<20 || roots < 10<<20 {
		t.Error("the reserve is not root's")
	}
}

// TestKernelQuota: a user stops at his quota, also where a WRITE goes without his uid, and root goes on.
func TestKernelQuota(t *testing.T) {
	for kind, options := range map[string]string{"tmpfs": "usrquota,usrquota_block_hardlimit=8M", "xfs": "uquota"} {
		t.Run(kind, func(t *testing.T) {
			m := backendtest.Mount(t, kind, 400<<20)
			m.Remount(options)
			if kind == "xfs" {
				if out, err := exec.Command("xfs_quota", "-x", "-c", "limit -u bhard=8m 1000", m.At).CombinedOutput(); err != nil {
					t.Skipf("xfs_quota: %v %s", err, out)
				}
			}
			f := serve(t, m.At)
			defer f.Close()
			ok(t, os.Chmod(m.At, 0o777))
			n, _, err := f.Root().As(ann).Create("f", in644)
			ok(t, err)
			block := make([]byte, 1<<20)
			had := uint64(0)
			for ; had < 20<<20; had += 1 << 20 {
				if _, err = n.Write(block, had, nfs3.FileSync); err != nil {
					break
				}
			}
			want(t, err, nfs3.ErrDQuot)
			if had > 8<<20 {
				t.Errorf("%d octets within a quota of 8 MiB", had)
			}
			r := f.Root().As(&caller.Identity{})
			n, _, err = r.Create("root's", in644)
			ok(t, err)
			for off := range uint64(12) {
				_, err := n.Write(block, off<<20, nfs3.FileSync)
				if kind == "xfs" { // which has no quota for root; that of tmpfs is for all
					ok(t, err)
				}
			}
		})
	}
}

// TestKernelLongest: the longest file is that of the file system.
func TestKernelLongest(t *testing.T) {
	for kind, want := range map[string]uint64{"tmpfs": 1<<63 - 1, "ext4": 1<<44 - 4096, "xfs": 1<<63 - 1, "btrfs": 1<<63 - 1} {
		if !strings.Contains(*kernelOn, kind) {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			var mkfs []string
			if kind == "ext4" {
				mkfs = []string{"-b", "4096"}
			}
			f := serve(t, backendtest.Mount(t, kind, 400<<20, mkfs...).At)
			defer f.Close()
			if got := f.Info().MaxFileSize; got != want {
				t.Errorf("%d, want %d", got, want)
			}
			n := create(t, f.Root(), "f")
			if err := n.SetAttr(&nfs3.SetAttr{SetSize: true, Size: want + 1}); err != nfs3.ErrFBig {
				t.Errorf("one more: %v", err)
			}
		})
	}
}

// TestKernelMany: in a new process, files are found by handles that an earlier one gave as fast as by its own;
// wrong handles cost next to nothing.
func TestKernelMany(t *testing.T) {
	m := backendtest.Mount(t, "ext4", max(400<<20, int64(*manyFiles)*2048), "-N", fmt.Sprint(*manyFiles+2000))
	f := serve(t, m.At)
	handles := make([][]byte, 0, *manyFiles)
	var d backend.Node
	for i := range *manyFiles {
		if i%1000 == 0 {
			d = mkdir(t, f.Root(), fmt.Sprint("d", i/1000))
		}
		n, _, err := d.Create(fmt.Sprint("f", i), &backend.Init{Type: nfs3.TypeFIFO, Attr: in644.Attr})
		ok(t, err)
		handles = append(handles, n.AppendHandle(nil))
	}
	ok(t, f.Close())
	m.Remount()
	f = serve(t, m.At)
	defer f.Close()
	rate := func(what string, spoil func(rnd *rand.Rand, h []byte) []byte) float64 {
		rnd := rand.New(rand.NewPCG(1, 2))
		const n = 20000
		start := time.Now()
		for range n {
			h := handles[rnd.IntN(len(handles))]
			if spoil != nil {
				h = spoil(rnd, append([]byte(nil), h...))
			}
			c, err := f.Resolve(nil, h)
			if (spoil != nil) != (err != nil) {
				t.Fatalf("%s: %v", what, err)
			}
			if err == nil {
				if _, err = c.Attr(); err != nil {
					t.Fatal(err)
				}
			}
		}
		r := n / time.Since(start).Seconds()
		t.Logf("%s: %.0f a second", what, r)
		return r
	}
	rate("after a restart", nil)
	again := rate("again", nil)
	foreign := f.Foreign(secret)
	for what, spoil := range map[string]func(rnd *rand.Rand, h []byte) []byte{
		"forged": func(rnd *rand.Rand, h []byte) []byte {
			h[rnd.IntN(len(h)-10)+10] ^= byte(1 + rnd.IntN(255))
			return h
		},
		"cut": func(rnd *rand.Rand, h []byte) []byte { return h[:rnd.IntN(len(h))] },
		"foreign": func(_ *rand.Rand, h []byte) []byte {
			h, err := foreign(h)
			ok(t, err)
			return h
		},
	} {
		if rate(what, spoil) < again/10 {
			t.Errorf("a %s handle costs more than ten honest ones", what)
		}
	}
	if _, err := f.Resolve(nil, f.NoKernelFile()); !errors.Is(err, nfs3.ErrStale) {
		t.Errorf("a file that never was: %v", err)
	}
}

// TestDevices: made by root, refused to others.
func TestDevices(t *testing.T) {
	f, _ := open(t, nil)
	for _, typ := range []nfs3.FileType{nfs3.TypeChr, nfs3.TypeBlk} {
		n, a, err := f.Root().Create(typ.String(), &backend.Init{Type: typ, Rdev: nfs3.Device{Major: 1, Minor: 300}, Attr: in644.Attr})
		if err == nfs3.ErrPerm { // also root may lack the right, in a container
			continue
		}
		ok(t, err)
		if a.Type != typ || a.Rdev != (nfs3.Device{Major: 1, Minor: 300}) || a.Mode != 0o644 {
			t.Errorf("%+v", a)
		}
		_, err = n.Read(make([]byte, 1), 0)
		want(t, err, nfs3.ErrInval)
	}
	_, _, err := f.Root().Create("x", &backend.Init{Type: 8, Attr: in644.Attr})
	want(t, err, nfs3.ErrBadType)
}

// TestFewDescriptors: with less of them than the caches of two exports would take, every file can be read, and by
// default enough are left for connections (ADVERSARY 13).
func TestFewDescriptors(t *testing.T) {
	const files, spare = 300, 60
	root := t.TempDir()
	for i := range files {
		ok(t, os.WriteFile(filepath.Join(root, fmt.Sprint(i)), []byte("x"), 0o644))
	}
	var was unix.Rlimit
	ok(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	open, err := os.ReadDir("/proc/self/fd")
	ok(t, err)
	few := was
	few.Cur = uint64(len(open) + 2*spare)
	ok(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &was) //nolint:errcheck // it was so before
	read := func(cfg *dir.Config) *dir.FS {
		f, err := dir.New(root, cfg)
		ok(t, err)
		t.Cleanup(func() { f.Close() })
		for i := range files {
			n, _, err := f.Root().Lookup(fmt.Sprint(i))
			ok(t, err)
			_, err = n.Read(make([]byte, 8), 0)
			ok(t, err)
		}
		return f
	}
	first := read(&dir.Config{MaxFiles: 1000, MaxHeld: 1000})
	read(&dir.Config{MaxFiles: 1000, MaxHeld: 1000}).Close()
	first.Close()
	f := read(nil)
	defer f.Close()
	var spared []*os.File
	for range spare {
		s, err := os.Open("/dev/null")
		if err != nil {
			t.Fatalf("the caches leave %d descriptors: %v", len(spared), err)
		}
		spared = append(spared, s)
	}
	for _, s := range spared {
		s.Close()
	}
}

// fallbackEnv makes the test binary a server of this directory, which says what it can do.
const fallbackEnv = "DIR_TEST_FALLBACK"

func init() {
	if path := os.Getenv(fallbackEnv); path != "" {
		unix.Umask(0)
		if err := tell(path); err != nil {
			fmt.Println(err)
		}
		os.Exit(0)
	}
}

// tell says who decides, whose a file is that bob makes, whether bob reads another's file, and whether a handle
// outlives the FS.
func tell(path string) error {
	var h []byte
	for life := range 2 {
		f, err := dir.New(path, &dir.Config{Async: true, Key: secret})
		if err != nil {
			return err
		}
		defer f.Close()
		if life == 1 {
			_, err = f.Resolve(nil, h)
			fmt.Println("handle", err)
			return err
		}
		fmt.Println(f.Authority())
		n, a, err := f.Root().As(bob).Create("f", in644)
		if err != nil {
			return err
		}
		h = n.AppendHandle(nil)
		fmt.Println("owner", a.UID)
		other, _, err := f.Root().As(bob).Lookup("other")
		if err != nil {
			return err
		}
		_, err = other.Read(make([]byte, 1), 0)
		fmt.Println("read", err)
		if _, err := n.Write([]byte("x"), 0, nfs3.Unstable); err != nil {
			return err
		}
	}
	return nil
}

// TestFallback: what a process does that lacks some of root's capabilities, and where the file system has no handles.
func TestFallback(t *testing.T) {
	const (
		caller   = "the kernel decides as for the caller"
		own      = "every caller is uid %d, the user of this process"
		kernel   = "handles are those of the file system\n"
		byPaths  = "handles are those of the file system, confined by paths (no CAP_SYS_ADMIN)\n"
		searched = "handles are found again by a search"
		ann      = "--reuid=1000 --regid=1000 --clear-groups"
	)
	for name, c := range map[string]struct {
		setpriv      string
		overlay      bool
		who, handles string
		owner        int
		read         error
	}{
		"root":                   {"", false, caller, kernel, 1001, nfs3.ErrAcces},
		"no CAP_DAC_READ_SEARCH": {"--bounding-set=-dac_read_search", false, caller, searched + " (no CAP_DAC_READ_SEARCH)", 1001, nfs3.ErrAcces},
		"no CAP_SYS_ADMIN":       {"--bounding-set=-sys_admin", false, caller, byPaths, 1001, nfs3.ErrAcces},
		"no CAP_SETUID":          {"--bounding-set=-setuid", false, fmt.Sprintf(own, 0), kernel, 0, nil},
		"no CAP_SYS_RESOURCE":    {"--bounding-set=-sys_resource", false, caller, kernel, 1001, nfs3.ErrAcces},
		"a user":                 {ann, false, fmt.Sprintf(own, 1000), searched, 1000, nfs3.ErrAcces},
		"a user with three capabilities": {
			ann + " --inh-caps=+setuid,+setgid,+dac_read_search --ambient-caps=+setuid,+setgid,+dac_read_search", false,
			caller, byPaths, 1001, nfs3.ErrAcces,
		},
		"overlayfs": {"", true, caller, searched + " (the file system has none", 1001, nfs3.ErrAcces},
	} {
		t.Run(name, func(t *testing.T) {
			m := backendtest.Mount(t, "tmpfs", 0)
			at := filepath.Join(m.At, "export")
			ok(t, os.Mkdir(at, 0o777))
			ok(t, os.Chmod(at, 0o777))
			if c.overlay {
				var opts []string
				for _, d := range []string{"lowerdir", "upperdir", "workdir"} {
					p := filepath.Join(m.At, d)
					ok(t, os.Mkdir(p, 0o777))
					ok(t, os.Chmod(p, 0o777))
					opts = append(opts, d+"="+p)
				}
				if err := unix.Mount("overlay", at, "overlay", 0, strings.Join(opts, ",")); err != nil {
					t.Skip("no overlayfs here: ", err)
				}
				defer unix.Unmount(at, unix.MNT_DETACH) //nolint:errcheck // what is below it goes with the test
			}
			ok(t, os.WriteFile(at+"/other", []byte("x"), 0o600))
			ok(t, os.Chown(at+"/other", 1002, 1002))
			exe := filepath.Join(m.At, "dir.test") // where users can reach it
			copyFile(t, "/proc/self/exe", exe)
			cmd := exec.Command("setpriv", append(strings.Fields(c.setpriv), exe)...)
			cmd.Env = append(os.Environ(), fallbackEnv+"="+at)
			b, err := cmd.CombinedOutput()
			if errors.Is(err, exec.ErrNotFound) {
				t.Skip("no setpriv (util-linux)")
			}
			got := string(b)
			rest := fmt.Sprintf("owner %d\nread %v\nhandle <nil>\n", c.owner, c.read)
			if err != nil || !strings.HasPrefix(got, c.who) || !strings.Contains(got, "; "+c.handles) || !strings.HasSuffix(got, rest) {
				t.Errorf("%v: %s\nwant %s; %s\n%s", err, got, c.who, c.handles, rest)
			}
		})
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	ok(t, err)
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	ok(t, err)
	_, err = io.Copy(out, in)
	ok(t, errors.Join(err, out.Close()))
}
