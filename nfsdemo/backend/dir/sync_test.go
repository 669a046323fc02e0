package dir_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// syncs records syncs and makes one kind of them fail on demand.
type syncs struct {
	mu   sync.Mutex
	ops  []dir.SyncOp
	fail dir.SyncOp
}

func (s *syncs) hook(op dir.SyncOp) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ops = append(s.ops, op)
	if op == s.fail {
		return errors.New("injected")
	}
	return nil
}

// take returns the syncs since the last call.
func (s *syncs) take() []dir.SyncOp {
	s.mu.Lock()
	defer s.mu.Unlock()
	ops := s.ops
	s.ops = nil
	return ops
}

func openSyncs(t *testing.T, cfg *dir.Config) (*dir.FS, *syncs) {
	f, _ := open(t, cfg)
	s := new(syncs)
	f.OnSync(s.hook)
	return f, s
}

// TestSyncs: which operation ends with which syncs (RFC 1813 Sections 1.3.1, 3.3.7, 3.3.21).
func TestSyncs(t *testing.T) {
	f, s := openSyncs(t, nil)
	root := f.Root()
	check := func(what string, want ...dir.SyncOp) {
		t.Helper()
		if got := s.take(); !slices.Equal(got, want) {
			t.Errorf("%s: syncs %v, want %v", what, got, want)
		}
	}
	file := create(t, root, "f")
	check("Create", dir.SyncNames, dir.SyncNames) // the file, the directory
	for how, want := range [][]dir.SyncOp{nfs3.Unstable: nil, nfs3.DataSync: {dir.SyncData}, nfs3.FileSync: {dir.SyncAll}} {
		_, err := file.Write([]byte("x"), 0, nfs3.StableHow(how))
		ok(t, err)
		check(nfs3.StableHow(how).String(), want...)
	}
	_, err := file.Commit(0, 0)
	ok(t, err)
	check("Commit", dir.SyncAll)
	ok(t, file.SetAttr(&nfs3.SetAttr{SetMode: true, Mode: 0o600}))
	check("SetAttr", dir.SyncNames)
	d := mkdir(t, root, "d")
	check("Mkdir", dir.SyncNames, dir.SyncNames)
	ok(t, root.Rename("f", d, "g"))
	check("Rename", dir.SyncNames, dir.SyncNames)
	ok(t, d.Rename("g", d, "h"))
	check("Rename in one directory", dir.SyncNames)
	ok(t, root.Link(file, "l"))
	check("Link", dir.SyncNames)
	ok(t, root.Remove("l", false))
	check("Remove", dir.SyncNames)
	_, _, err = root.Create("s", &backend.Init{Type: nfs3.TypeLnk, Target: "x"})
	ok(t, err)
	check("Symlink", dir.SyncNames)
	ok(t, d.Remove("h", false))
	ok(t, root.Remove("d", true))
	check("Remove, Rmdir", dir.SyncNames, dir.SyncNames)
}

// TestAsync: names are not synced, data are.
func TestAsync(t *testing.T) {
	f, s := openSyncs(t, &dir.Config{Async: true})
	file := create(t, f.Root(), "f")
	ok(t, f.Root().Rename("f", f.Root(), "g"))
	if got := s.take(); len(got) != 0 {
		t.Errorf("syncs %v", got)
	}
	_, err := file.Write([]byte("x"), 0, nfs3.FileSync)
	ok(t, err)
	_, err = file.Commit(0, 0)
	ok(t, err)
	if got := s.take(); !slices.Equal(got, []dir.SyncOp{dir.SyncAll, dir.SyncAll}) {
		t.Errorf("syncs %v", got)
	}
}

// TestFailedSync: after a failed sync every write that was not yet durable has a verifier
// that is not that of a later COMMIT, so its client sends it again.
func TestFailedSync(t *testing.T) {
	for _, c := range []struct {
		name string
		op   dir.SyncOp
		do   func(n backend.Node) error
	}{
		{"COMMIT", dir.SyncAll, func(n backend.Node) error { _, err := n.Commit(0, 0); return err }},
		{"FILE_SYNC", dir.SyncAll, func(n backend.Node) error { _, err := n.Write([]byte("y"), 0, nfs3.FileSync); return err }},
		{"DATA_SYNC", dir.SyncData, func(n backend.Node) error { _, err := n.Write([]byte("y"), 0, nfs3.DataSync); return err }},
		{"SETATTR", dir.SyncNames, func(n backend.Node) error { return n.SetAttr(&nfs3.SetAttr{SetSize: true, Size: 9}) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, s := openSyncs(t, nil)
			file, other := create(t, f.Root(), "f"), create(t, f.Root(), "g")
			w1, err := file.Write([]byte("x"), 0, nfs3.Unstable)
			ok(t, err)
			w2, err := other.Write([]byte("x"), 0, nfs3.Unstable)
			ok(t, err)
			s.fail = c.op
			if err := c.do(file); err == nil {
				t.Fatal("the failure was not answered")
			}
			s.fail = 0
			for _, n := range []backend.Node{file, other} {
				v, err := n.Commit(0, 0)
				ok(t, err)
				if v == w1.Verf || v == w2.Verf {
					t.Error("a later COMMIT covers writes that may be lost")
				}
			}
			w3, err := file.Write([]byte("x"), 0, nfs3.Unstable)
			ok(t, err)
			if v, err := file.Commit(0, 0); err != nil || v != w3.Verf {
				t.Errorf("the new writes are not covered: %v", err)
			}
		})
	}
}

