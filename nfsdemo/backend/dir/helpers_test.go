package dir_test

import (
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// open serves a new directory and returns its path too.
func open(t testing.TB, cfg *dir.Config) (*dir.FS, string) {
	t.Helper()
	path := t.TempDir()
	f, err := dir.New(path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f, path
}

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

var in644 = &backend.Init{Attr: nfs3.SetAttr{SetMode: true, Mode: 0o644}}

func create(t testing.TB, d backend.Node, name string) backend.Node {
	t.Helper()
	n, _, err := d.Create(name, in644)
	ok(t, err)
	return n
}

func mkdir(t testing.TB, d backend.Node, name string) backend.Node {
	t.Helper()
	n, _, err := d.Create(name, &backend.Init{Type: nfs3.TypeDir, Attr: nfs3.SetAttr{SetMode: true, Mode: 0o755}})
	ok(t, err)
	return n
}

func resolve(t testing.TB, f *dir.FS, n backend.Node) backend.Node {
	t.Helper()
	r, err := f.Resolve(nil, n.AppendHandle(nil))
	ok(t, err)
	return r
}
