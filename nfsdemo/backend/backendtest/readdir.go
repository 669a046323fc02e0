package backendtest

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// list reads a directory in pages of at most page entries and returns its names without "." and
// "..". It runs between, if not nil, after every page.
func (e *env) list(d backend.Node, page int, plus bool, between func()) []string {
	e.Helper()
	var (
		names  []string
		cookie uint64
		verf   nfs3.CookieVerf
	)
	for pages := 0; ; pages++ {
		if pages > 100_000 {
			e.Fatal("the list does not end")
		}
		n := 0
		v, eof, err := d.ReadDir(cookie, verf, plus, func(x *nfs3.DirPlusEntry) bool {
			if n == page {
				return false
			}
			n++
			cookie = x.Cookie
			if x.Name != "." && x.Name != ".." {
				names = append(names, x.Name)
			}
			return true
		})
		e.ok("ReadDir", err)
		verf = v
		if eof {
			return names
		}
		if n == 0 {
			e.Fatal("an empty page that is not the end")
		}
		if between != nil {
			between()
		}
	}
}

func testReadDir(e *env) {
	root := e.fs.Root()
	if got := e.list(e.mkdir(root, "empty"), 10, true, nil); len(got) != 0 {
		e.Errorf("empty directory: %q", got)
	}
	d := e.mkdir(root, "d")
	want := []string{"a", "b", "c", "sub"}
	for _, name := range want[:3] {
		e.create(d, name)
	}
	e.mkdir(d, "sub")
	for _, page := range []int{1, 2, 3, 100} {
		got := e.list(d, page, page%2 == 0, nil)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			e.Errorf("pages of %d: %q", page, got)
		}
	}
	_, _, err := d.ReadDir(0, nfs3.CookieVerf{}, true, func(x *nfs3.DirPlusEntry) bool {
		n := e.lookup(d, x.Name)
		a := e.attr(n)
		if x.FileID != a.FileID || !x.Attr.Present || x.Attr.Attr.FileID != a.FileID {
			e.Errorf("%q: id %d, attributes %+v", x.Name, x.FileID, x.Attr)
		}
		if !x.Handle.Present || string(x.Handle.Handle) != string(n.AppendHandle(nil)) {
			e.Errorf("%q: handle %x", x.Name, x.Handle.Handle)
		}
		return true
	})
	e.ok("ReadDir", err)
	var cookie uint64
	v, _, err := d.ReadDir(0, nfs3.CookieVerf{}, false, func(x *nfs3.DirPlusEntry) bool {
		ok := cookie == 0
		cookie = x.Cookie
		return ok
	})
	e.ok("ReadDir", err)
	v[0] ^= 1
	_, _, err = d.ReadDir(cookie, v, false, func(*nfs3.DirPlusEntry) bool { return true })
	e.want("ReadDir with a wrong verifier", err, nfs3.ErrBadCookie)
}

// testReadDirChanges: names that come and go must not hide or repeat the others.
func testReadDirChanges(e *env) {
	d := e.mkdir(e.fs.Root(), "d")
	var stay []string
	for i := range 120 {
		name := fmt.Sprintf("stay%03d", i)
		stay = append(stay, name)
		e.create(d, name)
		e.create(d, fmt.Sprintf("go%03d", i))
	}
	i := 0
	got := e.list(d, 7, false, func() {
		_ = d.Remove(fmt.Sprintf("go%03d", i*3%120), false)
		if i < 50 {
			e.create(d, fmt.Sprintf("come%03d", i))
		}
		i++
	})
	seen := make(map[string]int)
	for _, name := range got {
		seen[name]++
		if seen[name] > 1 {
			e.Errorf("%q twice", name)
		}
	}
	for _, name := range stay {
		if seen[name] != 1 {
			e.Errorf("%q is missing", name)
		}
	}
}

