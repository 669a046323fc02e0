//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/internal/exports"
	"github.com/stag-rdma/stag/transport"
)

// TestReloadHangs: a configuration that cannot be read to its end keeps a server from nothing, and the next one counts.
func TestReloadHangs(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	noErr(t, syscall.Mkfifo(pipe, 0o600))
	again := func() ([]exports.Export, error) {
		_, err := os.ReadFile(pipe)
		return one(dir), err
	}
	s := started(t, &serviceConfig{exports: one(dir), again: again, rdma: "127.0.0.1:0", config: &transport.Config{}})
	for range 2 {
		done := make(chan error, 1)
		go func() {
			_, err := s.reload()
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil {
				t.Error("it was read")
			}
		case <-time.After(20 * time.Second):
			t.Fatal("it waits")
		}
	}
	if err := os.WriteFile(pipe, nil, 0o600); err != nil { // the read that hangs ends
		t.Fatal(err)
	}
	for s.reading.Load() {
		time.Sleep(time.Millisecond)
	}
}
