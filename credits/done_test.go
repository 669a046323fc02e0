package credits_test

import (
	"testing"

	"github.com/stag-rdma/stag/credits"
)

// RFC 5666 Section 3.8: an RDMA_DONE needs a credit and gets no answer. It is
// counted until the next grant.
func TestDoneCounts(t *testing.T) {
	r := credits.NewRequester(4)
	r.KeepDone(true)
	r.Grant(4)
	for range 3 {
		if !r.Take() {
			t.Fatal("no credit inside the window")
		}
	}
	if r.Take() {
		t.Error("a call took the credit kept for RDMA_DONE")
	}
	if !r.TakeDone() || r.TakeDone() {
		t.Error("other than one RDMA_DONE fits beside three calls")
	}
	r.Release()
	want(t, "Available before the next grant", r.Available(), 0)
	r.Grant(4)
	want(t, "Available after it", r.Available(), 1)
}

// With one credit the RDMA_DONE goes out between two calls.
func TestDoneWindowOfOne(t *testing.T) {
	r := credits.NewRequester(4)
	r.KeepDone(true)
	if !r.Take() || r.TakeDone() {
		t.Fatal("one credit, and not for the call alone")
	}
	r.Grant(1)
	r.Release()
	if !r.TakeDone() || r.TakeDone() {
		t.Error("the credit of the answered call is not that of its RDMA_DONE")
	}
	// No grant is under way that could free the credit: one call may go.
	if !r.Take() || r.Take() {
		t.Error("other than one call behind the RDMA_DONE")
	}
	r.Reset()
	if !r.Take() || r.Available() != 0 {
		t.Error("a reconnect kept the RDMA_DONE")
	}
}
