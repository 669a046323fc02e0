package replies_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// After a crash a client looks up the replies that it had received.
func Example() {
	logs, _ := net.Listen("tcp", "127.0.0.1:0")
	calls, _ := net.Listen("tcp", "127.0.0.1:0")
	pusher := &replies.Pusher{
		Addr: logs.Addr().String(),
		Handler: rpc.HandlerFunc(func(_ context.Context, _ *rpc.Request, resp *rpc.Response) {
			resp.Results = xdr.AppendUint32(resp.Results, 42)
		}),
		Choose: func(_, _, _ uint32) bool { return true },
	}
	go pusher.Serve(logs)
	defer pusher.Close()
	server := &transport.Server{Handler: pusher}
	go server.Serve(calls)
	defer server.Close()

	dir, _ := os.MkdirTemp("", "replies")
	defer os.RemoveAll(dir)
	mem := create(dir, "replies", 1<<16)
	defer mem.Close()
	config := &replies.Config{Memory: mem, Redial: redial.Config{
		Dial: func(ctx context.Context) (redial.Conn, error) {
			return transport.Dial(ctx, "tcp", calls.Addr().String(), nil)
		},
	}}
	client, err := replies.Open(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	var reply rpc.Reply
	seq, err := client.Call(context.Background(), &rpc.Call{Prog: 400000, Vers: 1, Proc: 1}, &reply)
	fmt.Println(seq, reply.Results, err, client.Offered()) // and it is durable
	reply.Release()
	_ = client.Close() // before Done, as in a crash

	after := crashed(mem)
	defer after.Close()
	config.Memory = after
	client, err = replies.Open(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	for _, r := range client.Recovered() {
		same := r.Digest == replies.Digest(400000, 1, 1, nil)
		fmt.Println(r.Seq, r.Proc, same, r.Reply[len(r.Reply)-4:])
		client.Done(r.Seq)
	}
	// Output:
	// 1 [0 0 0 42] <nil> <nil>
	// 1 1 true [0 0 0 42]
}

// create makes a file for a log of size octets, which is locked until it is closed.
func create(dir, name string, size int) *pmem.Memory {
	path := filepath.Join(dir, name)
	_ = pmem.Create(path, size, nil)
	mem, err := pmem.Open(pmem.File, path, nil)
	if err != nil {
		panic(err)
	}
	_ = replies.Create(mem, nil)
	return mem
}

// crashed opens a copy of the file of mem, which has what a crash now would leave.
func crashed(mem *pmem.Memory) *pmem.Memory {
	b, _ := os.ReadFile(mem.Path())
	path := mem.Path() + ".crashed"
	_ = os.WriteFile(path, b, 0o600)
	after, err := pmem.Open(pmem.File, path, nil)
	if err != nil {
		panic(err)
	}
	return after
}
