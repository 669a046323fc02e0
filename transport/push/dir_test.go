package push

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// Logs in files outlive the server: records that were not released come again, the owner
// continues with its secret, which is not in the files.
func TestDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	consumed := make(chan string, 1)
	ps := func() *Server {
		return &Server{Store: Dir(dir, pmem.File), Consume: func(_ context.Context, l *Log) { consumed <- l.Name() }}
	}
	w := start(t, ps())
	var secret Secret
	s := w.dial("log", &Config{Capacity: 8192, Keep: func(k Secret) error { secret = k; return nil }})
	appended(t, s, commitlog.Persistent, 1, "one", "two")
	if name := <-consumed; name != "log" {
		t.Error(name)
	}
	if err := w.take("log", 1, "one", "two").Release(1); err != nil {
		t.Error(err)
	}
	_ = s.Close(t.Context())
	w.stop()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Fatal(entries, err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil || slices.Contains(chunked(b), string(secret[:])) {
			t.Error(e.Name(), "holds the secret", err)
		}
		if fi, _ := e.Info(); fi.Mode().Perm()&0o077 != 0 {
			t.Error(e.Name(), fi.Mode())
		}
	}

	w = start(t, ps())
	if name := <-consumed; name != "log" {
		t.Error(name)
	}
	s = w.dial("log", &Config{Secret: &secret})
	appended(t, s, commitlog.Persistent, 3, "three")
	w.take("log", 2, "two", "three")
}

// chunked returns all runs of 16 octets.
func chunked(b []byte) (all []string) {
	for i := 0; i+16 <= len(b); i++ {
		all = append(all, string(b[i:i+16]))
	}
	return all
}

// A crash in the middle of Create leaves nothing that counts, or is in the way; a damaged
// log does not keep the others from being served.
func TestDirCrash(t *testing.T) {
	dir := t.TempDir()
	store := Dir(dir, pmem.File)
	crash := errors.New("crash")
	err := store.Create("log", 1<<15, Owner{1}, func(region.Memory) error { return crash })
	if !errors.Is(err, crash) {
		t.Fatal(err)
	}
	if names, err := store.Names(); len(names) != 0 || err != nil {
		t.Error(names, err)
	}
	if _, _, err := store.Open("log"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	w := start(t, &Server{Store: store})
	var secret Secret
	s := w.dial("log", &Config{Keep: func(k Secret) error { secret = k; return nil }})
	appended(t, s, commitlog.Persistent, 1, "one")
	_ = s.Close(t.Context())
	w.stop()
	if err := store.Create("log", 1<<15, Owner{1}, nil); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}

	if err := os.WriteFile(filepath.Join(dir, "bad.owner"), make([]byte, 32), 0o600); err != nil {
		t.Fatal(err)
	}
	ps := &Server{Store: store, Limits: Limits{Opens: 10000}}
	if err := ps.Load(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := ps.Log("bad"); err == nil {
		t.Error("a damaged log")
	}
	if _, err := ps.Log("none"); !errors.Is(err, ErrNoLog) {
		t.Error(err)
	}
	if r := ask(ps, "192.0.2.1:1", openArgs{Name: "log", Secret: &secret}); r.Status != StatusOK || r.Opened.Answer.NextSeq != 2 {
		t.Error(r.Status, r.Opened.Answer)
	}
	if r := ask(ps, "192.0.2.1:1", openArgs{Name: "bad", Secret: &secret}); r.Status != StatusRefused {
		t.Error(r.Status)
	}
	if err := ps.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
