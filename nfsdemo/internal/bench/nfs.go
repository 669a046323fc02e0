package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stag-rdma/stag/internal/measure"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// Column is an NFS server, and how it is called: one column of the table of [NFS].
type Column struct {
	Name   string
	URL    *nfsclient.URL    // of an export in which files may be made
	Config *transport.Config // of the client; nil: the defaults
	PID    int               // the server's process, on this machine; 0: what it uses is not known
}

// row is one load, put on each column in turn.
type row struct {
	op          op
	depth       int // calls in flight on each connection
	connections int
	beside      op // zero: no other load. Else depth 1 on the connection that it fills with bulkDepth calls
}

// bulkDepth is how many calls of a bulk stream are in flight.
const bulkDepth = 8

// rows are the rows of the table.
func rows() (rs []row) {
	const kib, mib = 1 << 10, 1 << 20
	plain := func(o op, depth int) row { return row{op: o, depth: depth, connections: 1} }
	write := func(size int) op { return op{kind: opWrite, size: size} }
	read := func(size int) op { return op{kind: opRead, size: size} }
	getattr := op{kind: opGetAttr}
	rs = []row{
		plain(write(4*kib), 8), plain(write(64*kib), 1), plain(write(64*kib), 8), plain(write(mib), 8),
		{op: write(64 * kib), depth: 8, connections: 4},
		plain(op{kind: opWriteSync, size: 4 * kib}, 8),
		plain(read(4*kib), 8), plain(read(64*kib), 1), plain(read(64*kib), 8), plain(read(mib), 8),
		plain(getattr, 1), plain(op{kind: opLookup}, 8), plain(getattr, 32),
		{op: getattr, depth: 32, connections: 4},
	}
	for _, bulk := range []op{read(mib), write(mib)} {
		for _, o := range []op{getattr, read(4 * kib)} {
			rs = append(rs, row{op: o, depth: 1, connections: 1, beside: bulk})
		}
	}
	return rs
}

// String names the row.
func (r row) String() string {
	if r.beside != (op{}) {
		return fmt.Sprintf("%v beside %v x %d", r.op, r.beside, bulkDepth)
	}
	s := fmt.Sprintf("%v x %d", r.op, r.depth)
	if r.connections > 1 {
		s += fmt.Sprintf(", %d connections", r.connections)
	}
	return s
}

// NFSOptions configure a run of [NFS]. Zero fields mean the defaults.
type NFSOptions struct {
	Rounds   int                // of each row and column; if zero, 9
	Length   time.Duration      // of a round; if zero, 300 ms
	Only     string             // only the rows whose names contain it
	FileSize int                // octets of a file, for which the servers need room four times; if zero, 64 MiB
	Progress func(done, of int) // called before each round, if not nil
}

func (o *NFSOptions) fill() NFSOptions {
	f := *o
	if f.Rounds == 0 {
		f.Rounds = 9
	}
	if f.Length == 0 {
		f.Length = 300 * time.Millisecond
	}
	if f.FileSize == 0 {
		f.FileSize = 64 << 20
	}
	return f
}

// NFS puts the same loads on every column, and on none at the same time: round by round, one column
// after the other. The loads are a number of calls in flight on one connection or on four, and calls
// of which one is in flight beside a bulk stream on the same connection. Errors: the first one of a
// connection or of a call, or one that wraps [measure.ErrNoCase].
func NFS(columns []Column, o *NFSOptions) (*measure.Table, error) {
	opt := o.fill()
	t := &measure.Table{}
	for _, c := range columns {
		t.Columns = append(t.Columns, c.Name)
		t.OverTCP = append(t.OverTCP, c.URL.Scheme == nfsclient.SchemeTCP)
	}
	var todo []row
	for _, r := range rows() {
		if strings.Contains(r.String(), opt.Only) {
			todo = append(todo, r)
		}
	}
	if len(todo) == 0 {
		return nil, fmt.Errorf("%w: %q", measure.ErrNoCase, opt.Only)
	}
	for i, r := range todo {
		cells, err := r.measure(columns, &opt, func(round int) {
			if opt.Progress != nil {
				opt.Progress(i*opt.Rounds+round, len(todo)*opt.Rounds)
			}
		})
		if err != nil {
			return nil, fmt.Errorf("%v: %w", r, err)
		}
		t.Rows = append(t.Rows, measure.Row{Name: r.String(), Octets: r.op.size, Latency: r.beside != (op{}), Cells: cells})
	}
	return t, nil
}

// measure runs the rounds of a row.
func (r row) measure(columns []Column, o *NFSOptions, told func(round int)) ([]measure.Cell, error) {
	loads, cells := make([]*load, len(columns)), make([]measure.Cell, len(columns))
	defer func() {
		for _, l := range loads {
			l.close()
		}
	}()
	for i := range columns {
		var err error
		if loads[i], err = newLoad(&columns[i], r, o.FileSize); err == nil {
			_, err = loads[i].run(o.Length / 4) // connections and caches warm up
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", columns[i].Name, err)
		}
	}
	for round := range o.Rounds {
		told(round)
		for i, l := range loads {
			f, err := l.run(o.Length)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", columns[i].Name, err)
			}
			add(&cells[i], f, columns[i].PID != 0)
		}
	}
	return cells, nil
}

// dialColumn mounts the export of a column over a socket of package measure.
func dialColumn(ctx context.Context, c *Column) (*nfsclient.Client, error) {
	caller, err := callColumn(ctx, c)
	if err != nil {
		return nil, err
	}
	mount := caller
	if c.URL.MountPort != 0 {
		nc, err := measure.Dial(c.URL.MountAddr())
		if err == nil {
			mount, err = transport.NewStreamClient(nc, nil)
		}
		if err != nil {
			return nil, errors.Join(err, caller.Close())
		}
		defer mount.Close() //nolint:errcheck // its answer is there
	}
	fh, err := nfsclient.NewMounter(mount, nfsclient.ProcessCred()).Mount(ctx, c.URL.Path)
	if err != nil {
		return nil, errors.Join(err, caller.Close())
	}
	return nfsclient.New(ctx, caller, fh, c.URL.Path, &nfsclient.Config{InFlight: bulkDepth})
}

func callColumn(ctx context.Context, c *Column) (caller rpc.Caller, err error) {
	nc, err := measure.Dial(c.URL.Addr())
	if err != nil {
		return nil, err
	}
	if c.URL.Scheme == nfsclient.SchemeRDMA {
		caller, err = transport.NewClient(ctx, nc, c.Config)
	} else {
		caller, err = transport.NewStreamClient(nc, c.Config)
	}
	if err != nil {
		nc.Close() //nolint:errcheck // the first error counts
		return nil, err
	}
	return caller, nil
}

// add adds a round to a cell.
func add(c *measure.Cell, f figures, costs bool) {
	c.Rate = append(c.Rate, f.rate)
	if f.beside {
		c.P50, c.P99, c.Bulk = append(c.P50, f.p50), append(c.P99, f.p99), append(c.Bulk, f.bulk)
		return // the costs are those of both loads
	}
	if n := float64(f.calls); costs && n > 0 {
		c.ClientCPU = append(c.ClientCPU, float64(f.client.CPU.Nanoseconds())/1e3/n)
		c.ServerCPU = append(c.ServerCPU, float64(f.server.CPU.Nanoseconds())/1e3/n)
		c.ClientSwitches = append(c.ClientSwitches, float64(f.client.Switches)/n)
		c.ServerSwitches = append(c.ServerSwitches, float64(f.server.Switches)/n)
	}
}
