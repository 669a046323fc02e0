//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestSpecialFilesAreLeftOut copies a tree with a file that cannot be copied.
func TestSpecialFilesAreLeftOut(t *testing.T) {
	dir, rdma, _ := start(t)
	src := t.TempDir()
	if err := os.WriteFile(filepath.Join(src, "unreadable"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(src, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := command(t.Context(), "", "cp", "-r", src, rdma); r.status != exitFailed || !strings.Contains(r.stderr, "fifo: skipped: a named pipe") {
		t.Errorf("status %d, %s", r.status, r.stderr)
	}
	if !exists(filepath.Join(dir, filepath.Base(src), "unreadable")) {
		t.Error("the file beside it was not copied")
	}
}
