package once_test

import (
	"context"
	"fmt"
	"os"

	"github.com/stag-rdma/stag/internal/pmemsim"
	"github.com/stag-rdma/stag/nfsdemo/internal/once"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// counter is a service of one procedure, which adds one to a number in a file.
type counter struct{ path string }

func (c *counter) value() (n int) {
	b, _ := os.ReadFile(c.path)
	_, _ = fmt.Sscan(string(b), &n)
	return n
}

func (c *counter) ServeRPC(_ context.Context, _ *rpc.Request, resp *rpc.Response) {
	n := c.value() + 1
	_ = os.WriteFile(c.path, fmt.Append(nil, n), 0o600)
	resp.Results = xdr.AppendUint32(resp.Results, uint32(n))
}

// Names: every call is about the one number.
func (c *counter) Names(*rpc.Request) []string { return []string{"number"} }

// Keep: Settle needs all arguments.
func (c *counter) Keep(req *rpc.Request) []byte { return req.Args }

// Before: what the number is, so that Settle sees whether it was changed.
func (c *counter) Before(context.Context, *rpc.Request, *rpc.Response) ([]byte, bool) {
	return xdr.AppendUint32(nil, uint32(c.value())), true
}

func (c *counter) Settle(_ context.Context, in *once.Intent, results []byte) ([]byte, once.Outcome, error) {
	d := xdr.NewDecoder(in.State)
	if was := int(d.Uint32()); c.value() == was {
		return results, once.NotDone, nil
	}
	return xdr.AppendUint32(results, uint32(c.value())), once.Done, nil
}

func (c *counter) Refuse(_ *once.Call, _ once.Refusal, results []byte) []byte {
	return xdr.AppendUint32(results, 0)
}

// A repeated call after a restart is answered, and not executed.
func ExampleNew() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "once")
	defer os.RemoveAll(dir)
	svc := &counter{path: dir + "/number"}
	call := xdr.AppendCall(nil, &xdr.CallHeader{XID: 7, RPCVers: 2, Prog: 0x20000001, Vers: 1, Proc: 1})
	for range 2 {
		j, err := once.OpenDir(dir, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		h, _ := once.New(ctx, j, svc, nil) // and transport.Server{Handler: h}
		reply, _ := rpc.ServeMessage(ctx, h, nil, call, nil)
		s := j.Stats()
		fmt.Println(reply[len(reply)-1], svc.value(), s.Replayed, s.Replies)
		_ = j.Close(ctx)
	}
	// Output:
	// 1 1 0 1
	// 1 1 1 1
}

// A journal in any persistent memory.
func ExampleOpen() {
	mem := pmemsim.New(1<<20, nil)
	_ = once.Create(mem)
	j, err := once.Open(mem, &once.Options{Entries: 100})
	fmt.Println(j.Stats(), err)
	fmt.Println(j.Close(context.Background()), j.Err())
	// Output:
	// 0 records, 0 replies kept, 0 calls answered again <nil>
	// <nil> once: closed
}