func testBigDir(e *env) {
	n := e.o.Big
	if n == 0 {
		n = 2000
	}
	d := e.mkdir(e.fs.Root(), "big")
	// Most names are links: some file systems make those much faster than files.
	var f backend.Node
	for i := range n {
		name := fmt.Sprintf("file-%04d", i)
		if i%50 == 0 || e.o.NoLinks {
			f = e.create(d, name)
		} else {
			e.ok("Link", d.Link(f, name))
		}
	}
	for _, page := range []int{64, 5000} {
		got := e.list(d, page, page == 64, nil)
		slices.Sort(got)
		if len(got) != n || got[0] != "file-0000" || got[n-1] != fmt.Sprintf("file-%04d", n-1) || len(slices.Compact(got)) != n {
			e.Errorf("pages of %d: %d names", page, len(got))
		}
	}
	// As rm -r does: list, remove the listed names, until none is left.
	for _, name := range e.list(d, 500, false, nil) {
		e.ok("Remove", d.Remove(name, false))
	}
	e.ok("Rmdir", e.fs.Root().Remove("big", true))
}

func testDeep(e *env) {
	depth := 200
	if e.o.Paths {
		depth = 100
	}
	nodes := []backend.Node{e.fs.Root()}
	for i := range depth {
		nodes = append(nodes, e.mkdir(nodes[i], fmt.Sprintf("level-%03d-%020d", i, i)))
	}
	f := e.create(nodes[depth], "f")
	e.write(f, []byte("deep"), 0)
	if got := e.read(e.resolve(f), 10, 0); string(got) != "deep" {
		e.Errorf("content %q", got)
	}
	n := e.resolve(nodes[depth])
	for i := depth; i > 0; i-- {
		n = e.lookup(n, "..")
		e.same(n, nodes[i-1])
	}
	// A rename near the top moves everything below.
	e.ok("Rename", nodes[1].Rename(fmt.Sprintf("level-%03d-%020d", 1, 1), nodes[0], "top"))
	e.same(f, e.lookup(e.resolve(nodes[depth]), "f"))
	e.ok("Remove", nodes[depth].Remove("f", false))
}

func testConcurrent(e *env) {
	root := e.fs.Root()
	shared := e.mkdir(root, "shared")
	var wg sync.WaitGroup
	fail := func(what string, err error) {
		if err != nil {
			e.Errorf("%s: %v", what, err)
		}
	}
	for w := range 8 {
		wg.Go(func() {
			mine := fmt.Sprintf("w%d", w)
			d, _, err := root.Create(mine, typed(nfs3.TypeDir, initOf(0o755)))
			if err != nil {
				fail("Mkdir", err)
				return
			}
			for i := range 20 {
				name := fmt.Sprintf("f%d", i)
				f, _, err := d.Create(name, initOf(0o644))
				fail("Create", err)
				if err != nil {
					return
				}
				_, err = f.Write([]byte(name), 0, nfs3.Unstable)
				fail("Write", err)
				fail("Rename", d.Rename(name, shared, mine+name))
				p := make([]byte, 10)
				n, err := f.Read(p, 0)
				fail("Read", err)
				if string(p[:n]) != name {
					e.Errorf("content %q, want %q", p[:n], name)
				}
				_, _, err = shared.ReadDir(0, nfs3.CookieVerf{}, true, func(*nfs3.DirPlusEntry) bool { return true })
				fail("ReadDir", err)
				if i%2 == 0 {
					fail("Remove", shared.Remove(mine+name, false))
				}
			}
			fail("Rmdir", root.Remove(mine, true))
		})
	}
	wg.Wait()
	if got := e.list(shared, 10, true, nil); len(got) != 80 {
		e.Errorf("%d names left", len(got))
	}
	testOneWinner(e)
}

// testOneWinner: of many callers that create the same name, one succeeds.
func testOneWinner(e *env) {
	root := e.fs.Root()
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		won int
	)
	for range 8 {
		wg.Go(func() {
			_, _, err := root.Create("one", initOf(0o600))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won++
			case errors.Is(err, nfs3.ErrExist):
			default:
				e.Errorf("Create: %v", err)
			}
		})
	}
	wg.Wait()
	if won != 1 {
		e.Errorf("%d winners", won)
	}
}
