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
