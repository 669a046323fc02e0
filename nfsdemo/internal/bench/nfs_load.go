package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/internal/measure"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
)

// opKind is a procedure and how it is called.
type opKind int

const (
	opNone opKind = iota
	opGetAttr
	opLookup
	opRead
	opWrite     // UNSTABLE
	opWriteSync // FILE_SYNC
)

// op is a call.
type op struct {
	kind opKind
	size int // octets of data
}

// String names the call.
func (o op) String() string {
	switch o.kind {
	case opGetAttr:
		return "GETATTR"
	case opLookup:
		return "LOOKUP"
	case opRead:
		return "READ " + measure.Short(o.size)
	case opWriteSync:
		return "WRITE " + measure.Short(o.size) + " FILE_SYNC"
	default:
		return "WRITE " + measure.Short(o.size)
	}
}

// load is the connections of a column, with what is done on them.
type load struct {
	row row
	pid int
	fs  []*benchFile
}

// benchFile is a connection, and the file that its calls are about.
type benchFile struct {
	c    *nfsclient.Client
	n    *nfsclient.Node
	size int64
	next atomic.Int64 // how many pieces were read or written
}

// newLoad connects, and fills the files.
func newLoad(c *Column, r row, size int) (l *load, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	l = &load{row: r, pid: c.PID}
	for i := range r.connections {
		cl, err := dialColumn(ctx, c)
		if err != nil {
			return l, err
		}
		f := &benchFile{c: cl, size: int64(size)}
		l.fs = append(l.fs, f)
		if f.n, err = cl.Create(ctx, cl.Root(), fmt.Sprintf("bench.%d", i), 0o600, false); err != nil {
			return l, err
		}
		if f.n.Size() == int64(size) {
			continue
		}
		if _, err := cl.WriteFrom(ctx, f.n, nfsclient.Memory(make([]byte, size)), int64(size), nil); err != nil {
			return l, err
		}
	}
	return l, nil
}

func (l *load) close() {
	if l == nil {
		return
	}
	for _, f := range l.fs {
		f.c.Close() //nolint:errcheck // every answer is there
	}
}

// figures are those of one round.
type figures struct {
	rate           float64 // calls a second
	client, server measure.Usage
	calls          int
	p50, p99       float64 // microseconds
	beside         bool    // a stream
	bulk           float64 // its calls a second
}

// run puts the load on for dur.
func (l *load) run(dur time.Duration) (f figures, err error) {
	before, err := l.usage()
	if err != nil {
		return f, err
	}
	var calls atomic.Int64
	start := time.Now()
	if l.row.beside != (op{}) {
		err = l.runBeside(dur, &f, &calls)
	} else {
		err = l.drive(l.row.op, l.row.depth, dur, nil, func(time.Duration) { calls.Add(1) })
	}
	took := time.Since(start).Seconds()
	if err != nil {
		return f, err
	}
	after, err := l.usage()
	f.calls = int(calls.Load())
	f.rate = float64(f.calls) / took
	f.client, f.server = after[0].Since(before[0]), after[1].Since(before[1])
	return f, err
}

// usage returns what this process and the server have used.
func (l *load) usage() (u [2]measure.Usage, err error) {
	if l.pid == 0 {
		return u, nil
	}
	if u[0], err = measure.ProcessUsage(os.Getpid()); err == nil {
		u[1], err = measure.ProcessUsage(l.pid)
	}
	return u, err
}

// runBeside has one call in flight beside a bulk stream on the same connection.
func (l *load) runBeside(dur time.Duration, f *figures, calls *atomic.Int64) error {
	var bulk atomic.Int64
	var times []float64
	over := make(chan struct{})
	streamed := make(chan error, 1)
	start := time.Now()
	go func() {
		streamed <- l.drive(l.row.beside, bulkDepth, time.Hour, over, func(time.Duration) { bulk.Add(1) })
	}()
	err := l.drive(l.row.op, 1, dur, nil, func(d time.Duration) {
		calls.Add(1)
		times = append(times, float64(d.Nanoseconds())/1e3)
	})
	close(over)
	err = errors.Join(err, <-streamed)
	f.beside, f.bulk = true, float64(bulk.Load())/time.Since(start).Seconds()
	if len(times) > 0 {
		slices.Sort(times)
		f.p50, f.p99 = times[len(times)/2], times[len(times)*99/100]
	}
	return err
}

// drive keeps depth calls in flight on each connection, for dur or until over is closed, and calls
// done with the time of each.
func (l *load) drive(o op, depth int, dur time.Duration, over <-chan struct{}, done func(time.Duration)) error {
	ctx, cancel := context.WithTimeout(context.Background(), dur+openTime)
	defer cancel()
	errs := make([]error, len(l.fs)*depth)
	var wg sync.WaitGroup
	start := time.Now()
	for i := range errs {
		wg.Go(func() {
			f, buf := l.fs[i%len(l.fs)], make([]byte, o.size)
			n := *f.n
			for last := start; errs[i] == nil && last.Sub(start) < dur; {
				select {
				case <-over:
					return
				default:
				}
				errs[i] = f.call(ctx, &n, o, buf)
				now := time.Now()
				done(now.Sub(last))
				last = now
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// call makes one call.
func (f *benchFile) call(ctx context.Context, n *nfsclient.Node, o op, buf []byte) (err error) {
	var off int64
	if o.size > 0 {
		off = f.next.Add(1) % (f.size / int64(o.size)) * int64(o.size)
	}
	switch o.kind {
	case opGetAttr:
		err = f.c.Refresh(ctx, n)
	case opLookup:
		_, err = f.c.Child(ctx, f.c.Root(), path.Base(f.n.Path))
	case opRead:
		_, err = f.c.ReadAt(ctx, n, buf, off)
	case opWriteSync:
		_, _, err = f.c.WriteAt(ctx, n, buf, off, nfs3.FileSync)
	default:
		_, _, err = f.c.WriteAt(ctx, n, buf, off, nfs3.Unstable)
	}
	return err
}
