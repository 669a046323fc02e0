package pmem_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
)

// A file that a peer may write to and flush.
func Example() {
	dir, _ := os.MkdirTemp("", "pmem")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "log")
	if err := pmem.Create(path, 1<<16, nil); err != nil {
		fmt.Println(err)
		return
	}
	m, err := pmem.Open(pmem.File, path, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	t := region.NewTable()
	r, _ := t.RegisterMemory(m, region.Options{Access: region.RemoteWrite | region.FlushPersistent})

	// The engine, on an RDMA Write of 6 octets to TO 64, and on a Flush of them.
	v, _ := t.Lookup(r.STag(), 64, 6, region.RemoteWrite)
	fmt.Println(v.CopyIn([]byte("record")))
	fmt.Println(v.Memory().Persist(v.Offset(), 6))
	v.Release()

	fmt.Println(r.Invalidate(context.Background()), m.Close())
	b, _ := os.ReadFile(path)
	fmt.Printf("%s\n", b[64:70])
	// Output:
	// <nil>
	// <nil>
	// <nil> <nil>
	// record
}
