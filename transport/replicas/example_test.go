package replicas_test

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/replicas"
	"github.com/stag-rdma/stag/transport/rpc"
)

// serve starts a server with logs in a directory of its own, and returns a client for it.
func serve(dir string) (caller rpc.Caller, stop func()) {
	calls, _ := net.Listen("tcp", "127.0.0.1:0")
	commits, _ := net.Listen("tcp", "127.0.0.1:0")
	logs := &push.Server{
		Store: push.Dir(dir, pmem.File), Addr: commits.Addr().String(),
		Consume: func(ctx context.Context, l *push.Log) { _ = replicas.Keep(ctx, l) },
	}
	_ = logs.Load()
	go logs.Serve(commits)
	server := &transport.Server{Handler: logs}
	go server.Serve(calls)
	caller, _ = transport.Dial(context.Background(), "tcp", calls.Addr().String(), nil)
	return caller, func() {
		caller.Close()
		server.Close()
		logs.Close(context.Background())
	}
}

// A log at three servers, of which any one may be lost.
func Example() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "replicas")
	defer os.RemoveAll(dir)
	var servers []replicas.Replica
	var stops []func()
	for n := range 3 {
		own := fmt.Sprintf("%s/%d", dir, n)
		_ = os.Mkdir(own, 0o700)
		caller, stop := serve(own)
		stops = append(stops, stop)
		servers = append(servers, replicas.Push(caller, "journal", push.Secret{1}, nil)) // kept, and random
	}
	log, err := replicas.Open(ctx, servers, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(log.Append(ctx, []byte("one")))

	stops[0]() // a server is lost: the other two are a majority
	fmt.Println(log.Append(ctx, []byte("two")))

	other, err := replicas.Open(ctx, servers, nil) // somebody else takes over
	fmt.Println(err, log.Term() < other.Term())
	_, err = log.Append(ctx, []byte("too late"))
	fmt.Println(err != nil)
	err = other.Read(ctx, 0, func(index uint64, payload []byte) error {
		fmt.Printf("%d %s\n", index, payload)
		return nil
	})
	fmt.Println(err)
	fmt.Println(other.Append(ctx, []byte("three")))
	_, _ = log.Close(ctx), other.Close(ctx)
	stops[1]()
	stops[2]()
	// Output:
	// 1 <nil>
	// 2 <nil>
	// <nil> true
	// true
	// 1 one
	// 2 two
	// <nil>
	// 3 <nil>
}
