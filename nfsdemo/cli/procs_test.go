package cli_test

import (
	"runtime"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/cli"
)

// TestSpareProcs: a server has spare processors, unless it was told how many to use.
func TestSpareProcs(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	t.Setenv("GOMAXPROCS", "2")
	cli.SpareProcs()
	if got := runtime.GOMAXPROCS(0); got != 2 {
		t.Errorf("told to use 2, uses %d", got)
	}
	t.Setenv("GOMAXPROCS", "")
	cli.SpareProcs()
	if got := runtime.GOMAXPROCS(cli.LeastProcs + 1); got != cli.LeastProcs {
		t.Errorf("uses %d, want %d", got, cli.LeastProcs)
	}
	cli.SpareProcs()
	if got := runtime.GOMAXPROCS(0); got != cli.LeastProcs+1 {
		t.Errorf("uses %[2]d of %[1]d processors", cli.LeastProcs+1, got)
	}
}
