package nfsclient_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
)

// An answer to OPEN that names a lease which was given back before the answer is here is not
// believed: the server would condemn the log for the first record.
func TestPushLateAnswer(t *testing.T) {
	w := newPushWorld(t, nil)
	c := w.client(new(owner), nil)
	n := made(t, c, "a")
	f, err := c.OpenPush(t.Context(), n, 0)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := c.AskAgain(t.Context(), f, n) // its answer is held up
	if err != nil || lease != f.Lease() {
		t.Fatalf("granted lease %d, but holds %d: %v", lease, f.Lease(), err)
	}
	if err := f.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.Answered(lease) {
		t.Error("accepted a lease that was returned")
	}
	f, err = c.OpenPush(t.Context(), n, 0)
	if err != nil || f.Lease() == lease {
		t.Fatal("opened again:", err)
	}
	if _, _, err := f.WriteAt(t.Context(), []byte("octets"), 0); err != nil {
		t.Error(err)
	}
	if err := f.Close(t.Context()); err != nil || c.LeasesOver() != 0 {
		t.Error(err, c.LeasesOver())
	}
	if got := string(content(t, c, n)); got != "octets" {
		t.Errorf("%q", got)
	}
}

// A RETURN that was given up may still reach the server: nobody opens the file before it has.
func TestPushReturnGivenUp(t *testing.T) {
	w := newPushWorld(t, nil)
	c := w.client(new(owner), nil)
	n := made(t, c, "a")
	f, err := c.OpenPush(t.Context(), n, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	taken := 0 // times that the file was seen to be taken still
	for range 20 {
		was := f.Lease()
		if err := f.GiveBack(ctx); err != nil && !errors.Is(err, context.Canceled) { // nil: it was faster
			t.Fatal(err)
		}
		if c.Has(was, f) {
			taken++
		}
		if f = reopened(t, c, n); f.Lease() == was {
			t.Error("the file is open under the lease that is being given back")
		}
	}
	if taken == 0 {
		t.Error("the file is free while a RETURN may come")
	}
	if err := f.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// reopened opens n when the lease before has been given back.
func reopened(t *testing.T, c *nfsclient.Client, n *nfsclient.Node) *nfsclient.PushFile {
	t.Helper()
	for {
		f, err := c.OpenPush(t.Context(), n, 0)
		if err == nil {
			return f
		}
		if !errors.Is(err, nfsclient.ErrNoPush) && !errors.Is(err, pushfile.StatusBusy) {
			t.Fatal(err)
		}
	}
}
