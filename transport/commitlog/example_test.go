package commitlog_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
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
