package dir_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

func needLinux(t *testing.T) {
	if !linux {
		t.Skip("files have no identity of their own here")
	}
}

// TestLocalChanges: handles follow what local processes do.
func TestLocalChanges(t *testing.T) {
	needLinux(t)
	f, path := open(t, &dir.Config{Async: true, MaxHeld: 1, MaxFiles: 1})
	d := mkdir(t, f.Root(), "d")
	sub := mkdir(t, d, "sub")
	file := create(t, sub, "f")
	create(t, f.Root(), "other")
	mkdir(t, f.Root(), "elsewhere")
	ok(t, os.Rename(filepath.Join(path, "d"), filepath.Join(path, "elsewhere", "moved")))
	ok(t, os.Rename(filepath.Join(path, "elsewhere/moved/sub/f"), filepath.Join(path, "g")))
	for _, n := range []backend.Node{file, sub, d} {
		if _, err := resolve(t, f, n).Attr(); err != nil {
			t.Fatal(err)
		}
	}
	p, _, err := resolve(t, f, d).Lookup("..")
	ok(t, err)
	e, _, err := f.Root().Lookup("elsewhere")
	ok(t, err)
	if string(p.AppendHandle(nil)) != string(e.AppendHandle(nil)) {
		t.Error("\"..\" is where the directory was")
	}
	ok(t, os.Remove(filepath.Join(path, "g")))
	_, err = file.Attr()
	want(t, err, nfs3.ErrStale)
}

// TestReusedName: another file under the old name is not the old file.
func TestReusedName(t *testing.T) {
	needLinux(t)
	f, path := open(t, &dir.Config{Async: true, MaxFiles: 1})
	file := create(t, f.Root(), "f")
	create(t, f.Root(), "g") // f is no longer open
	ok(t, os.Rename(filepath.Join(path, "g"), filepath.Join(path, "f")))
	_, err := file.Write([]byte("x"), 0, nfs3.Unstable)
	want(t, err, nfs3.ErrStale)
	if st, err := os.Stat(filepath.Join(path, "f")); err != nil || st.Size() != 0 {
		t.Errorf("%v, %v", st, err)
	}
}

// TestOtherName: a file stays reachable when the name it was known by goes.
func TestOtherName(t *testing.T) {
	needLinux(t)
	f, path := open(t, &dir.Config{Async: true, MaxFiles: 1})
	file := create(t, f.Root(), "f")
	d := mkdir(t, f.Root(), "d")
	ok(t, os.Link(filepath.Join(path, "f"), filepath.Join(path, "d/unknown")))
	ok(t, f.Root().Remove("f", false))
	create(t, f.Root(), "g")
	if a, err := resolve(t, f, file).Attr(); err != nil || a.Nlink != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	ok(t, d.Remove("unknown", false))
	_, err := file.Attr()
	want(t, err, nfs3.ErrStale)
}

func client(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1000} }

// TestSearch: one walk finds many files; missing ones cost no more than a walk.
func TestSearch(t *testing.T) {
	needLinux(t)
	f, _ := open(t, dir.Config{Async: true}.Searching())
	var handles [][]byte
	d := f.Root()
	for range 20 {
		d = mkdir(t, d, "sub")
		handles = append(handles, create(t, d, "f").AppendHandle(nil), d.AppendHandle(nil))
	}
	f.Forget()
	for _, h := range handles {
		n, err := f.Resolve(nil, h)
		ok(t, err)
		_, err = n.Attr()
		ok(t, err)
	}
	f.Forget()
	none := f.NoFile(0)
	bad, good := client("192.0.2.1"), client("192.0.2.2")
	_, err := f.Resolve(bad, none)
	want(t, err, nfs3.ErrStale)
	// Now this client rests, but what was looked for is remembered.
	f.Rest(bad, time.Now().Add(time.Hour))
	_, err = f.Resolve(bad, none)
	want(t, err, nfs3.ErrStale)
	f.Forget()
	_, err = f.Resolve(bad, handles[3])
	want(t, err, nfs3.ErrJukebox)
	_, err = f.Resolve(good, handles[3])
	ok(t, err)
}

