package once_test

import (
	"testing"
	"time"

	"github.com/stag-rdma/stag/internal/pmemsim"
)

// A clock that is set back between two lives of the server makes the replies of the second no
// older in the third.
func TestClockSetBack(t *testing.T) {
	s := newShelf()
	sim := newSim(t, nil)
	h, j := start(t, s, sim, nil)
	restart := func() {
		sim = pmemsim.Open(sim.Told().Durable(), nil)
		h, j = start(t, s, sim, nil)
	}
	j.SetNow(func() int64 { return time.Now().Add(time.Hour).UnixNano() })
	send(h, 1, procMake, "a")
	restart()
	want := string(send(h, 2, procMake, "b"))
	restart()
	if got := string(send(h, 2, procMake, "b")); got != want {
		t.Errorf("a call runs twice: %x after %x", got, want)
	}
}
