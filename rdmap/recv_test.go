package rdmap_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// TestRecvGivenUp: of those in Recv who wait, the one who gives up takes no message with it.
func TestRecvGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := rdmaptest.Pipe()
		x, y := rdmaptest.Connect(t, a, b, nil, nil)
		over, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 1)
		go func() { _, err := y.Recv(over); errs <- err }()
		synctest.Wait() // it is the first in the list
		got := make(chan *verbs.Message, 1)
		go func() { m, _ := y.Recv(t.Context()); got <- m }()
		synctest.Wait()
		cancel()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		noErr(t, x.Send(t.Context(), []byte("m")))
		if m := <-got; m == nil || string(m.Data) != "m" {
			t.Error(m)
		}
	})
}
