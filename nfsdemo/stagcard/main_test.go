package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/cli"
)

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
	errs.Reset()
	if status := cli.MainCard(cards(), []string{"ls", "--card-memory", "1", "nfs+rdma://127.0.0.1:1/"}, strings.NewReader(""), &out, &errs); status != 2 || !strings.Contains(errs.String(), "want 8M") {
		t.Errorf("status %d, %s", status, errs.String())
	}
}
