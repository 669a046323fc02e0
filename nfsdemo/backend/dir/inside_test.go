package dir

import (
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// What the tests need of the inside: syncs that fail, verifiers, and an FS that has forgotten, or has
// no handles of the file system, or is asked for a file that never was.

type SyncOp = syncOp

const (
	ErrMoved = errMoved

	SyncData  = syncData
	SyncAll   = syncAll
	SyncNames = syncNames
)

var (
	Status     = status
	CookieVerf = cookieVerf
)

func (f *FS) OnSync(hook func(SyncOp) error) { f.syncErr = hook }
func (f *FS) WriteVerf() nfs3.WriteVerf      { return f.writeVerf() }
func (f *FS) NewVerf()                       { f.newVerf() }

// Searching has files found again by a search.
func (c Config) Searching() *Config { c.places = true; return &c }

func (f *FS) CloseFiles() { f.files.clear() }
func (f *FS) CloseAll()   { f.grips.clear(); f.files.clear() }

// Forget makes a table as after a restart.
func (f *FS) Forget() {
	f.CloseAll()
	f.tab.mu.Lock()
	defer f.tab.mu.Unlock()
	f.tab.m = map[key]*node{f.root.key: f.root}
	f.tab.order.Init()
	f.root.kids = 0
}

func (f *FS) NoFile(i uint64) []byte {
	k := ownKey(0, 1<<60+i, 7)
	return f.seal.append(nil, &k)
}

func (f *FS) Rest(client net.Addr, until time.Time) {
	f.lost.hunters[peeraddr.Share(client)].restEnd = until
}

// The helpers of the tests that stay inside.

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t testing.TB, err error, s nfs3.Status) {
	t.Helper()
	if err != error(s) {
		t.Fatalf("got %v, want %v", err, s)
	}
}

func client(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1000} }

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
	s := newSealer(secret, "/srv/a", nil)
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
		for _, other := range []*sealer{newSealer(secret, "/srv/b", nil), newSealer(secret[:31], "/srv/a", nil), newSealer(secret, "/srv/a", []byte("x"))} {
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
	again := newSealer(secret, "/srv/a", nil)
	if got, err := again.parse(s.append(nil, &k)); err != nil || got != k {
		t.Errorf("the same key in another process: %v", err)
	}
}

// thing counts its Close calls.
type thing struct {
	mu     sync.Mutex
	closed int
}

func (h *thing) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed++
	return nil
}

func (h *thing) wantClosed(t *testing.T, n int) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed != n {
		t.Errorf("closed %d times, want %d", h.closed, n)
	}
}

func k(i int) key { return ownKey(0, uint64(i), 0) }

func TestCache(t *testing.T) {
	c := cache[key, *thing]{max: 2}
	if c.get(k(1)) != nil {
		t.Error("an empty cache has something")
	}
	a, b, d := new(thing), new(thing), new(thing)
	sa := c.add(k(1), a, false)
	sb := c.add(k(2), b, false)
	sd := c.add(k(3), d, false) // all in use: one too many
	c.put(sb)                   // the excess goes at once
	b.wantClosed(t, 1)
	c.put(sa)
	c.put(sd)
	a.wantClosed(t, 0)
	s := c.get(k(1)) // now the most recent
	c.put(s)
	c.put(c.add(k(4), new(thing), false))
	d.wantClosed(t, 1)
	a.wantClosed(t, 0)

	// The first of two stays; with replace the second does.
	second := new(thing)
	s = c.add(k(1), second, false)
	if s.v != a {
		t.Error("the second won")
	}
	second.wantClosed(t, 1)
	third := new(thing)
	s3 := c.add(k(1), third, true)
	a.wantClosed(t, 0) // still in use through s
	c.put(s)
	a.wantClosed(t, 1)
	c.drop(k(1))
	third.wantClosed(t, 0)
	c.put(s3)
	third.wantClosed(t, 1)
	c.drop(k(1)) // nothing there
	c.clear()
	if len(c.m) != 0 || c.order.Len() != 0 {
		t.Error("not empty")
	}
}

