package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/cli"
)

// TestMemory: what the device takes of its own is out of a server's limit, whatever the limit is.
func TestMemory(t *testing.T) {
	for limit, want := range map[int64]int64{1 << 30: 64 << 20, 256 << 20: 64 << 20, 64 << 20: 16 << 20, 2 << 20: 4 << 20} {
		if got := cards().Memory(limit); got != want {
			t.Errorf("of %d the device takes %d, want %d", limit, got, want)
		}
	}
}

// TestNoDevice: where no device has the address, the commands say so, and what to do.
func TestNoDevice(t *testing.T) {
	if l, err := cards().Listen(t.Context(), "127.0.0.1:0"); err == nil || l != nil {
		t.Errorf("Listen: %v, %v", l, err)
	}
	if c, err := cards().Dial(t.Context(), "127.0.0.1:1"); err == nil || c != nil {
		t.Errorf("Dial: %v, %v", c, err)
	}
	var out, errs bytes.Buffer
	if status := cli.MainCard(cards(), []string{"ls", "nfs+rdma://127.0.0.1:1/"}, strings.NewReader(""), &out, &errs); status != 1 || !strings.Contains(errs.String(), "RDMA") {
		t.Errorf("status %d, %s", status, errs.String())
	}
}
