package cli

import (
	"runtime"
	"testing"
)

// TestSpareProcs: a server has spare processors, unless it was told how many to use.
func TestSpareProcs(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	t.Setenv("GOMAXPROCS", "2")
	spareProcs()
	if got := runtime.GOMAXPROCS(0); got != 2 {
		t.Errorf("told to use 2, uses %d", got)
	}
	t.Setenv("GOMAXPROCS", "")
	spareProcs()
	if got := runtime.GOMAXPROCS(leastProcs + 1); got != leastProcs {
		t.Errorf("uses %d, want %d", got, leastProcs)
	}
	spareProcs()
	if got := runtime.GOMAXPROCS(0); got != leastProcs+1 {
		t.Errorf("uses %[2]d of %[1]d processors", leastProcs+1, got)
	}
}
