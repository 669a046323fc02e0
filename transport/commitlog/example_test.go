package commitlog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// A log in a file, a producer at the other end of a connection.
func Example() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "log")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "log")
	size, _ := commitlog.MemorySize(1 << 20)
	_ = pmem.Create(path, size, nil)
	mem, _ := pmem.Open(pmem.File, path, nil)
	defer mem.Close()
	_ = commitlog.Create(mem, nil)
	log, _ := commitlog.Open(mem)
	defer log.Close(ctx)

	a, b := rdmaptest.Pipe() // or TCP
	go func() {
		c := rdmap.Server(b, commitlog.Config(nil))
		_ = c.Handshake(ctx)
		_ = log.Serve(ctx, c)
	}()
	p := commitlog.NewProducer(nil)
	c := rdmap.Client(a, p.Config(nil))
	_ = c.Handshake(ctx)
	defer c.Close()
	_ = p.Attach(ctx, c)

	result, err := p.Append(ctx, []byte("first"))
	fmt.Println(result.Seq, result.Level, err)
	record, err := log.Next(ctx)
	fmt.Printf("%d %s %v\n", record.Seq, record.Payload, err)
	fmt.Println(log.Release(record.Seq)) // its effects are durable
	// Output:
	// 1 persistent <nil>
	// 1 first <nil>
	// <nil>
}

// Reads what the consumer keeps, from any number on.
func ExampleLog_Read() {
	ctx := context.Background()
	mem := make(region.Bytes, 1<<15)
	_ = commitlog.Create(mem, nil)
	log, _ := commitlog.Open(mem)
	defer log.Close(ctx)
	p := commitlog.NewProducer(nil)
	_ = log.Local(ctx, p)
	defer p.Close()
	for _, payload := range []string{"one", "two", "three"} {
		_, _ = p.Append(ctx, []byte(payload))
	}

	records, err := log.Read(ctx, 2, 1<<20)
	for _, r := range records {
		fmt.Printf("%d, epoch %d: %s\n", r.Seq, r.Epoch, r.Payload)
	}
	fmt.Println(err)
	_, _ = log.Next(ctx)
	_ = log.Release(1)
	_, err = log.Read(ctx, 1, 1<<20)
	released, ok := errors.AsType[*commitlog.ReleasedError](err)
	fmt.Println(ok, released.First)
	// Output:
	// 2, epoch 1: two
	// 3, epoch 1: three
	// <nil>
	// true 2
}

// What a file holds.
func ExampleInspect() {
	ctx := context.Background()
	mem := make(region.Bytes, 1<<15)
	_ = commitlog.Create(mem, nil)
	log, _ := commitlog.Open(mem)
	p := commitlog.NewProducer(nil)
	_ = log.Local(ctx, p)
	_, _ = p.Append(ctx, []byte("record"))
	p.Close()
	_ = log.Close(ctx)

	info, err := commitlog.Inspect(readerAt(mem.Bytes()), 1<<15, func(r *commitlog.Record) error {
		fmt.Printf("%d %s\n", r.Seq, r.Payload)
		return nil
	})
	fmt.Println(info.Mode, info.Epoch, info.NextSeq, info.Poison, err)

	mem.Bytes()[11] = 1
	_, err = commitlog.Inspect(readerAt(mem.Bytes()), 1<<15, nil)
	fmt.Println(errors.Is(err, commitlog.ErrVersion), err)
	// Output:
	// 1 record
	// wal 1 2 <nil> <nil>
	// true commitlog: version at octet 8: unknown version: got 0x1, want 0x2 (use a program of that version)
}

// A log whose tail word is damaged. Somebody who knows that nothing else was acknowledged mends it.
func ExampleMend() {
	ctx := context.Background()
	mem := make(region.Bytes, 1<<15)
	_ = commitlog.Create(mem, nil)
	log, _ := commitlog.Open(mem)
	p := commitlog.NewProducer(nil)
	_ = log.Local(ctx, p)
	_, _ = p.Append(ctx, []byte("record"))
	p.Close()
	_ = log.Close(ctx)

	mem.Bytes()[8192+7] = 7
	_, err := commitlog.Open(mem)
	fmt.Println(commitlog.TailError(err))
	_, err = commitlog.Salvage(readerAt(mem.Bytes()), 1<<15, func(r *commitlog.Record, behind bool) error {
		fmt.Printf("%d %s, behind the damage: %v\n", r.Seq, r.Payload, behind)
		return nil
	})
	fmt.Println(err)
	info, err := commitlog.Mend(mem)
	fmt.Println(info.NextSeq, err)
	_, err = commitlog.Open(mem)
	fmt.Println(err)
	// Output:
	// true
	// 1 record, behind the damage: false
	// <nil>
	// 2 <nil>
	// <nil>
}

type readerAt []byte

func (b readerAt) ReadAt(p []byte, off int64) (int, error) { return copy(p, b[off:]), nil }
