//go:build unix

package cli_test

import (
	"syscall"
	"testing"

	"github.com/stag-rdma/stag/internal/clitest"
	"github.com/stag-rdma/stag/nfsdemo/cli"
)

func TestMain(m *testing.M) { clitest.Main(m, cli.Main) }

// TestNoLitter: an interrupted command removes its temporary files.
func TestNoLitter(t *testing.T) {
	for _, tt := range []struct {
		signal      syscall.Signal
		args, under string
	}{
		{syscall.SIGTERM, "demo", "*/*"},
		{syscall.SIGINT, "demo", "*"},
	} {
		t.Run(tt.args, func(t *testing.T) { clitest.Interrupt(t, tt.signal, tt.args, tt.under, 128+int(tt.signal)) })
	}
}
