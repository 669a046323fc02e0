package juicefs_test

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/juicedata/juicefs/pkg/utils"
	"github.com/sirupsen/logrus"
	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/backendtest"
	"github.com/stag-rdma/stag/nfsdemo/backend/juicefs"
	"github.com/stag-rdma/stag/nfsdemo/backend/juicefs/internal/engines"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

func TestMain(m *testing.M) {
	utils.SetLogLevel(logrus.ErrorLevel)
	os.Exit(m.Run())
}

// rig is a volume for many tests, each in a directory of its own.
type rig struct {
	uri  string
	v    *juicefs.Volume
	dirs map[backend.FS]string
	n    atomic.Int64
}

func newRig(t *testing.T, uri, kind, bucket string) *rig {
	engines.Format(t, uri, kind, bucket)
	r := &rig{uri: uri, dirs: make(map[backend.FS]string)}
	r.v = r.open(t)
	t.Cleanup(func() {
		if err := r.v.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) open(t *testing.T) *juicefs.Volume {
	t.Helper()
	v, err := juicefs.Open(t.Context(), r.uri, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// newFS makes an empty directory.
func (r *rig) newFS(t *testing.T) backend.FS {
	t.Helper()
	name := fmt.Sprintf("d%d", r.n.Add(1))
	root, err := r.v.FS("/")
	if err != nil {
		t.Fatal(err)
	}
	in := &backend.Init{Type: nfs3.TypeDir}
	in.Attr.SetMode, in.Attr.Mode = true, 0o777
	if _, _, err := root.Root().Create(name, in); err != nil {
		t.Fatal(err)
	}
	return r.fs(t, r.v, name)
}

func (r *rig) fs(t *testing.T, v *juicefs.Volume, name string) backend.FS {
	t.Helper()
	f, err := v.FS(name)
	if err != nil {
		t.Fatal(err)
	}
	r.dirs[f] = name
	return f
}

// reopen opens the files at another server, after the first has written what it holds.
func (r *rig) reopen(t *testing.T, f backend.FS) backend.FS {
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	v := r.open(t)
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return r.fs(t, v, r.dirs[f])
}

func (r *rig) suite(t *testing.T) {
	t.Run("Locker", func(t *testing.T) { testLocker(t, r) })
	backendtest.Run(t, backendtest.Options{New: r.newFS, Reopen: r.reopen, Big: 500})
}

func TestSuite(t *testing.T) {
	uri := engines.Postgres(t)
	newRig(t, uri, "file", t.TempDir()+"/").suite(t)
}
