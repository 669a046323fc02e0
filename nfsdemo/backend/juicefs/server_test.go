package juicefs_test

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/backendtest"
	"github.com/stag-rdma/stag/nfsdemo/backend/juicefs"
	"github.com/stag-rdma/stag/nfsdemo/backend/juicefs/internal/engines"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// two are two servers of one directory.
func two(t *testing.T, r *rig) (a, b backend.FS) {
	a = r.newFS(t)
	v := r.open(t)
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return a, r.fs(t, v, r.dirs[a])
}

func initOf(mode uint32) *backend.Init {
	return &backend.Init{Attr: nfs3.SetAttr{SetMode: true, Mode: mode}}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// other returns a file of one server at another.
func other(t *testing.T, n backend.Node, at backend.FS) backend.Node {
	t.Helper()
	m, err := at.Resolve(nil, n.AppendHandle(nil))
	ok(t, err)
	return m
}

func content(t *testing.T, n backend.Node) string {
	t.Helper()
	p := make([]byte, 1<<16)
	got, err := n.Read(p, 0)
	ok(t, err)
	return string(p[:got])
}

func TestServers(t *testing.T) {
	uri := engines.Postgres(t)
	r := newRig(t, uri, "postgres", strings.TrimPrefix(uri, "postgres://"))
	t.Run("Coherence", func(t *testing.T) { testCoherence(t, r) })
	t.Run("Verifier", func(t *testing.T) { testVerifier(t, r) })
	t.Run("Pages", func(t *testing.T) { testPages(t, r) })
	t.Run("Exclusive", func(t *testing.T) { testExclusive(t, r) })
	t.Run("Removed", func(t *testing.T) { testRemoved(t, r) })
	t.Run("Locks", func(t *testing.T) { testLocks(t, r) })
}

// testRemoved: a file that another server removes before it has all of its attributes, or before they are read, was made
// nevertheless.
func testRemoved(t *testing.T, r *rig) {
	a, b := two(t, r)
	for name, x := range map[string]struct {
		in      backend.Init
		changed bool // after it was made
	}{
		"plain":     {*initOf(0o644), false},
		"size":      {backend.Init{Attr: nfs3.SetAttr{SetSize: true, Size: 5}}, false},
		"owner":     {backend.Init{Attr: nfs3.SetAttr{SetUID: true, UID: 7}}, true},
		"time":      {backend.Init{Attr: nfs3.SetAttr{MtimeHow: nfs3.ClientTime}}, true},
		"exclusive": {backend.Init{Verf: &nfs3.CreateVerf{1, 2, 3}}, true},
	} {
		create := func(made, changed func()) {
			t.Helper()
			defer r.v.Between(made, changed)()
			if _, at, err := a.Root().Create(name, &x.in); err != nil || at.Type != nfs3.TypeReg {
				t.Errorf("%s: %+v, %v", name, at, err)
			}
			if _, _, err := b.Root().Lookup(name); !errors.Is(err, nfs3.ErrNoEnt) {
				t.Errorf("%s: then %v", name, err)
			}
		}
		remove := func() { ok(t, b.Root().Remove(name, false)) }
		create(remove, func() {})
		if x.changed {
			create(func() {}, sync.OnceFunc(remove))
		}
	}
}

// testCoherence: what one server has acknowledged as stable is what the other one sees.
func testCoherence(t *testing.T, r *rig) {
	a, b := two(t, r)
	f, _, err := a.Root().Create("f", initOf(0o644))
	ok(t, err)
	g := other(t, f, b)
	for i, step := range []struct {
		at   backend.Node
		do   func(n backend.Node) error
		want string
	}{
		{f, func(n backend.Node) error { _, err := n.Write([]byte("hello, world"), 0, nfs3.FileSync); return err }, "hello, world"},
		{g, func(n backend.Node) error { _, err := n.Write([]byte("HELLO"), 0, nfs3.DataSync); return err }, "HELLO, world"},
		{f, func(n backend.Node) error { return n.SetAttr(&nfs3.SetAttr{SetSize: true, Size: 5}) }, "HELLO"},
		{g, func(n backend.Node) error { return n.SetAttr(&nfs3.SetAttr{SetSize: true, Size: 7}) }, "HELLO\x00\x00"},
		{f, func(n backend.Node) error {
			if _, err := n.Write([]byte("y"), 1, nfs3.Unstable); err != nil {
				return err
			}
			_, err := n.Commit(0, 0)
			return err
		}, "HyLLO\x00\x00"},
		{g, func(n backend.Node) error { // the same mtime as before must not hide the change
			was, err := n.Attr()
			if err != nil {
				return err
			}
			if _, err := n.Write([]byte("j"), 0, nfs3.FileSync); err != nil {
				return err
			}
			return n.SetAttr(&nfs3.SetAttr{MtimeHow: nfs3.ClientTime, Mtime: was.Mtime})
		}, "jyLLO\x00\x00"},
	} {
		ok(t, step.do(step.at))
		for _, n := range []backend.Node{f, g} {
			if got := content(t, n); got != step.want {
				t.Fatalf("step %d: %q, want %q", i, got, step.want)
			}
			if at, err := n.Attr(); err != nil || at.Size != uint64(len(step.want)) {
				t.Fatalf("step %d: size %d, %v", i, at.Size, err)
			}
		}
	}
	ok(t, b.Root().Remove("f", false))
	for _, n := range []backend.Node{f, g} {
		if _, err := n.Write([]byte("x"), 0, nfs3.Unstable); !errors.Is(err, nfs3.ErrStale) {
			t.Errorf("a removed file: %v", err)
		}
	}
}

// testVerifier: a client that has changed the server has to send again what was unstable.
func testVerifier(t *testing.T, r *rig) {
	a, b := two(t, r)
	f, _, err := a.Root().Create("f", initOf(0o644))
	ok(t, err)
	w, err := f.Write([]byte("x"), 0, nfs3.Unstable)
	ok(t, err)
	here, err := f.Commit(0, 0)
	ok(t, err)
	there, err := other(t, f, b).Commit(0, 0)
	ok(t, err)
	if w.Verf != here || w.Verf == there {
		t.Errorf("WRITE %x, COMMIT there %x, COMMIT elsewhere %x", w.Verf, here, there)
	}
}

// testPages: each page of a list may come from another server.
func testPages(t *testing.T, r *rig) {
	a, b := two(t, r)
	want := map[string]bool{".": true, "..": true}
	for i := range 50 {
		name := string(rune('A' + i))
		want[name] = true
		_, _, err := a.Root().Create(name, initOf(0o644))
		ok(t, err)
	}
	var cookie uint64
	var verf nfs3.CookieVerf
	for end, fsys := false, a; !end; {
		n := 0
		var err error
		verf, end, err = fsys.Root().ReadDir(cookie, verf, true, func(e *nfs3.DirPlusEntry) bool {
			if n == 7 {
				return false
			}
			n++
			if !want[e.Name] {
				t.Errorf("%q twice, or never made", e.Name)
			}
			delete(want, e.Name)
			cookie = e.Cookie
			return true
		})
		ok(t, err)
		if fsys == a {
			fsys = b
		} else {
			fsys = a
		}
	}
	if len(want) > 0 {
		t.Errorf("%v are missing", want)
	}
}

// testExclusive: an exclusive CREATE that is repeated at another server is known there.
func testExclusive(t *testing.T, r *rig) {
	a, b := two(t, r)
	v := nfs3.CreateVerf{1, 2, 3, 4, 5, 6, 7, 8}
	in := initOf(0o600)
	in.Verf = &v
	f, _, err := a.Root().Create("f", in)
	ok(t, err)
	g, _, err := b.Root().Create("f", in)
	ok(t, err)
	if !bytes.Equal(f.AppendHandle(nil), g.AppendHandle(nil)) {
		t.Error("the servers disagree on the handle")
	}
	v[0]++
	if _, _, err = a.Root().Create("f", in); !errors.Is(err, nfs3.ErrExist) {
		t.Errorf("another CREATE: %v", err)
	}
}

// testLocks: a lock is held at all servers, and outlives the one that gave it.
func testLocks(t *testing.T, r *rig) {
	a, b := two(t, r)
	f, _, err := a.Root().Create("f", initOf(0o644))
	ok(t, err)
	h := f.AppendHandle(nil)
	mine := backend.Lock{Owner: backend.LockOwner{Client: "c", ID: 7}, Exclusive: true, Start: 3, End: backend.LockEnd}
	his := backend.Lock{Owner: backend.LockOwner{Client: "d", ID: 7}, Start: 0, End: 3}

	v := r.open(t)
	dead := r.fs(t, v, r.dirs[a]).(*juicefs.FS)
	ok(t, dead.SetLock(t.Context(), h, &mine, false))
	ok(t, v.Close())

	for _, k := range []backend.Locker{a.(*juicefs.FS), b.(*juicefs.FS)} {
		var e *backend.LockedError
		if err := k.SetLock(t.Context(), h, &his, false); !errors.As(err, &e) || e.Holder != mine {
			t.Errorf("SetLock at another server: %v", err)
		}
		ok(t, k.SetLock(t.Context(), h, &mine, false)) // as a client does that reclaims
	}
	got := make(chan error, 1)
	go func() { got <- b.(*juicefs.FS).SetLock(t.Context(), h, &his, true) }()
	ok(t, a.(*juicefs.FS).ReleaseLocks(t.Context(), "c"))
	ok(t, <-got)
	ok(t, a.(*juicefs.FS).ReleaseLocks(t.Context(), "d"))
	if err := b.(*juicefs.FS).TestLock(t.Context(), h, &mine); err != nil {
		t.Errorf("after all locks were given back: %v", err)
	}
}

func testLocker(t *testing.T, r *rig) {
	fsys := r.newFS(t)
	f, _, err := fsys.Root().Create("f", initOf(0o644))
	ok(t, err)
	g, _, err := fsys.Root().Create("g", initOf(0o644))
	ok(t, err)
	backendtest.RunLocker(t, fsys.(*juicefs.FS), f.AppendHandle(nil), g.AppendHandle(nil))
}

func TestRefused(t *testing.T) {
	safe := engines.Postgres(t)
	engines.Format(t, safe, "mem", "anything")
	for uri, want := range map[string]string{
		engines.Postgres(t, "synchronous_commit=off"):                          "juicefs: PostgreSQL with synchronous_commit off: a crash loses what was acknowledged: turn it on",
		engines.Postgres(t, "fsync=off"):                                       "juicefs: PostgreSQL with fsync off: a crash loses what was acknowledged: turn it on",
		engines.Postgres(t) + "&default_transaction_isolation=repeatable+read": "juicefs: PostgreSQL with transactions that are repeatable read: calls at the same moment lose files: connect to PostgreSQL itself, with no default_transaction_isolation in the address",
		"memkv://x":             "juicefs: metadata in memkv: several servers cannot share it, or calls at the same moment go wrong there: use postgres://",
		"redis://127.0.0.1:1/1": "juicefs: metadata in redis: several servers cannot share it, or calls at the same moment go wrong there: use postgres://",
		"sqlite3://x.db":        "juicefs: metadata in sqlite3: several servers cannot share it, or calls at the same moment go wrong there: use postgres://",
		safe:                    "juicefs: objects in mem: it is not known whether they are durable when they are put: if so, --trust-stores",
	} {
		v, err := juicefs.Open(t.Context(), uri, nil)
		if e, refused := errors.AsType[*juicefs.RefusedError](err); !refused || e.Error() != want {
			t.Errorf("%s: %v", uri, err)
		}
		if v != nil {
			t.Error(v.Close())
		}
	}
	if _, err := juicefs.Open(t.Context(), engines.Postgres(t), nil); err == nil {
		t.Error("a database without a volume was opened")
	}
	if _, err := juicefs.Open(t.Context(), "postgres://127.0.0.1:1/x", nil); err == nil {
		t.Error("no database was opened")
	}
}

// TestNoStore: a server does not start if it cannot keep objects.
func TestNoStore(t *testing.T) {
	s3, uri := engines.NewS3(t), engines.Postgres(t)
	s3.Fail.Store(1)
	engines.Format(t, uri, "minio", s3.Bucket)
	want := "juicefs: volume test cannot keep an object in minio " + s3.Bucket
	if v, err := juicefs.Open(t.Context(), uri, nil); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, %v", v, err)
	}
	s3.Fail.Store(0)
	v, err := juicefs.Open(t.Context(), uri, nil)
	ok(t, err)
	ok(t, v.Close())
}

