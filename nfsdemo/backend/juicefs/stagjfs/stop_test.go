package main

import (
	"bytes"
	"syscall"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// TestStop: a server that is asked to stop makes stable what it holds.
func TestStop(t *testing.T) {
	uri := newVolume(t)
	a, b := start(t, uri), start(t, uri)
	c := dial(t, a)
	f, err := c.Create(t.Context(), c.Root(), "f", 0o644, false)
	noErr(t, err)
	data := bytes.Repeat([]byte("unstable"), 1000)
	if n, _, err := c.WriteAt(t.Context(), f, data, 0, nfs3.Unstable); n != len(data) || err != nil {
		t.Fatal(n, err)
	}
	noErr(t, a.cmd.Process.Signal(syscall.SIGTERM))
	if err := a.cmd.Wait(); err != nil {
		t.Errorf("the server: %v", err)
	}
	got := make([]byte, len(data))
	if _, err := dial(t, b).ReadAt(t.Context(), f, got, 0); err != nil || !bytes.Equal(got, data) {
		t.Errorf("at the other server: %q..., %v", got[:16], err)
	}
}
