package commitlog_test

import (
	"context"
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
