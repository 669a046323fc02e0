package nfsclient

import (
	"context"
	"errors"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
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
	c.push.opens()
	res, err := c.push.grant(t.Context(), f.session, n.FH, 0) // its answer is held up
	if err != nil || res.Lease != f.lease {
		t.Fatalf("granted lease %d, but holds %d: %v", res.Lease, f.lease, err)
	}
	if err := f.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.push.opened(&PushFile{lease: res.Lease}) {
		t.Error("accepted a lease that was returned")
	}
	f, err = c.OpenPush(t.Context(), n, 0)
	if err != nil || f.lease == res.Lease {
		t.Fatal("opened again:", err)
	}
	if _, _, err := f.WriteAt(t.Context(), []byte("octets"), 0); err != nil {
		t.Error(err)
	}
	if err := f.Close(t.Context()); err != nil || len(c.push.over) != 0 {
		t.Error(err, c.push.over)
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
		was := f.lease
		f.shut()
		if err := f.giveBack(ctx); err != nil && !errors.Is(err, context.Canceled) { // nil: it was faster
			t.Fatal(err)
		}
		c.push.mu.Lock()
		if c.push.files[was] == f {
			taken++
		}
		c.push.mu.Unlock()
		if f = reopened(t, c, n); f.lease == was {
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
func reopened(t *testing.T, c *Client, n *Node) *PushFile {
	t.Helper()
	for {
		f, err := c.OpenPush(t.Context(), n, 0)
		if err == nil {
			return f
		}
		if !errors.Is(err, ErrNoPush) && !errors.Is(err, pushfile.StatusBusy) {
			t.Fatal(err)
		}
	}
}
