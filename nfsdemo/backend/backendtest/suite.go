package backendtest

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Options say which file system is tested, and what it cannot do.
type Options struct {
	// New makes an empty file system; the suite closes it.
	New func(t *testing.T) backend.FS
	// Reopen, if not nil, closes fsys and makes a new one over the same files: handles must
	// survive.
	Reopen func(t *testing.T, fsys backend.FS) backend.FS
	// NoSpecial says that FIFOs and sockets cannot be made.
	NoSpecial bool
	// NoLinks says that a file with two names looks like two files.
	NoLinks bool
	// Paths says that files are found by paths, which systems limit to 4096 octets.
	Paths bool
	// Big is the number of names in the big directory. If zero, 2000.
	Big int
}

// Run runs the suite.
func Run(t *testing.T, o Options) {
	for _, p := range []struct {
		name string
		run  func(*env)
	}{
		{"Root", testRoot},
		{"Handles", testHandles},
		{"Create", testCreate},
		{"Exclusive", testExclusive},
		{"Mkdir", testMkdir},
		{"Symlink", testSymlink},
		{"Mknod", testMknod},
		{"Attr", testAttr},
		{"Truncate", testTruncate},
		{"Data", testData},
		{"DataModel", testDataModel},
		{"Commit", testCommit},
		{"Remove", testRemove},
		{"Rename", testRename},
		{"RenameHandles", testRenameHandles},
		{"RenameErrors", testRenameErrors},
		{"Link", testLink},
		{"Names", testNames},
		{"ReadDir", testReadDir},
		{"ReadDirChanges", testReadDirChanges},
		{"BigDir", testBigDir},
		{"Deep", testDeep},
		{"NotDir", testNotDir},
		{"Stale", testStale},
		{"Concurrent", testConcurrent},
		{"Reopen", testReopen},
	} {
		t.Run(p.name, func(t *testing.T) {
			fsys := o.New(t)
			e := &env{T: t, o: o, fs: fsys}
			t.Cleanup(func() {
				if err := e.fs.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
			p.run(e)
		})
	}
}

// env is what one part of the suite works with.
type env struct {
	*testing.T
	o  Options
	fs backend.FS
}

// ok fails the test on an error.
func (e *env) ok(what string, err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("%s: %v", what, err)
	}
}

// want fails the test unless err is the status.
func (e *env) want(what string, err error, s nfs3.Status) {
	e.Helper()
	if !errors.Is(err, s) {
		e.Fatalf("%s: got %v, want %v", what, err, s)
	}
}

// initOf is an Init with a mode.
func initOf(mode uint32) *backend.Init {
	return &backend.Init{Attr: nfs3.SetAttr{SetMode: true, Mode: mode}}
}

// typed is a file of another type.
func typed(t nfs3.FileType, in *backend.Init) *backend.Init {
	c := *in
	c.Type = t
	return &c
}

// linkTo is a symbolic link.
func linkTo(target string) *backend.Init {
	l := typed(nfs3.TypeLnk, initOf(0o777))
	l.Target = target
	return l
}

// create makes a file.
func (e *env) create(dir backend.Node, name string) backend.Node {
	e.Helper()
	n, _, err := dir.Create(name, initOf(0o644))
	e.ok("Create "+name, err)
	return n
}

// mkdir makes a directory.
func (e *env) mkdir(dir backend.Node, name string) backend.Node {
	e.Helper()
	n, _, err := dir.Create(name, typed(nfs3.TypeDir, initOf(0o755)))
	e.ok("Mkdir "+name, err)
	return n
}

// write writes all of p.
func (e *env) write(n backend.Node, p []byte, off uint64) {
	e.Helper()
	r, err := n.Write(p, off, nfs3.Unstable)
	e.ok("Write", err)
	if r.N != len(p) {
		e.Fatalf("Write: %d octets of %d", r.N, len(p))
	}
}

// read reads up to n octets.
func (e *env) read(f backend.Node, n int, off uint64) []byte {
	e.Helper()
	p := make([]byte, n)
	got, err := f.Read(p, off)
	e.ok("Read", err)
	return p[:got]
}

// attr returns the attributes.
func (e *env) attr(n backend.Node) nfs3.Attr {
	e.Helper()
	a, err := n.Attr()
	e.ok("Attr", err)
	return a
}

// lookup finds a name.
func (e *env) lookup(dir backend.Node, name string) backend.Node {
	e.Helper()
	n, _, err := dir.Lookup(name)
	e.ok("Lookup "+name, err)
	return n
}

// missing fails the test if the name exists.
func (e *env) missing(dir backend.Node, name string) {
	e.Helper()
	_, _, err := dir.Lookup(name)
	e.want("Lookup "+name, err, nfs3.ErrNoEnt)
}

// same fails the test unless both nodes are the same file.
func (e *env) same(a, b backend.Node) {
	e.Helper()
	if x, y := a.AppendHandle(nil), b.AppendHandle(nil); string(x) != string(y) {
		e.Fatalf("handles differ: %x, %x", x, y)
	}
}

// resolve finds a node by its handle.
func (e *env) resolve(n backend.Node) backend.Node {
	e.Helper()
	r, err := e.fs.Resolve(nil, n.AppendHandle(nil))
	e.ok("Resolve", err)
	return r
}

// Live runs f and fails the test if more than most octets of memory were in use at some time meanwhile, besides
// those before.
func Live(t testing.TB, most uint64, f func()) {
	t.Helper()
	look := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, peak := look(), uint64(0)
	var wg sync.WaitGroup
	end := make(chan struct{})
	wg.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			peak = max(peak, look())
			select {
			case <-end:
				return
			case <-tick.C:
			}
		}
	})
	f()
	close(end)
	wg.Wait()
	if peak > before+most {
		t.Errorf("%d MiB in use, want at most %d", (peak-before)>>20, most>>20)
	}
	t.Logf("%d MiB in use at most", (max(peak, before)-before)>>20)
}