// TestCacheStress: whatever many callers do at once, a thing is closed once, and never while one of them uses it.
func TestCacheStress(t *testing.T) {
	c := cache[key, *thing]{max: 4, ttl: time.Millisecond}
	var all [8][]*thing
	var wg sync.WaitGroup
	for g := range all {
		r := rand.New(rand.NewPCG(uint64(g), 1))
		wg.Go(func() {
			for range 3000 {
				s := c.get(k(r.IntN(8)))
				switch {
				case s == nil:
					v := new(thing)
					all[g] = append(all[g], v)
					s = c.add(k(r.IntN(8)), v, r.IntN(2) == 0)
				case r.IntN(9) == 0:
					c.drop(s.key)
				}
				s.v.wantClosed(t, 0)
				c.put(s)
			}
		})
	}
	wg.Wait()
	c.clear()
	for _, vs := range all {
		for _, v := range vs {
			v.wantClosed(t, 1)
		}
	}
	if len(c.m) != 0 || c.order.Len() != 0 {
		t.Error("not empty")
	}
}

func TestCacheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cache[key, *thing]{max: 10, ttl: time.Second}
		a, b := new(thing), new(thing)
		c.put(c.add(k(1), a, false))
		sb := c.add(k(2), b, false)
		time.Sleep(2500 * time.Millisecond)
		a.wantClosed(t, 1)
		b.wantClosed(t, 0) // in use
		c.put(sb)
		time.Sleep(2500 * time.Millisecond)
		b.wantClosed(t, 1)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.timer != nil || len(c.m) != 0 {
			t.Error("the timer still runs although the cache is empty")
		}
	})
}

func TestTable(t *testing.T) {
	f := &FS{}
	f.tab = table{max: 3, m: make(map[key]*node)}
	f.root = &node{fs: f, key: k(0), typ: nfs3.TypeDir}
	f.tab.m[k(0)] = f.root
	enter := func(p *node, name string, i int, typ nfs3.FileType) *node {
		return f.tab.enter(f, place{p, name}, &stat{key: k(i), attr: nfs3.Attr{Type: typ}})
	}
	d := enter(f.root, "d", 1, nfs3.TypeDir)
	x := enter(d, "x", 2, nfs3.TypeReg)
	enter(d, "y", 3, nfs3.TypeReg)
	enter(d, "z", 4, nfs3.TypeReg)
	if f.tab.get(k(1)) != d {
		t.Error("a directory with children was forgotten")
	}
	if f.tab.get(k(2)) != nil || len(f.tab.placesOf(x)) != 1 {
		t.Error("the oldest file is still in the table, or has lost its place")
	}
	f.tab.leave(x, place{d, "x"}) // no longer counted
	if d.kids != 1 {
		t.Errorf("%d children", d.kids)
	}
	z := f.tab.get(k(4))
	enter(f.root, "z2", 4, nfs3.TypeReg)
	if got := f.tab.placesOf(z); len(got) != 2 || got[0] != (place{f.root, "z2"}) {
		t.Errorf("%v", got)
	}
	for i := range 20 {
		enter(f.root, string(rune('a'+i)), 4, nfs3.TypeReg)
	}
	if got := f.tab.placesOf(z); len(got) != maxPlaces {
		t.Errorf("%d places", len(got))
	}
	f.tab.remove(k(4))
	f.tab.remove(k(4))
	if d.kids != 0 || f.root.kids != 1 {
		t.Errorf("%d and %d children", d.kids, f.root.kids)
	}
	// A directory has one place, the latest.
	enter(f.root, "moved", 1, nfs3.TypeDir)
	if got := f.tab.placesOf(d); len(got) != 1 || got[0].name != "moved" {
		t.Errorf("%v", got)
	}
}