// TestVerfOfWriteIsOld: a WRITE that runs while a sync fails answers with the old verifier.
func TestVerfOfWriteIsOld(t *testing.T) {
	f, _ := open(t, nil)
	file := create(t, f.Root(), "f")
	before := f.WriteVerf()
	f.OnSync(func(op dir.SyncOp) error {
		if op == dir.SyncAll {
			f.NewVerf() // somebody else's sync failed meanwhile
		}
		return nil
	})
	w, err := file.Write([]byte("x"), 0, nfs3.FileSync)
	ok(t, err)
	if w.Verf != before || f.WriteVerf() == before {
		t.Errorf("verifier %x, before %x, now %x", w.Verf, before, f.WriteVerf())
	}
}

// TestSyncBeforeClose: a descriptor with unsynced writes is synced when it leaves the cache,
// and its failure changes the verifier.
func TestSyncBeforeClose(t *testing.T) {
	f, s := openSyncs(t, &dir.Config{Async: true, MaxFiles: 1})
	file := create(t, f.Root(), "f")
	w, err := file.Write([]byte("x"), 0, nfs3.Unstable)
	ok(t, err)
	s.fail = dir.SyncData
	create(t, f.Root(), "g") // takes the only place
	if got := s.take(); !slices.Equal(got, []dir.SyncOp{dir.SyncData}) {
		t.Errorf("syncs %v", got)
	}
	s.fail = 0
	if v, err := file.Commit(0, 0); err != nil || v == w.Verf {
		t.Errorf("verifier %x, %v", v, err)
	}
	// A file that is removed needs no sync.
	g := create(t, f.Root(), "h")
	_, err = g.Write([]byte("x"), 0, nfs3.Unstable)
	ok(t, err)
	s.take()
	ok(t, f.Root().Remove("h", false))
	if got := s.take(); len(got) != 0 {
		t.Errorf("syncs %v", got)
	}
}

// TestVerfPerLife: two lives of one directory have two verifiers.
func TestVerfPerLife(t *testing.T) {
	f, path := open(t, nil)
	g, err := dir.New(path, nil)
	ok(t, err)
	defer g.Close()
	if f.WriteVerf() == g.WriteVerf() {
		t.Error("one verifier")
	}
}

// TestFailedCreate: a file that could not be made durable is taken back.
func TestFailedCreate(t *testing.T) {
	f, s := openSyncs(t, nil)
	s.fail = dir.SyncNames
	if _, _, err := f.Root().Create("f", in644); err == nil {
		t.Error("Create: no error")
	}
	if _, _, err := f.Root().Create("d", &backend.Init{Type: nfs3.TypeDir, Attr: in644.Attr}); err == nil {
		t.Error("Mkdir: no error")
	}
	s.fail = 0
	for _, name := range []string{"f", "d"} {
		_, _, err := f.Root().Lookup(name)
		want(t, err, nfs3.ErrNoEnt)
	}
	create(t, f.Root(), "f")
}

// A file is ready to be written while it is open for that: not before its first WRITE, nor when it was
// only read, nor once it is gone.
func TestReady(t *testing.T) {
	path, key := t.TempDir(), []byte("0123456789abcdef0123456789abcdef")
	made, err := dir.New(path, &dir.Config{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	n, _, err := made.Root().Create("file", &backend.Init{Attr: nfs3.SetAttr{SetMode: true, Mode: 0o600}})
	if err != nil {
		t.Fatal(err)
	}
	h := n.AppendHandle(nil)
	made.Close()
	f, err := dir.New(path, &dir.Config{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	step := func(what string, want bool, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Ready(nil, h); got != want {
			t.Errorf("%s: ready is %v", what, got)
		}
	}
	if f.Ready(nil, nil) || f.Ready(nil, h[1:]) {
		t.Error("what is no handle is ready")
	}
	step("new process", false, nil)
	n, err = f.Resolve(nil, h)
	step("resolved", false, err)
	_, err = n.Read(make([]byte, 1), 0)
	step("read", false, err)
	_, err = n.Write([]byte("x"), 0, nfs3.Unstable)
	step("written", true, err)
	step("removed", false, f.Root().Remove("file", false))
}

func TestStatus(t *testing.T) {
	other := errors.New("other")
	for _, c := range []struct{ err, want error }{
		{nil, nil},
		{syscall.ENOSPC, nfs3.ErrNoSpc},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, nfs3.ErrAcces},
		{&os.LinkError{Op: "rename", Err: syscall.EXDEV}, nfs3.ErrXDev},
		{syscall.EMFILE, nfs3.ErrJukebox},
		{fmt.Errorf("x: %w", fs.ErrNotExist), nfs3.ErrNoEnt},
		{fs.ErrExist, nfs3.ErrExist},
		{fs.ErrPermission, nfs3.ErrAcces},
		{os.ErrClosed, nfs3.ErrJukebox},
		{nfs3.ErrStale, nfs3.ErrStale},
		{fmt.Errorf("x: %w", nfs3.ErrStale), nfs3.ErrStale},
		{dir.ErrMoved, dir.ErrMoved},
		{other, other},
	} {
		if got := dir.Status(c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}
