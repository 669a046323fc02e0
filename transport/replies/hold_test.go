package replies

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/redial"
)

// A reply that names a record of another life, or one whose number another reply has, is
// returned with ErrNotKept; one that is given up ends with its context.
func TestNotKept(t *testing.T) {
	mem := pmemtest.NewSim(20480+4096, nil)
	if err := Create(mem, &commitlog.Options{}); err != nil {
		t.Fatal(err)
	}
	c, err := Open(&Config{Memory: mem, Redial: redial.Config{
		Dial: func(context.Context) (redial.Conn, error) { return nil, errors.New("none") },
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.mu.Lock()
	c.life = 5
	c.kept.arrived(1, 77)
	c.mu.Unlock()
	for _, test := range []struct {
		n    name
		xid  uint32
		want error
	}{
		{name{5, 1}, 77, nil},
		{name{4, 1}, 77, nil}, // of an earlier life, and there
		{name{5, 1}, 78, ErrNotKept},
		{name{4, 2}, 78, ErrNotKept},
		{name{5, 2}, 78, context.DeadlineExceeded},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if err := c.hold(ctx, test.n, test.xid); !errors.Is(err, test.want) {
			t.Errorf("%+v %d: %v, want %v", test.n, test.xid, err, test.want)
		}
		cancel()
	}
}