// TestSearchShared: a client with handles of files that are gone, as many at once as it likes, gets walks of its own
// only after rests, and another one finds its files all the while, without a single retry.
func TestSearchShared(t *testing.T) {
	needLinux(t)
	f, _ := open(t, dir.Config{Async: true}.Searching())
	d := f.Root()
	var handles [][]byte
	for range 30 {
		d = mkdir(t, d, "sub")
		for i := range 30 {
			handles = append(handles, create(t, d, fmt.Sprint("f", i)).AppendHandle(nil))
		}
	}
	bad, good := client("2001:db8::1"), client("192.0.2.2")
	stop := make(chan struct{})
	var (
		wg          sync.WaitGroup
		made, tried atomic.Uint64
	)
	for range 8 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				_, err := f.Resolve(bad, f.NoFile(made.Add(1)))
				if !errors.Is(err, nfs3.ErrStale) && !errors.Is(err, nfs3.ErrJukebox) {
					t.Errorf("a file that never was: %v", err)
					return
				}
				if errors.Is(err, nfs3.ErrStale) {
					tried.Add(1)
				}
			}
		})
	}
	for i := range 200 {
		f.Forget()
		if _, err := f.Resolve(good, handles[i*31%len(handles)]); err != nil {
			t.Errorf("round %d: %v", i, err)
		}
	}
	close(stop)
	wg.Wait()
	t.Logf("%d dead handles were sent, %d looked for", made.Load(), tried.Load())
	if made.Load() < 2*tried.Load() {
		t.Error("the other client never rested")
	}
}

func TestSearchLimit(t *testing.T) {
	needLinux(t)
	for limit, want := range map[int]error{-1: nfs3.ErrStale, 3: nfs3.ErrStale, 1000: nil} {
		f, _ := open(t, dir.Config{Async: true, SearchLimit: limit}.Searching())
		d := mkdir(t, f.Root(), "a")
		h := create(t, mkdir(t, d, "b"), "f").AppendHandle(nil)
		f.Forget()
		if _, err := f.Resolve(nil, h); err != want {
			t.Errorf("limit %d: %v, want %v", limit, err, want)
		}
	}
}

func FuzzResolve(f *testing.F) {
	fsys, _ := open(f, &dir.Config{Async: true, SearchLimit: 50})
	file := create(f, fsys.Root(), "f")
	f.Add(file.AppendHandle(nil))
	f.Add(fsys.Root().AppendHandle(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, h []byte) {
		n, err := fsys.Resolve(nil, h)
		if err == nil && string(n.AppendHandle(nil)) != string(h) {
			t.Errorf("handle %x became %x", h, n.AppendHandle(nil))
		}
	})
}

// TestConfined: a directory that a local process replaces by a link to the outside leads
// nowhere, cached or not.
func TestConfined(t *testing.T) {
	needLinux(t)
	for _, cached := range []bool{false, true} {
		outside := t.TempDir()
		ok(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600))
		f, path := open(t, &dir.Config{Async: true, SearchLimit: -1})
		d := mkdir(t, f.Root(), "d")
		file := create(t, d, "secret")
		if !cached {
			f.CloseAll()
		}
		ok(t, os.RemoveAll(filepath.Join(path, "d")))
		ok(t, os.Symlink(outside, filepath.Join(path, "d")))

		_, _, err := d.Lookup("secret")
		if err != error(nfs3.ErrStale) && err != error(nfs3.ErrNoEnt) {
			t.Errorf("Lookup: %v", err)
		}
		if _, err := file.Attr(); err != error(nfs3.ErrStale) {
			t.Errorf("Attr: %v", err)
		}
		if _, err := file.Write([]byte("pwned"), 0, nfs3.Unstable); err == nil && !cached {
			t.Error("Write: no error")
		}
		if _, _, err := d.Create("new", in644); err == nil {
			t.Error("Create: no error")
		}
		l, _, err := f.Root().Lookup("d")
		ok(t, err)
		if _, _, err := l.Lookup("secret"); err != error(nfs3.ErrNotDir) {
			t.Errorf("Lookup in the link: %v", err)
		}
		if got, err := os.ReadFile(filepath.Join(outside, "secret")); err != nil || string(got) != "secret" {
			t.Errorf("%q, %v", got, err)
		}
		if list, _ := os.ReadDir(outside); len(list) != 1 {
			t.Errorf("%d files outside", len(list))
		}
	}
}

