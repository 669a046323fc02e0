package nfsclient_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"github.com/stag-rdma/stag/nfsdemo/backend/backendtest"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
)

// filled returns a client of a server with some files.
func filled(t testing.TB) *nfsclient.Client {
	t.Helper()
	url, stop := startServer()
	u := must(nfsclient.ParseURL(url))(t)
	c := must(nfsclient.Dial(t.Context(), u, &nfsclient.Config{MaxBlock: 1024}))(t)
	t.Cleanup(func() { c.Close(); stop() })
	dir := must(c.MkdirAll(t.Context(), "/export/dir/sub", 0o755))(t)
	for name, n := range map[string]int{"empty": 0, "short": 5, "long": 1201} {
		f := must(c.Create(t.Context(), dir, name, 0o644, true))(t)
		must(c.WriteFrom(t.Context(), f, strings.NewReader(digits(n)), 0, int64(n), nil))(t)
	}
	for i := range 20 {
		must(c.Create(t.Context(), c.Root(), fmt.Sprintf("%0200d", i), 0o600, true))(t)
	}
	must(c.Symlink(t.Context(), c.Root(), "link", "dir/sub/long"))(t)
	return c
}

func digits(n int) string { return strings.Repeat("0123456789", n/10+1)[:n] }

// TestFS: the suite of the standard library, on the export and on a directory of it.
func TestFS(t *testing.T) {
	fsys := filled(t).FS(t.Context())
	if err := fstest.TestFS(fsys, "dir/sub/empty", "dir/sub/short", "dir/sub/long", "link", strings.Repeat("0", 200)); err != nil {
		t.Error(err)
	}
	sub := must(fs.Sub(fsys, "dir"))(t)
	if err := fstest.TestFS(sub, "sub/long"); err != nil {
		t.Error(err)
	}
}

// TestFSFile: reading, seeking, and what a file refuses.
func TestFSFile(t *testing.T) {
	fsys := filled(t).FS(t.Context())
	f := must(fsys.Open("link"))(t)
	if err := iotest.TestReader(f, []byte(digits(1201))); err != nil { // Seek and ReadAt too
		t.Error(err)
	}
	if _, err := f.(io.Seeker).Seek(1191, io.SeekStart); err != nil {
		t.Error(err)
	}
	var out bytes.Buffer
	if n, err := io.Copy(&out, f); n != 10 || err != nil || out.String() != digits(1201)[1191:] {
		t.Errorf("%d, %v, %q", n, err, out.String())
	}
	if _, err := f.(io.Seeker).Seek(-1, io.SeekStart); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := f.Read(make([]byte, 1)); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	for name, want := range map[string]error{"none": fs.ErrNotExist, "../x": fs.ErrInvalid, "/dir": fs.ErrInvalid, "dir/sub/long/x": nil} {
		_, err := fsys.Open(name)
		pe, ok := errors.AsType[*fs.PathError](err)
		if !ok || pe.Path != name || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := fs.ReadFile(fsys, "dir"); err == nil {
		t.Error("a directory was read")
	}
	if target, err := fs.ReadLink(fsys, "link"); target != "dir/sub/long" || err != nil {
		t.Error(target, err)
	}
	if _, err := fs.ReadLink(fsys, "dir"); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
}

// TestHostileFS: walks over directories without end.
func TestHostileFS(t *testing.T) {
	s := &backendtest.Liar{Page: func(c uint64) ([]backendtest.Entry, bool) {
		return []backendtest.Entry{{Name: strings.Repeat("deep", 50), Cookie: 1, Dir: true}}, true
	}}
	c := dialHostile(t, s, false, nil)
	err := fs.WalkDir(c.FS(t.Context()), ".", func(_ string, _ fs.DirEntry, err error) error { return err })
	if !errors.Is(err, nfsclient.ErrDirEndless) {
		t.Errorf("%.200v", err)
	}
	c = dialHostile(t, &backendtest.Liar{Page: func(c uint64) ([]backendtest.Entry, bool) {
		return []backendtest.Entry{{Name: "a", Cookie: 1 + c%2}}, false
	}}, false, nil)
	if _, err := fs.ReadDir(c.FS(t.Context()), "."); !errors.Is(err, nfsclient.ErrDirLoop) {
		t.Error(err)
	}
}
