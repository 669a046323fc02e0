package push_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
)

// A server with logs in a directory, and a client that appends to one of them.
func Example() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "push")
	defer os.RemoveAll(dir)

	commits, _ := net.Listen("tcp", "127.0.0.1:0") // for the records
	calls, _ := net.Listen("tcp", "127.0.0.1:0")   // for everything else
	ps := &push.Server{Store: push.Dir(dir, pmem.File), Addr: commits.Addr().String()}
	defer ps.Close(ctx)
	_ = ps.Load() // the logs there are
	go ps.Serve(commits)
	server := &transport.Server{Handler: ps}
	go server.Serve(calls)
	defer server.Close()

	caller, _ := transport.Dial(ctx, "tcp", calls.Addr().String(), nil)
	defer caller.Close()
	session, _ := push.Dial(ctx, caller, "journal", &push.Config{
		Secret: push.NewSecret(), // which was kept, durably
	})
	defer session.Close(ctx)
	result, err := session.Append(ctx, []byte("first"))
	fmt.Println(session.Rung(), result.Seq, result.Level, err)

	log, _ := ps.Log("journal")
	record, _ := log.Next(ctx)
	fmt.Printf("%d %s\n", record.Seq, record.Payload)
	fmt.Println(log.Release(record.Seq)) // its effects are durable
	// Output:
	// native 1 persistent <nil>
	// 1 first
	// <nil>
}

// Another process reads the log while this one appends.
func ExampleReader() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "push")
	defer os.RemoveAll(dir)
	calls, _ := net.Listen("tcp", "127.0.0.1:0")
	ps := &push.Server{Store: push.Dir(dir, pmem.File)}
	defer ps.Close(ctx)
	_ = ps.Load()
	server := &transport.Server{Handler: ps}
	go server.Serve(calls)
	defer server.Close()
	caller, _ := transport.Dial(ctx, "tcp", calls.Addr().String(), nil)
	defer caller.Close()
	secret := push.NewSecret()
	session, _ := push.Dial(ctx, caller, "journal", &push.Config{
		Secret: secret,
	})
	defer session.Close(ctx)

	reader, _ := push.NewReader(caller, "journal", secret, nil)
	fmt.Println(reader.TryNext(ctx))
	_, _ = session.Append(ctx, []byte("first"))
	_, _ = session.Append(ctx, []byte("second"))
	for range 2 {
		record, _ := reader.Next(ctx) // waits for the next one
		fmt.Printf("%d, epoch %d: %s\n", record.Seq, record.Epoch, record.Payload)
	}
	log, _ := ps.Log("journal")
	record, _ := log.Next(ctx)
	_ = log.Release(record.Seq) // its room is free
	_, err := session.Reader(1).Next(ctx)
	fmt.Println(err)
	// Output:
	// <nil> <nil>
	// 1, epoch 1: first
	// 2, epoch 1: second
	// push: read "journal": commitlog: record 1 was released (the oldest one now is 2)
}

// Removes a log that nobody uses anymore, while no server has the directory open.
func ExampleRemoveLog() {
	dir, _ := os.MkdirTemp("", "push")
	defer os.RemoveAll(dir)
	store := push.Dir(dir, pmem.File)
	size, _ := commitlog.MemorySize(4096)
	_ = store.Create("journal", size, push.Origin{Owner: push.Owner{1}}, func(mem region.Memory) error { return commitlog.Create(mem, nil) })
	fmt.Println(store.Names())
	fmt.Println(filepath.Base(push.LogFile(store, "journal")))

	fmt.Println(push.RemoveLog(dir, "journal"))
	fmt.Println(store.Names())
	fmt.Println(push.RemoveLog(dir, "journal"))
	// Output:
	// [journal] <nil>
	// journal.log
	// <nil>
	// [] <nil>
	// file does not exist
}
