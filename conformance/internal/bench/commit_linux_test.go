package bench_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/commitlog"
)

const (
	record = 4096 // octets of an append
	answer = 100  // octets with which plain TCP answers as many
	ring   = 4 << 20
	// consumeEvery is how often the consumer looks at the log: if every record woke it, this would measure the
	// scheduler.
	consumeEvery = 10 * time.Millisecond
)

// BenchmarkCommit measures appends to a commit log in another process: in memory against an exchange of as many
// octets, in a file against local writes with fdatasync.
func BenchmarkCommit(b *testing.B) {
	row(b, "append, plain memory, against TCP round trip", "tcp", exchange("commit-echo", record, answer), appends("log-memory", 1))
	row(b, "append, file, against local overwrite+fdatasync", "local", locally(1), appends("log-file", 1))
	for _, k := range []int{16, 64} {
		row(b, fmt.Sprintf("%d producers, file, against as many local writers", k), "local", locally(k), appends("log-file", k))
	}
}

// appends measures k goroutines that append over one connection.
func appends(service string, k int) func(*testing.B) {
	return func(b *testing.B) {
		p := commitlog.NewProducer(nil)
		defer p.Close()
		c := rdmap.Client(dial(b, thePeer(b).Addr[service]), p.Config(&rdmap.Config{}))
		defer c.Close()
		check(b, c.Handshake(b.Context()))
		check(b, p.Attach(b.Context(), c))
		payload := make([]byte, record)
		among(b, k, func(int) error {
			_, err := p.Append(context.Background(), payload)
			return err
		})
	}
}

// locally measures k goroutines that each write to a file of their own and make that durable, as a process does that
// keeps its log by itself.
func locally(k int) func(*testing.B) {
	return func(b *testing.B) {
		fs, offs, payload := make([]*os.File, k), make([]int64, k), make([]byte, record)
		for i := range fs {
			var err error
			fs[i], err = os.CreateTemp(thePeer(b).Dir, "local")
			check(b, err)
			defer os.Remove(fs[i].Name())
			defer fs[i].Close()
			_, err = fs[i].Write(make([]byte, ring))
			check(b, err)
			check(b, fs[i].Sync())
		}
		among(b, k, func(i int) error {
			if _, err := fs[i].WriteAt(payload, offs[i]); err != nil {
				return err
			}
			offs[i] = (offs[i] + record) % ring
			return unix.Fdatasync(int(fs[i].Fd()))
		})
	}
}

// serveLog consumes what comes over one connection, in memory or in a file of dir.
func serveLog(nc net.Conn, dir string) (err error) {
	defer nc.Close()
	ctx := context.Background()
	size, err := commitlog.MemorySize(ring)
	if err != nil {
		return err
	}
	var mem region.Memory = make(region.Bytes, size)
	if dir != "" {
		d, err := os.MkdirTemp(dir, "log")
		if err != nil {
			return err
		}
		defer os.RemoveAll(d)
		path := filepath.Join(d, "log")
		if err := pmem.Create(path, size, nil); err != nil {
			return err
		}
		m, err := pmem.Open(pmem.File, path, nil)
		if err != nil {
			return err
		}
		defer m.Close()
		mem = m
	}
	if err := commitlog.Create(mem, nil); err != nil {
		return err
	}
	l, err := commitlog.Open(mem)
	if err != nil {
		return err
	}
	defer l.Close(ctx)
	c := rdmap.Server(nc, commitlog.Config(&rdmap.Config{}))
	if err := c.Handshake(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var consumed sync.WaitGroup
	consumed.Go(func() {
		for err == nil && ctx.Err() == nil {
			time.Sleep(consumeEvery)
			err = drain(l)
		}
	})
	_ = l.Serve(ctx, c) // the producer hangs up
	stop()
	consumed.Wait()
	return err
}

// drain reads and releases the available records.
func drain(l *commitlog.Log) error {
	last := uint64(0)
	for {
		switch r, err := l.TryNext(); {
		case err != nil:
			return err
		case r != nil:
			last = r.Seq
		case last != 0:
			return l.Release(last)
		default:
			return nil
		}
	}
}
