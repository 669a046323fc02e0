package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stag-rdma/stag/internal/pmemsim"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/commitlog"
)

const (
	commitPayload = 4096
	commitReply   = 100
	commitRing    = 4 << 20
	// consumeEvery is how often the consumer looks at the log: if every record woke it, this would measure
	// the scheduler.
	consumeEvery = 10 * time.Millisecond
)

// CommitPeer has the addresses at which the process of the consumer listens.
type CommitPeer struct {
	Echo string `json:"echo"` // plain TCP, commitPayload octets answered with commitReply
	Sim  string `json:"sim"`  // a commit log in a crash model, one for each connection
	RAM  string `json:"ram"`  // in plain memory
	File string `json:"file"` // in a file of the directory
	Bare string `json:"bare"` // Echo that makes its input durable in a file before it answers

	// The same, by processes that poll for input before they sleep.
	EchoPoll string `json:"echoPoll"`
	SimPoll  string `json:"simPoll"`
	FilePoll string `json:"filePoll"`
	BarePoll string `json:"barePoll"`

	// BarePoll that writes past the page cache.
	DirectPoll string `json:"directPoll"`
}

// pollFor is how long to poll. An fdatasync should be over by then.
const pollFor = 400 * time.Microsecond

// ServeCommit starts the services of the consumer, with files in dir. They end when stop is called.
func ServeCommit(dir string) (p CommitPeer, stop func(), err error) {
	var ls [10]net.Listener
	for i := range ls {
		if ls[i], err = listen(); err != nil {
			return p, nil, err
		}
	}
	size, err := commitlog.MemorySize(commitRing)
	if err != nil {
		return p, nil, err
	}
	sim := func() region.Memory { return pmemsim.New(size, nil) }
	ram := func() region.Memory { return make(region.Bytes, size) }
	serve := []func(net.Conn){
		func(c net.Conn) { serveEcho(c, commitPayload, commitReply) },
		func(c net.Conn) { report(serveLog(c, sim(), 0)) },
		func(c net.Conn) { report(serveLog(c, ram(), 0)) },
		func(c net.Conn) { report(serveFile(c, dir, size, 0)) },
		func(c net.Conn) { report(serveBare(c, dir, overwrite)) },
		func(c net.Conn) { serveEcho(looking(c), commitPayload, commitReply) },
		func(c net.Conn) { report(serveLog(c, sim(), pollFor)) },
		func(c net.Conn) { report(serveFile(c, dir, size, pollFor)) },
		func(c net.Conn) { report(serveBare(looking(c), dir, overwrite)) },
		func(c net.Conn) { report(serveBare(looking(c), dir, direct)) },
	}
	for i, f := range serve {
		go acceptAll(ls[i], f)
	}
	at := func(i int) string { return ls[i].Addr().String() }
	p = CommitPeer{
		Echo: at(0), Sim: at(1), RAM: at(2), File: at(3), Bare: at(4),
		EchoPoll: at(5), SimPoll: at(6), FilePoll: at(7), BarePoll: at(8), DirectPoll: at(9),
	}
	return p, func() {
		for _, l := range ls {
			l.Close()
		}
	}, nil
}

func report(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: consumer:", err)
	}
}

func serveFile(c net.Conn, dir string, size int, poll time.Duration) error {
	mem, done, err := fileIn(dir, size)
	if err != nil {
		return err
	}
	defer done()
	return serveLog(c, mem, poll)
}

// fileIn makes the memory of a log, in a file below dir.
func fileIn(dir string, size int) (mem region.Memory, done func(), err error) {
	d, err := os.MkdirTemp(dir, "log")
	if err != nil {
		return nil, nil, err
	}
	path := filepath.Join(d, "log")
	var m *pmem.Memory
	if err = pmem.Create(path, size, nil); err == nil {
		m, err = pmem.Open(pmem.File, path, nil)
	}
	if err != nil {
		os.RemoveAll(d)
		return nil, nil, err
	}
	return m, func() {
		m.Close()
		os.RemoveAll(d)
	}, nil
}

