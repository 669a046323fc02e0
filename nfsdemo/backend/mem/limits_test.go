package mem

import (
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

func create(t *testing.T, f *FS, name string) *file {
	t.Helper()
	n, _, err := f.Root().Create(name, &backend.Init{})
	if err != nil {
		t.Fatal(err)
	}
	return n.(*file)
}

// TestCapacity: space is taken by pages, refused beyond the limit without half a write, and
// comes back.
func TestCapacity(t *testing.T) {
	f := New(&Config{Capacity: 4 * pageSize})
	n := create(t, f, "f")
	if _, err := n.Write(make([]byte, 3*pageSize), 0, nfs3.Unstable); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Write(make([]byte, 2*pageSize), 3*pageSize, nfs3.Unstable); err != nfs3.ErrNoSpc {
		t.Errorf("beyond the capacity: %v", err)
	}
	if a, _ := n.Attr(); a.Size != 3*pageSize || a.Used != 3*pageSize {
		t.Errorf("%+v", a)
	}
	if u, _ := f.Usage(); u.FreeBytes != pageSize {
		t.Errorf("%+v", u)
	}
	if err := n.SetAttr(&nfs3.SetAttr{SetSize: true, Size: 1}); err != nil {
		t.Fatal(err)
	}
	if u, _ := f.Usage(); u.FreeBytes != 3*pageSize {
		t.Errorf("after truncation: %+v", u)
	}
	if err := f.Root().Remove("f", false); err != nil {
		t.Fatal(err)
	}
	if u, _ := f.Usage(); u.FreeBytes != 4*pageSize || u.FreeFiles != u.TotalFiles-1 {
		t.Errorf("after removal: %+v", u)
	}
	if _, err := n.Read(make([]byte, 1), 0); err != nfs3.ErrStale {
		t.Errorf("Read: %v", err)
	}
	if _, err := n.Commit(0, 0); err != nfs3.ErrStale {
		t.Errorf("Commit: %v", err)
	}
}

func TestMaxFiles(t *testing.T) {
	f := New(&Config{MaxFiles: 3})
	create(t, f, "a")
	create(t, f, "b")
	if _, _, err := f.Root().Create("c", &backend.Init{}); err != nfs3.ErrNoSpc {
		t.Errorf("%v", err)
	}
	if err := f.Root().Remove("a", false); err != nil {
		t.Fatal(err)
	}
	create(t, f, "c")
}

// TestAnotherLife: the handles of one FS are stale in the next.
func TestAnotherLife(t *testing.T) {
	f := New(nil)
	h := create(t, f, "f").AppendHandle(nil)
	if _, err := New(nil).Resolve(nil, h); err != nfs3.ErrStale {
		t.Errorf("%v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := f.Resolve(nil, h); err != nfs3.ErrStale {
		t.Errorf("after Close: %v", err)
	}
}

func TestTooManyLinks(t *testing.T) {
	f := New(nil)
	n := create(t, f, "f")
	n.attr.Nlink = linkMax
	if err := f.Root().Link(n, "g"); err != nfs3.ErrMLink {
		t.Errorf("%v", err)
	}
}
