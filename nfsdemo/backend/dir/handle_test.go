package dir

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
	f, path := open(t, &Config{Async: true, MaxHeld: 1, MaxFiles: 1})
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
	f.grips.clear()
	f.files.clear()
	f.tab.mu.Lock()
	defer f.tab.mu.Unlock()
	f.tab.m = map[key]*node{f.root.key: f.root}
	f.tab.order.Init()
	f.root.kids = 0
}

func client(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1000} }

// TestSearch: one walk finds many files; missing ones cost no more than a walk.
func TestSearch(t *testing.T) {
	needLinux(t)
	f, _ := open(t, &Config{Async: true, places: true})
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
	gone := ownKey(0, 1<<60, 7)
	none := f.seal.append(nil, &gone)
	bad, good := client("192.0.2.1"), client("192.0.2.2")
	_, err := f.ResolveFor(bad, none)
	want(t, err, nfs3.ErrStale)
	// Now this client rests, but what was looked for is remembered.
	f.lost.hunters[clientOf(bad)].restEnd = time.Now().Add(time.Hour)
	_, err = f.ResolveFor(bad, none)
	want(t, err, nfs3.ErrStale)
	forget(f)
	_, err = f.ResolveFor(bad, handles[3])
	want(t, err, nfs3.ErrJukebox)
	_, err = f.ResolveFor(good, handles[3])
	ok(t, err)
}

// TestSearchShared: a client with handles of files that are gone, as many at once as it likes, gets walks of its own
// only after rests, and another one finds its files all the while, without a single retry.
func TestSearchShared(t *testing.T) {
	needLinux(t)
	f, _ := open(t, &Config{Async: true, places: true})
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
				gone := ownKey(0, 1<<60+made.Add(1), 7)
				_, err := f.ResolveFor(bad, f.seal.append(nil, &gone))
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
		forget(f)
		if _, err := f.ResolveFor(good, handles[i*31%len(handles)]); err != nil {
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
		f, _ := open(t, &Config{Async: true, SearchLimit: limit, places: true})
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
		s.bury(ownKey(0, uint64(i), 0))
	}
	if len(s.buried) != maxBuried {
		t.Errorf("%d buried", len(s.buried))
	}
	one, two := client("192.0.2.1"), client("192.0.2.2")
	for i := range maxPending {
		if s.join(one, ownKey(0, uint64(i), 0)) == nil {
			t.Fatal("refused early")
		}
	}
	if s.join(one, ownKey(0, 1<<40, 0)) != nil || s.join(one, ownKey(0, 5, 0)) == nil || s.join(two, ownKey(0, 1<<40, 0)) == nil {
		t.Error("the bound of pending keys of a client")
	}
	for i := range 2 * maxHunters {
		s.join(&net.TCPAddr{IP: net.IPv4(10, 0, byte(i>>8), byte(i))}, ownKey(0, 1, 0))
	}
	if len(s.hunters) != maxHunters {
		t.Errorf("%d clients", len(s.hunters))
	}
	for _, c := range s.hunters {
		c.next = nil
	}
	if s.join(client("2001:db8::1"), ownKey(0, 1, 0)) != s.join(client("2001:db8::2"), ownKey(0, 2, 0)) || len(s.hunters) != 1 {
		t.Error("clients that neither wait nor rest make room; an IPv6 network is one client")
	}
	s.bury(ownKey(0, 1, 0))
	s.unbury(ownKey(0, 1, 0))
	if _, ok := s.buried[ownKey(0, 1, 0)]; ok {
		t.Error("still buried")
	}
}

// TestSeal: only who has the key makes handles; another directory, another key, or a changed octet is none.
func TestSeal(t *testing.T) {
	secret := []byte("0123456789abcdef0123456789abcdef")
	s := newSealer(secret, "/srv/a")
	k := ownKey(1<<63+1, 2, -3)
	long, fits := newKey(0x81, make([]byte, maxID))
	if !fits {
		t.Fatal("the longest identity does not fit")
	}
	if _, fits := newKey(1, make([]byte, maxID+1)); fits {
		t.Fatal("too long an identity fits")
	}
	for _, k := range []key{k, long} {
		h := s.append(nil, &k)
		if got, err := s.parse(h); err != nil || got != k || len(h) > backend.MaxHandle {
			t.Errorf("%+v, %v", got, err)
		}
		for _, other := range []*sealer{newSealer(secret, "/srv/b"), newSealer(secret[:31], "/srv/a")} {
			_, err := other.parse(h)
			want(t, err, nfs3.ErrStale)
		}
		for i := range h {
			for bit := range 8 {
				bad := append([]byte(nil), h...)
				bad[i] ^= 1 << bit
				if _, err := s.parse(bad); err == nil {
					t.Errorf("octet %d, bit %d", i, bit)
				}
			}
		}
	}
	again := newSealer(secret, "/srv/a")
	if got, err := again.parse(s.append(nil, &k)); err != nil || got != k {
		t.Errorf("the same key in another process: %v", err)
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