// serveLog consumes the records that come over one connection.
func serveLog(nc net.Conn, mem region.Memory, poll time.Duration) error {
	defer nc.Close()
	ctx := context.Background()
	l, err := newLog(mem)
	if err != nil {
		return err
	}
	defer l.Close(ctx)
	c := rdmap.Server(nc, commitlog.Config(&rdmap.Config{Reading: rdmap.Reading{BusyPoll: poll}}))
	if err := c.Handshake(ctx); err != nil {
		return err
	}
	defer consume(l)()
	_ = l.Serve(ctx, c) // the producer hangs up
	return nil
}

func newLog(mem region.Memory) (*commitlog.Log, error) {
	if err := commitlog.Create(mem, nil); err != nil {
		return nil, err
	}
	return commitlog.Open(mem)
}

// consume reads the available records, now and then, until stop is called.
func consume(l *commitlog.Log) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var consumed sync.WaitGroup
	consumed.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(consumeEvery)
			report(drain(l))
		}
	})
	return func() {
		cancel()
		consumed.Wait()
	}
}

// drain reads and releases the available records.
func drain(l *commitlog.Log) error {
	last := uint64(0)
	for {
		r, err := l.TryNext()
		if err != nil {
			return err
		}
		if r == nil {
			break
		}
		last = r.Seq
	}
	if last == 0 {
		return nil
	}
	return l.Release(last)
}

// dialLog opens a session at addr.
func dialLog(addr string, poll time.Duration) (*commitlog.Producer, func(), error) {
	nc, err := dial(addr)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	p := commitlog.NewProducer(nil)
	c := rdmap.Client(nc, p.Config(&rdmap.Config{Reading: rdmap.Reading{BusyPoll: poll}}))
	if err := c.Handshake(ctx); err != nil {
		c.Close()
		return nil, nil, err
	}
	if err := p.Attach(ctx, c); err != nil {
		c.Close()
		return nil, nil, err
	}
	return p, func() {
		p.Close()
		c.Close()
	}, nil
}

// appendLatency returns the median time of n appends, in microseconds.
func appendLatency(addr string, poll time.Duration, n int) (float64, error) {
	p, stop, err := dialLog(addr, poll)
	if err != nil {
		return 0, err
	}
	defer stop()
	payload := make([]byte, commitPayload)
	return medianOf(n, func() error {
		_, err := p.Append(context.Background(), payload)
		return err
	})
}

// echoLatency returns the median time of n exchanges, in microseconds.
func echoLatency(addr string, n int) (float64, error) {
	c, err := dial(addr)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return pingPong(c, commitPayload, commitReply, n)
}

// echoPolling is echoLatency with both ends polling for input.
func echoPolling(addr string, n int) (float64, error) {
	c, err := dial(addr)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return pingPong(looking(c), commitPayload, commitReply, n)
}

func appendRate(addr string, poll time.Duration, k int, dur time.Duration) (float64, error) {
	p, stop, err := dialLog(addr, poll)
	if err != nil {
		return 0, err
	}
	defer stop()
	payload := make([]byte, commitPayload)
	return writers(k, dur, func(int) error {
		_, err := p.Append(context.Background(), payload)
		return err
	})
}

// ownLogRate is the rate of k goroutines that append to one log in this process, in a file of dir: group
// commit without a network.
func ownLogRate(dir string, k int, dur time.Duration) (float64, error) {
	size, err := commitlog.MemorySize(commitRing)
	if err != nil {
		return 0, err
	}
	mem, done, err := fileIn(dir, size)
	if err != nil {
		return 0, err
	}
	defer done()
	l, err := newLog(mem)
	if err != nil {
		return 0, err
	}
	ctx := context.Background()
	defer l.Close(ctx)
	p := commitlog.NewProducer(nil)
	defer p.Close()
	if err := l.Local(ctx, p); err != nil {
		return 0, err
	}
	defer consume(l)()
	payload := make([]byte, commitPayload)
	return writers(k, dur, func(int) error {
		_, err := p.Append(ctx, payload)
		return err
	})
}