// TestTogether: servers that are the first ones, and start at the same moment, agree on the key and on where locks are.
func TestTogether(t *testing.T) {
	uri := engines.Postgres(t)
	engines.Format(t, uri, "file", t.TempDir()+"/")
	var wg sync.WaitGroup
	all := make([]*juicefs.FS, 6)
	for i := range all {
		wg.Go(func() {
			v, err := juicefs.Open(t.Context(), uri, nil)
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { v.Close() })
			if all[i], err = v.FS("/"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	f, _, err := all[0].Root().Create("f", initOf(0o644))
	ok(t, err)
	h := f.AppendHandle(nil)
	for i, fsys := range all {
		n, err := fsys.Resolve(nil, h)
		ok(t, err)
		if _, err := n.Attr(); err != nil {
			t.Errorf("server %d: %v", i, err)
		}
		l := backend.Lock{Owner: backend.LockOwner{Client: "c", ID: uint64(i)}, Exclusive: true, End: 9}
		err = fsys.SetLock(t.Context(), h, &l, false)
		if _, locked := errors.AsType[*backend.LockedError](err); locked != (i > 0) {
			t.Errorf("server %d: %v", i, err)
		}
	}
	ok(t, all[5].ReleaseLocks(t.Context(), "c"))
	ok(t, all[3].TestLock(t.Context(), h, &backend.Lock{Owner: backend.LockOwner{Client: "d"}, Exclusive: true, End: 9}))
}

// TestFull: an object store without room is NOSPC at once, to a COMMIT too, and what it did not take is not said to be there.
// When it has room again, everything goes on.
func TestFull(t *testing.T) {
	s3, uri := engines.NewS3(t), engines.Postgres(t)
	engines.Format(t, uri, "minio", s3.Bucket)
	v, err := juicefs.Open(t.Context(), uri, nil)
	ok(t, err)
	defer v.Close() //nolint:errcheck // the test is over
	fsys, err := v.FS("/")
	ok(t, err)
	f, _, err := fsys.Root().Create("f", initOf(0o644))
	ok(t, err)
	if _, err := f.Write([]byte("first"), 0, nfs3.FileSync); err != nil {
		t.Fatal(err)
	}
	s3.Full.Store(true)
	if _, err := f.Write([]byte("FIRST"), 0, nfs3.FileSync); !errors.Is(err, nfs3.ErrNoSpc) {
		t.Errorf("WRITE FILE_SYNC: %v", err)
	}
	g, _, err := fsys.Root().Create("g", initOf(0o644))
	ok(t, err)
	w, err := g.Write([]byte("second"), 0, nfs3.Unstable)
	ok(t, err)
	if verf, err := g.Commit(0, 0); !errors.Is(err, nfs3.ErrNoSpc) || verf == w.Verf {
		t.Errorf("COMMIT: %v", err)
	}
	s3.Full.Store(false)
	for n, want := range map[backend.Node]string{f: "third", g: "fourth"} {
		if _, err := n.Write([]byte(want), 0, nfs3.FileSync); err != nil {
			t.Errorf("WRITE FILE_SYNC, with room: %v", err)
		}
	}
	if got := content(t, f); got != "third" {
		t.Errorf("%q", got)
	}
	if got := content(t, g); got != "fourth" {
		t.Errorf("%q", got)
	}
}
