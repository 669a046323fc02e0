package pmem_test

import (
	"context"
	"errors"
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

// Access to the octets of a memory that can vanish has to be under Guard: here an operation in place.
func ExampleMemory_Guard() {
	dir, _ := os.MkdirTemp("", "pmem")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "log")
	_ = pmem.Create(path, 4096, nil)
	m, _ := pmem.Open(pmem.File, path, nil)
	defer m.Close()
	err := m.Guard(0, 8, func() error {
		m.Bytes()[0]++
		return nil
	})
	fmt.Println(m.Bytes()[0], err)
	_ = os.Truncate(path, 0) // somebody truncates the file
	err = m.Persist(0, 8)
	fmt.Println(errors.Is(err, region.ErrRegionLost), errors.Is(m.Err(), region.ErrRegionLost))
	// Output:
	// 1 <nil>
	// true true
}

// A file that replaces another survives a crash once its directory is durable.
func ExampleSyncDir() {
	dir, _ := os.MkdirTemp("", "pmem")
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "secret")
	_ = os.WriteFile(name+".new", []byte("word"), 0o600) // and f.Sync, if the content matters
	_ = os.Rename(name+".new", name)
	fmt.Println(pmem.SyncDir(dir), pmem.SyncDir(name+".none") != nil)
	// Output: <nil> true
}
