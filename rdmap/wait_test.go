package rdmap

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/drive"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

// TestWaitAfterFailure: after the connection has failed, a waiter leaves the reading role to finish, and does not take it
// again and again only to find nothing to read.
func TestWaitAfterFailure(t *testing.T) {
	a, b := rdmaptest.Pipe()
	c, peer := connect(t, a, b, nil, nil)
	defer peer.Abort(nil)
	cause := errors.New("over")
	c.mu.Lock()
	c.snd.Fail(cause, false, false, nil) // as end does before finish runs
	c.mu.Unlock()
	w, done := new(Waiter), make(chan error, 1)
	w.Reset()
	go func() { done <- c.Wait(context.Background(), w) }()
	queued := func() bool {
		c.reader.mu.Lock()
		defer c.reader.mu.Unlock()
		return c.reader.first == w && c.reader.State() != drive.Waiter
	}
	for until := time.Now().Add(time.Minute); !queued(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Error("a waiter takes the role of a connection that has failed")
			break
		}
	}
	go c.finish()
	if err := <-done; !errors.Is(err, cause) {
		t.Errorf("it ends with %v", err)
	}
}
