package dir_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"golang.org/x/sys/unix"
)

// TestFewDescriptors: with less of them than the caches of two exports would take, every file can be read, and by
// default enough are left for connections (ADVERSARY 13).
func TestFewDescriptors(t *testing.T) {
	const files, spare = 300, 60
	root := t.TempDir()
	for i := range files {
		ok(t, os.WriteFile(filepath.Join(root, fmt.Sprint(i)), []byte("x"), 0o644))
	}
	var was unix.Rlimit
	ok(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	open, err := os.ReadDir("/proc/self/fd")
	ok(t, err)
	few := was
	few.Cur = uint64(len(open) + 2*spare)
	ok(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &was) //nolint:errcheck // it was so before
	read := func(cfg *dir.Config) *dir.FS {
		f, err := dir.New(root, cfg)
		ok(t, err)
		t.Cleanup(func() { f.Close() })
		for i := range files {
			n, _, err := f.Root().Lookup(fmt.Sprint(i))
			ok(t, err)
			_, err = n.Read(make([]byte, 8), 0)
			ok(t, err)
		}
		return f
	}
	first := read(&dir.Config{MaxFiles: 1000, MaxHeld: 1000})
	read(&dir.Config{MaxFiles: 1000, MaxHeld: 1000}).Close()
	first.Close()
	f := read(nil)
	defer f.Close()
	var spared []*os.File
	for range spare {
		s, err := os.Open("/dev/null")
		if err != nil {
			t.Fatalf("the caches leave %d descriptors: %v", len(spared), err)
		}
		spared = append(spared, s)
	}
	for _, s := range spared {
		s.Close()
	}
}
