package push_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/push"
)

// The server, the appender and the reader of docs/push.md, one after the other.
func Example() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "push")
	defer os.RemoveAll(dir)
	calls, _ := net.Listen("tcp", "127.0.0.1:0")   // of RPC
	commits, _ := net.Listen("tcp", "127.0.0.1:0") // for the records
	ps := &push.Server{Store: push.Dir(dir, pmem.File), Addr: commits.Addr().String()}
	defer ps.Close(ctx)
	_ = ps.Load() // the logs there are
	go ps.Serve(commits)
	server := &transport.Server{Handler: ps}
	go server.Serve(calls)
	defer server.Close()

	secret := push.NewSecret() // both programs keep it in a file
	fmt.Println(journal(ctx, calls.Addr().String(), secret, "first", "second"))
	fmt.Println(replay(ctx, calls.Addr().String(), secret))
	fmt.Println(replay(ctx, calls.Addr().String(), secret))
	// Output:
	// record 1: persistent
	// record 2: persistent
	// <nil>
	// 1, epoch 1: first
	// 2, epoch 1: second
	// <nil>
	// <nil>
}

// journal appends lines to a log at the server with address addr.
func journal(ctx context.Context, addr string, secret push.Secret, lines ...string) error {
	caller, err := transport.Dial(ctx, "tcp", addr, nil)
	if err != nil {
		return err
	}
	defer caller.Close()
	log, err := push.Dial(ctx, caller, "journal", &push.Config{Secret: secret}) // makes the log, the first time
	if err != nil {
		return err
	}
	defer log.Close(ctx)
	for _, line := range lines {
		result, err := log.Append(ctx, []byte(line))
		switch {
		case errors.Is(err, push.StatusFull):
			return fmt.Errorf("%q waits until replay has run: %w", line, err)
		case err != nil:
			return err
		}
		fmt.Printf("record %d: %v\n", result.Seq, result.Level)
	}
	return nil
}

// replay prints what journal has appended, and releases it.
func replay(ctx context.Context, addr string, secret push.Secret) error {
	caller, err := transport.Dial(ctx, "tcp", addr, nil)
	if err != nil {
		return err
	}
	defer caller.Close()
	log, err := push.NewReader(caller, "journal", secret, nil)
	if err != nil {
		return err
	}
	last := uint64(0)
	for {
		record, err := log.TryNext(ctx) // Next would wait for more
		if err != nil {
			return err
		}
		if record == nil {
			return log.Release(ctx, last) // the effects of all of them are durable
		}
		fmt.Printf("%d, epoch %d: %s\n", record.Seq, record.Epoch, record.Payload)
		last = record.Seq
	}
}
