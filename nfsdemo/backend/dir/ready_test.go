package dir_test

import (
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

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
