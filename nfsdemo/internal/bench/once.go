package bench

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/stag-rdma/stag/internal/measure"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
)

// onceCases measure what the journal of intents adds to a call that it covers. They have no gate.
func onceCases(at Place, o *Options) []measure.Case {
	n := max(o.Writes/10, 10)
	plain, journal := byCreate(at.NFS, "plain"), byCreate(at.Once, "once")
	return []measure.Case{
		gate(measure.Result{Name: "file, 1 client: CREATE with intents against without", Unit: "us", AtMost: true},
			latency(plain, n, payload), latency(journal, n, payload)),
		gate(measure.Result{Name: "file, 16 clients: CREATE with intents against without", Unit: "/s"},
			rate(plain, o.Rate), rate(journal, o.Rate)),
	}
}

// maker makes files.
type maker struct {
	c   *client
	dir *nfsclient.Node
	n   int
}

// byCreate makes empty files by CREATE, each maker in a directory of its own.
func byCreate(addr, name string) dialer {
	var dirs atomic.Int64
	return func(int) (writer, error) {
		ctx, cancel := context.WithTimeout(context.Background(), openTime)
		defer cancel()
		c, err := dial(ctx, addr, nil)
		if err != nil {
			return nil, err
		}
		d, err := c.Mkdir(ctx, c.Root(), fmt.Sprintf("%s.%d", name, dirs.Add(1)), 0o700)
		if err != nil {
			c.Close() //nolint:errcheck // the first error counts
			return nil, err
		}
		return &maker{c: c, dir: d}, nil
	}
}

// write makes a file and ignores its argument.
func (m *maker) write([]byte) error {
	m.n++
	_, err := m.c.Create(context.Background(), m.dir, fmt.Sprint(m.n), 0o600, true)
	return err
}

func (m *maker) apply() error { return nil }
func (m *maker) close()       { m.c.Close() } //nolint:errcheck // every answer is there
