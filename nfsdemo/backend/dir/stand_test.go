package dir_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// TestCheck: what is served is what stands at the path, and no longer when something else does.
func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		change func(path string) error
		stands bool
	}{
		"nothing":   {func(string) error { return nil }, true},
		"a file":    {func(p string) error { return os.WriteFile(p+"/f", nil, 0o600) }, true},
		"moved":     {func(p string) error { return os.Rename(p, p+".old") }, false},
		"removed":   {os.Remove, false},
		"made anew": {func(p string) error { _ = os.Rename(p, p+".old"); return os.Mkdir(p, 0o700) }, false},
		"a link": {func(p string) error {
			_ = os.Rename(p, p+".old")
			return os.Symlink(p+".old", p)
		}, true},
		"another link": {func(p string) error { _ = os.Rename(p, p+".old"); return os.Symlink(filepath.Dir(p), p) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "export")
			ok(t, os.Mkdir(path, 0o700))
			f, err := dir.New(path, nil)
			ok(t, err)
			ok(t, f.Check())
			ok(t, c.change(path))
			if err := f.Check(); (err == nil) != c.stands {
				t.Error(err)
			}
			ok(t, f.Close())
			if f.Check() == nil {
				t.Error("it is closed")
			}
		})
	}
}

// TestFSID: handles are of one file system, which the administrator may name.
func TestFSID(t *testing.T) {
	path := t.TempDir()
	at := func(fsid string) *dir.FS {
		f, err := dir.New(path, &dir.Config{Key: secret, FSID: fsid})
		ok(t, err)
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	h := at("a").Root().AppendHandle(nil)
	_, err := at("a").Resolve(nil, h)
	ok(t, err)
	for _, other := range []string{"b", ""} {
		_, err := at(other).Resolve(nil, h)
		want(t, err, nfs3.ErrStale)
	}
}
