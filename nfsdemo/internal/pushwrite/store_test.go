package pushwrite_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
	"github.com/stag-rdma/stag/nfsdemo/internal/pushwrite"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestStoreOver: ended leases are soon in the file, even if no more leases are granted.
func TestStoreOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	p, c := w.plain(0), w.pusher("log", 0)
	if st := c.giveBack(c.lease(p.create("f", 0o644))); st != pushfile.StatusOK {
		t.Fatal(st)
	}
	until(t, "no lease in the file", func() bool {
		n, err := pushwrite.LeasesIn(w.cfg.Dir)
		if err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
}

// TestStoreStart: a server starts over a file with damage in one place and says so; over one that nobody can read, or without
// one beside logs, it does not, and leaves everything as it is.
func TestStoreStart(t *testing.T) {
	w := newWorld(t, nil)
	p, c := w.plain(0), w.pusher("log", 0)
	h := p.create("f", 0o644)
	write, _ := full(nfs3.ErrNoSpc)
	w.files.fail(write, nil)
	c.wrote(c.lease(h), 0, "kept")
	w.stop()
	path := filepath.Join(w.cfg.Dir, pushwrite.StoreName)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(good)
	bad[0], bad[4096] = 1, 1 // both headers
	for _, content := range [][]byte{bad, nil} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if content != nil {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := pushwrite.Open(&w.cfg); !errors.Is(err, pushwrite.ErrStore) {
			t.Fatal("it has started:", err)
		}
		if left, _ := os.ReadFile(path); !bytes.Equal(left, content) {
			t.Error("the damaged file was changed")
		}
		if err := os.WriteFile(path, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mended := bytes.Clone(good)
	mended[20480+30] ^= 1
	if err := os.WriteFile(path, mended, 0o600); err != nil {
		t.Fatal(err)
	}
	core, logged := observer.New(zap.WarnLevel)
	w.cfg.Logger = zap.New(core)
	w.start(nil)
	p.has(h, "kept")
	if logged.FilterMessageSnippet("mended").Len() != 1 {
		t.Error("not said:", logged.All())
	}
}
