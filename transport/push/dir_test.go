package push_test

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
	"github.com/stag-rdma/stag/transport/push"
)

// Logs in files outlive the server: records that were not released come again, the owner
// continues with its secret, which is not in the files.
func TestDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := start(t, &push.Server{Store: push.Dir(dir, pmem.File)})
	secret := push.NewSecret()
	s := w.dial("log", &push.Config{Capacity: 8192, Secret: secret})
	appended(t, s, commitlog.Persistent, 1, "one", "two")
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

	w = start(t, &push.Server{Store: push.Dir(dir, pmem.File)})
	s = w.dial("log", &push.Config{Secret: secret})
	appended(t, s, commitlog.Persistent, 3, "three")
	w.take("log", 2, "two", "three")
}

// A bit that flips in the digest of the secret, in the file or in a header, locks nobody out and lets nobody in.
func TestOwnerDamaged(t *testing.T) {
	t.Parallel()
	dir, secret := t.TempDir(), push.NewSecret()
	for off, name := range map[int64]string{9: "log.owner", 110: "log.log", 4096 + 110: "log.log"} {
		w := start(t, &push.Server{Store: push.Dir(dir, pmem.File)})
		_ = w.dial("log", &push.Config{Capacity: 8192, Secret: secret}).Close(t.Context())
		w.stop()
		path := filepath.Join(dir, name)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[off] ^= 1
		noErr(t, os.WriteFile(path, b, 0o600))
		w = start(t, &push.Server{Store: push.Dir(dir, pmem.File)})
		_ = w.dial("log", &push.Config{Secret: secret}).Close(t.Context())
		_, err = w.tryDial("log", &push.Config{Secret: push.NewSecret()})
		is(t, err, push.StatusRefused)
		w.stop()
	}
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
	store := push.Dir(dir, pmem.File)
	crash := errors.New("crash")
	err := store.Create("log", 1<<15, push.Origin{Owner: push.Owner{1}}, func(region.Memory) error { return crash })
	if !errors.Is(err, crash) {
		t.Fatal(err)
	}
	if names, err := store.Names(); len(names) != 0 || err != nil {
		t.Error(names, err)
	}
	if _, _, err := store.Open("log"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	w := start(t, &push.Server{Store: store})
	secret := push.NewSecret()
	s := w.dial("log", &push.Config{Secret: secret})
	appended(t, s, commitlog.Persistent, 1, "one")
	_ = s.Close(t.Context())
	w.stop()
	if err := store.Create("log", 1<<15, push.Origin{Owner: push.Owner{1}}, nil); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}

	noErr(t, os.WriteFile(filepath.Join(dir, "bad.owner"), make([]byte, 32), 0o600))
	ps := &push.Server{Store: store}
	if err := ps.Load(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if r := ask(ps, "192.0.2.1:1", openArgs{Name: "log", Secret: secret}); r.Status != push.StatusOK || r.Opened.Answer.NextSeq != 2 {
		t.Error(r.Status, r.Opened.Answer)
	}
	if r := ask(ps, "192.0.2.1:1", openArgs{Name: "bad", Secret: secret}); r.Status != push.StatusRefused {
		t.Error(r.Status)
	}
	if err := ps.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// Files without an owner, as crashes in the middle of a first OPEN leave them, are removed if nobody can have appended
// to them; all others are moved aside and counted. Their names are free.
func TestOwnerless(t *testing.T) {
	dir := t.TempDir()
	store := push.Dir(dir, pmem.File)
	ps := &push.Server{Store: store}
	made := func(name string) {
		if r := ask(ps, "192.0.2.1:1", openArgs{Name: name, Secret: push.Secret{1}}); r.Status != push.StatusOK {
			t.Fatal(name, r.Status)
		}
	}
	made("opened") // a session has begun, but it has no record
	made("full")
	r := ask(ps, "192.0.2.1:1", openArgs{Name: "full", Secret: push.Secret{1}})
	if st := appendRecords(t.Context(), ps, &appendArgs{Session: r.Opened.Session, Seq: 1, Records: [][]byte{[]byte("one")}}); st != push.StatusOK {
		t.Fatal(st)
	}
	made("stays")
	noErr(t, ps.Close(t.Context()))
	crash := errors.New("crash")
	if err := store.Create("unformatted", 1<<15, push.Origin{}, func(region.Memory) error { return crash }); !errors.Is(err, crash) {
		t.Fatal(err)
	}
	write := func(name string, b []byte) {
		noErr(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	write("short.log", nil)
	write("zeros.log", make([]byte, 100))
	write("garbage.log", []byte("something"))
	write(".full.owner-123", []byte("half an own"))
	for _, name := range []string{"opened", "full"} {
		noErr(t, os.Remove(filepath.Join(dir, name+".owner")))
	}
	for range 2 { // the second time finds them where they are
		ps = &push.Server{Store: store}
		if err := ps.Load(); err != nil {
			t.Error(err)
		}
		if st := ps.Stats(); st.Aside != 2 || st.Logs != 1 {
			t.Errorf("%+v", st)
		}
		noErr(t, ps.Close(t.Context()))
	}
	var names []string
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"full.log.aside", "garbage.log.aside", "stays.log", "stays.owner"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%q %v, want %q", names, err, want)
	}
	ps = &push.Server{Store: store}
	defer ps.Close(context.Background())
	made("full")
}
