//go:build unix

package cli

import (
	"syscall"
	"testing"

	"github.com/stag-rdma/stag/internal/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, Main) }

// TestBenchInterrupted: a benchmark that is interrupted ends, and takes its files with it, also when an append waits
// for a peer that is gone.
func TestBenchInterrupted(t *testing.T) {
	for _, tt := range []struct {
		signal      syscall.Signal
		args, under string
	}{
		{syscall.SIGTERM, "bench commit --rounds 100000 --only memory", "*"},
		{syscall.SIGINT, "bench commit --rounds 100000 --only file", "*/*"},
	} {
		t.Run(tt.args, func(t *testing.T) { clitest.Interrupt(t, tt.signal, tt.args, tt.under, 1) })
	}
}
