package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

const (
	growRounds   = 3
	growOctets   = 256 << 20 // of one measurement, as far as growMessages allows
	growMessages = 100000
	growRead     = 64 << 10 // octets of a Read where connections grow
	growReaders  = 64
	gib          = 1 << 30
)

// Cost is what moving octets costs.
type Cost struct {
	Rate float64 // MB/s
	CPU  float64 // seconds of a processor per GiB, both ends together
}

// Point is one measurement of stag beside that of plain TCP.
type Point struct {
	X         int // octets of a message or of an FPDU, connections
	Ours, TCP Cost
}

// Growth is how cost grows with one thing.
type Growth struct {
	Name, Title, X string
	Points         []Point
}

// Grow measures how the cost of RDMA Writes grows with the size of messages and of FPDUs, on one processor,
// and how that of RDMA Reads grows with the number of connections to another process. With quick the run is
// short.
func Grow(p ScalePeer, quick bool, progress func(done, of int)) ([]Growth, error) {
	sizes := []int{64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20}
	fpdus := []int{512, 1428, 4 << 10, 8 << 10, 16 << 10, 32 << 10, rdmap.StagMULPDU - 14}
	conns := []int{1, 10, 100, 1000, 10000}
	octets := growOctets
	if quick {
		sizes, fpdus, conns, octets = []int{64, 1 << 20}, []int{1428, 8 << 10}, []int{1, 10}, 8<<20
	}
	gs := []Growth{
		{Name: "size", Title: "RDMA Write, 64 KiB FPDUs, CRC, one processor", X: "octets of a message"},
		{Name: "fpdu", Title: "RDMA Write of 1 MiB, CRC, one processor", X: "octets of payload in an FPDU"},
		{Name: "conns", Title: "RDMA Read of 64 KiB, 64 at a time, CRC, two processes", X: "connections"},
	}
	done, of := 0, len(sizes)+len(fpdus)+len(conns)
	point := func(g *Growth, x int, ours, tcp func() (Cost, error)) error {
		if progress != nil {
			progress(done, of)
		}
		done++
		pt := Point{X: x}
		var err error
		if pt.Ours, err = cheapest(ours); err == nil {
			pt.TCP, err = cheapest(tcp)
		}
		g.Points = append(g.Points, pt)
		return err
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, n := range sizes {
		total := min(octets, n*growMessages) / n * n
		if err := point(&gs[0], n,
			func() (Cost, error) { return growWrite(rdmap.StagMULPDU, n, total) },
			func() (Cost, error) { return growTCP(n, total) }); err != nil {
			return nil, err
		}
	}
	for _, n := range fpdus {
		if err := point(&gs[1], n,
			func() (Cost, error) { return growWrite(n+14, bulkSize, octets) },
			func() (Cost, error) { return growTCP(bulkSize, octets) }); err != nil {
			return nil, err
		}
	}
	runtime.GOMAXPROCS(runtime.NumCPU())
	for _, n := range conns {
		total := max(octets, n*growRead)
		if err := point(&gs[2], n,
			func() (Cost, error) { return growReads(p, n, total) },
			func() (Cost, error) { return growPulls(p, n, total) }); err != nil {
			return nil, err
		}
	}
	return gs, nil
}

// cheapest returns the median round by rate.
func cheapest(f func() (Cost, error)) (Cost, error) {
	var cs []Cost
	for range growRounds {
		c, err := f()
		if err != nil {
			return c, err
		}
		cs = append(cs, c)
	}
	slices.SortFunc(cs, func(a, b Cost) int { return int(a.Rate - b.Rate) })
	return cs[len(cs)/2], nil
}

// spent returns the cost of f, which moves total octets. other returns the processor time of another
// process, and may be nil.
func spent(total int, other func() (time.Duration, error), f func() error) (c Cost, err error) {
	cpu := func() (time.Duration, error) {
		n, err := cpuTime()
		if err == nil && other != nil {
			var m time.Duration
			m, err = other()
			n += m
		}
		return n, err
	}
	before, err := cpu()
	if err != nil {
		return c, err
	}
	start := time.Now()
	if err := f(); err != nil {
		return c, err
	}
	took := time.Since(start)
	after, err := cpu()
	return Cost{
		Rate: float64(total) / took.Seconds() / 1e6,
		CPU:  (after - before).Seconds() * gib / float64(total),
	}, err
}

// growWrite writes total octets in RDMA Writes of size.
func growWrite(mulpdu, size, total int) (Cost, error) {
	done := make(arrival, 1)
	e, err := newEngine(&rdmap.Config{Startup: rdmap.Startup{MULPDU: mulpdu}}, &rdmap.Config{Handler: done})
	if err != nil {
		return Cost{}, err
	}
	defer e.close()
	sink, err := e.to.Register(make([]byte, size), region.RemoteWrite)
	if err != nil {
		return Cost{}, err
	}
	body := make([]byte, size)
	return spent(total, nil, func() error {
		wr := verbs.WR{Op: verbs.OpWrite, Body: body, STag: sink.STag()}
		if err := e.inFlight(total/size, bulkDepth, wr); err != nil {
			return err
		}
		if err := e.from.Post([]verbs.WR{{Op: verbs.OpSend}}); err != nil {
			return err
		}
		return e.wait(done)
	})
}

// growTCP writes total octets in writes of size to a plain connection. From 1 MiB on its reader fills as
// much memory as the Writes do: memory that is not in the cache costs both.
func growTCP(size, total int) (Cost, error) {
	a, b, err := tcpPair()
	if err != nil {
		return Cost{}, err
	}
	defer a.Close()
	defer b.Close()
	buf, in := make([]byte, size), make([]byte, max(size, bulkSize))
	return spent(total, nil, func() error {
		done := make(chan error, 1)
		go func() {
			var err error
			for n := 0; n < total && err == nil; {
				var k int
				k, err = b.Read(in[n%len(in):])
				n += k
			}
			done <- err
		}()
		for n := 0; n < total; n += size {
			if _, err := a.Write(buf); err != nil {
				return err
			}
		}
		return <-done
	})
}

// peerCPU returns the processor time of the other process.
func peerCPU(p ScalePeer) (cpu func() (time.Duration, error), hangUp func(), err error) {
	c, err := dialRDMA(p.RDMA, nil)
	if err != nil {
		return nil, nil, err
	}
	return func() (time.Duration, error) {
		u, err := peerUsage(c)
		return u.cpu, err
	}, func() { c.Close() }, nil
}

// growReads reads total octets over n connections.
func growReads(p ScalePeer, n, total int) (c Cost, err error) {
	cpu, hangUp, err := peerCPU(p)
	if err != nil {
		return c, err
	}
	defer hangUp()
	ss := make([]*stream, n)
	defer func() {
		_ = each(n, dialers, func(i int) error {
			if ss[i] != nil {
				ss[i].c.Abort(nil)
			}
			return nil
		}, nil)
	}()
	if err := each(n, dialers, func(i int) (err error) {
		ss[i], err = dialTarget(localFor(i), p.Target)
		return err
	}, nil); err != nil {
		return c, err
	}
	var sinks [growReaders][growRead]byte
	return spent(total, cpu, func() error {
		return each(total/growRead, growReaders, func(i int) error {
			s := ss[i%n]
			return s.c.Read(context.Background(), sinks[i%growReaders][:], s.stag, 0)
		}, nil)
	})
}

// growPulls asks for total octets over n plain connections.
func growPulls(p ScalePeer, n, total int) (c Cost, err error) {
	cpu, hangUp, err := peerCPU(p)
	if err != nil {
		return c, err
	}
	defer hangUp()
	cs := make([]net.Conn, n)
	defer func() {
		for _, c := range cs {
			if c != nil {
				c.Close()
			}
		}
	}()
	if err := each(n, dialers, func(i int) (err error) {
		cs[i], err = dialFrom(localFor(i), p.Pulls)
		return err
	}, nil); err != nil {
		return c, err
	}
	// A connection has one answer in progress: with fewer connections, there are fewer at a time.
	readers := min(growReaders, n)
	var sinks [growReaders][growRead]byte
	return spent(total, cpu, func() error {
		return each(total/growRead, readers, func(i int) error {
			c := cs[i%n]
			if _, err := c.Write(sinks[0][:pullRequest]); err != nil {
				return err
			}
			if _, err := io.ReadFull(c, sinks[i%readers][:]); err != nil {
				return fmt.Errorf("bench: pull: %w", err)
			}
			return nil
		}, nil)
	})
}
