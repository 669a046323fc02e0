package transport_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

// recorded returns an address behind which is addr, and what is said to it is recorded for the judge, if anything is
// (make judged).
func recorded(t testing.TB, addr string) string {
	t.Helper()
	return rdmaptest.Recorded(t, "", addr)
}
