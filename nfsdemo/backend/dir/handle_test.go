package dir

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
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
	f, path := open(t, &Config{Async: true, MaxDirs: 1, MaxFiles: 1})
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
	f, path := open(t, &Config{Async: true, MaxFiles: 1})
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
	f, path := open(t, &Config{Async: true, MaxFiles: 1})
	file := create(t, f.Root(), "f")
	d := mkdir(t, f.Root(), "d")
	ok(t, os.Link(filepath.Join(path, "f"), filepath.Join(path, "d/unknown")))
	ok(t, f.Root().Remove("f"))
	create(t, f.Root(), "g")
	if a, err := resolve(t, f, file).Attr(); err != nil || a.Nlink != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	ok(t, d.Remove("unknown"))
	_, err := file.Attr()
	want(t, err, nfs3.ErrStale)
}

// forget makes a table as after a restart.
func forget(f *FS) {
	f.dirs.clear()
	f.files.clear()
	f.tab.mu.Lock()
	defer f.tab.mu.Unlock()
	f.tab.m = map[key]*node{f.root.key: f.root}
	f.tab.order.Init()
	f.root.kids = 0
}

// TestSearch: one walk finds many files; missing ones cost no more than a walk.
func TestSearch(t *testing.T) {
	needLinux(t)
	f, _ := open(t, &Config{Async: true})
	var handles [][]byte
	d := f.Root()
	for range 20 {
		d = mkdir(t, d, "sub")
		handles = append(handles, create(t, d, "f").AppendHandle(nil), d.AppendHandle(nil))
	}
	forget(f)
	for _, h := range handles {
		n, err := f.Resolve(h)
		ok(t, err)
		_, err = n.Attr()
		ok(t, err)
	}
	forget(f)
	none := key{ino: 1 << 60, birth: 7}.appendHandle(nil)
	_, err := f.Resolve(none)
	want(t, err, nfs3.ErrStale)
	// Now there is a rest, but what was looked for is remembered.
	f.lost.mu.Lock()
	f.lost.restEnd = time.Now().Add(time.Hour)
	f.lost.mu.Unlock()
	_, err = f.Resolve(none)
	want(t, err, nfs3.ErrStale)
	forget(f)
	_, err = f.Resolve(handles[3])
	want(t, err, nfs3.ErrJukebox)
	f.lost.mu.Lock()
	f.lost.restEnd = time.Time{}
	f.lost.mu.Unlock()
	_, err = f.Resolve(handles[3])
	ok(t, err)
}

func TestSearchLimit(t *testing.T) {
	needLinux(t)
	for limit, want := range map[int]error{-1: nfs3.ErrStale, 3: nfs3.ErrStale, 1000: nil} {
		f, _ := open(t, &Config{Async: true, SearchLimit: limit})
		d := mkdir(t, f.Root(), "a")
		h := create(t, mkdir(t, d, "b"), "f").AppendHandle(nil)
		forget(f)
		if _, err := f.Resolve(h); err != want {
			t.Errorf("limit %d: %v, want %v", limit, err, want)
		}
	}
}

func TestSearchBounds(t *testing.T) {
	var s searcher
	for i := range maxBuried + 100 {
		s.bury(key{ino: uint64(i)})
	}
	if len(s.buried) != maxBuried {
		t.Errorf("%d buried", len(s.buried))
	}
	for i := range maxPending {
		if !s.want(key{ino: uint64(i)}) {
			t.Fatal("refused early")
		}
	}
	if s.want(key{ino: 1 << 40}) || !s.want(key{ino: 5}) {
		t.Error("the bound of pending keys")
	}
	s.bury(key{ino: 1})
	s.unbury(key{ino: 1})
	if _, ok := s.buried[key{ino: 1}]; ok {
		t.Error("still buried")
	}
}

func TestHandleCodec(t *testing.T) {
	k := key{dev: 1<<63 + 1, ino: 2, birth: -3}
	h := k.appendHandle(nil)
	if got, err := parseHandle(h); err != nil || got != k || len(h) > backend.MaxHandle {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzResolve(f *testing.F) {
	fsys, _ := open(f, &Config{Async: true, SearchLimit: 50})
	file := create(f, fsys.Root(), "f")
	f.Add(file.AppendHandle(nil))
	f.Add(fsys.Root().AppendHandle(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, h []byte) {
		n, err := fsys.Resolve(h)
		if err == nil && string(n.AppendHandle(nil)) != string(h) {
			t.Errorf("handle %x became %x", h, n.AppendHandle(nil))
		}
	})
}