// TestFileBecomesLink: a link put in a file's place is not followed by writes and chmod.
func TestFileBecomesLink(t *testing.T) {
	needLinux(t)
	f, path := open(t, &dir.Config{Async: true, SearchLimit: -1})
	target := filepath.Join(t.TempDir(), "target")
	ok(t, os.WriteFile(target, []byte("keep"), 0o600))
	file := create(t, f.Root(), "f")
	f.CloseFiles()
	ok(t, os.Remove(filepath.Join(path, "f")))
	ok(t, os.Symlink(target, filepath.Join(path, "f")))
	_, err := file.Write([]byte("x"), 0, nfs3.Unstable)
	want(t, err, nfs3.ErrStale)
	want(t, file.SetAttr(&nfs3.SetAttr{SetMode: true, Mode: 0o777}), nfs3.ErrStale)
	if got, _ := os.ReadFile(target); string(got) != "keep" {
		t.Errorf("%q", got)
	}
}

// TestRootParent: the inode above the export shows nowhere.
func TestRootParent(t *testing.T) {
	needLinux(t)
	f, _ := open(t, nil)
	root, err := f.Root().Attr()
	ok(t, err)
	inode := root.FileID
	for _, plus := range []bool{false, true} {
		_, _, err := f.Root().ReadDir(0, nfs3.CookieVerf{}, plus, func(e *nfs3.DirPlusEntry) bool {
			if e.Name == ".." && e.FileID != inode {
				t.Errorf("\"..\" is %d, the root %d", e.FileID, inode)
			}
			return true
		})
		ok(t, err)
	}
	_, _, err = f.Root().ReadDir(1<<63, dir.CookieVerf, false, func(*nfs3.DirPlusEntry) bool { return true })
	want(t, err, nfs3.ErrBadCookie)
}

// TestClosedMode: a file that nobody may open can be written through the descriptor its
// creation left.
func TestClosedMode(t *testing.T) {
	f, _ := open(t, &dir.Config{Async: true})
	closed := *in644
	closed.Attr.Mode = 0
	n, _, err := f.Root().Create("f", &closed)
	ok(t, err)
	_, err = n.Write([]byte("x"), 0, nfs3.FileSync)
	ok(t, err)
}

func TestNewErrors(t *testing.T) {
	if _, err := dir.New(filepath.Join(t.TempDir(), "none"), nil); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	ok(t, os.WriteFile(file, nil, 0o600))
	if _, err := dir.New(file, nil); err == nil {
		t.Error("served a file")
	}
}

// TestCheck: what is served is what stands at the path, and no longer when something else does.
func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		change func(path string) error
		stands bool
	}{
		"nothing":   {func(string) error { return nil }, true},
		"a file":    {func(p string) error { return os.WriteFile(p+"/f", nil, 0o600) }, true},
		"moved":     {func(p string) error { return os.Rename(p, p+".old") }, false},
		"removed":   {os.Remove, false},
		"made anew": {func(p string) error { _ = os.Rename(p, p+".old"); return os.Mkdir(p, 0o700) }, false},
		"a link": {func(p string) error {
			_ = os.Rename(p, p+".old")
			return os.Symlink(p+".old", p)
		}, true},
		"another link": {func(p string) error { _ = os.Rename(p, p+".old"); return os.Symlink(filepath.Dir(p), p) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "export")
			ok(t, os.Mkdir(path, 0o700))
			f, err := dir.New(path, nil)
			ok(t, err)
			ok(t, f.Check())
			ok(t, c.change(path))
			if err := f.Check(); (err == nil) != c.stands {
				t.Error(err)
			}
			ok(t, f.Close())
			if f.Check() == nil {
				t.Error("it is closed")
			}
		})
	}
}

// TestFSID: handles are of one file system, which the administrator may name.
func TestFSID(t *testing.T) {
	path := t.TempDir()
	at := func(fsid string) *dir.FS {
		f, err := dir.New(path, &dir.Config{Key: secret, FSID: fsid})
		ok(t, err)
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	h := at("a").Root().AppendHandle(nil)
	_, err := at("a").Resolve(nil, h)
	ok(t, err)
	for _, other := range []string{"b", ""} {
		_, err := at(other).Resolve(nil, h)
		want(t, err, nfs3.ErrStale)
	}
}
