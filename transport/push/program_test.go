package push_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// The RPC program of docs/push.x: TestGolden has its octets.
const (
	procNull = iota
	procOpen
	procClose
	procAppend
	procStatus
	procRead
	procRelease

	maxName    = 64
	maxRecords = 1024
)

type (
	key         = push.Key
	openArgs    = push.OpenArgs
	openRes     = push.OpenRes
	opened      = push.Opened
	appendArgs  = push.AppendArgs
	readArgs    = push.ReadArgs
	releaseArgs = push.ReleaseArgs
)

// counted is a key with the octets from n on.
func counted(n byte) (k key) {
	for i := range k {
		k[i] = n + byte(i)
	}
	return k
}

// from is an address.
type from string

func (from) Network() string  { return "tcp" }
func (f from) String() string { return string(f) }

// called makes a call without a connection, and returns the results. It panics if there are none.
func called(ctx context.Context, h rpc.Handler, addr string, prog, proc uint32, args []byte) *xdr.Decoder {
	call := xdr.CallHeader{XID: 1, RPCVers: xdr.RPCVersion, Prog: prog, Vers: push.Version, Proc: proc}
	reply, ok := rpc.ServeMessage(ctx, h, from(addr), append(xdr.AppendCall(nil, &call), args...), nil)
	d := xdr.NewDecoder(reply)
	var r xdr.ReplyHeader
	if err := r.Parse(&d); !ok || err != nil || r.Err() != nil {
		panic(fmt.Sprint(err, r.Err()))
	}
	return &d
}

// ask makes an OPEN without a connection.
func ask(ps *push.Server, addr string, a openArgs) (r openRes) {
	xdr.Decode(called(context.Background(), ps, addr, push.Program, procOpen, push.Octets(&a)), &r)
	return r
}

// appendRecords makes an APPEND without a connection.
func appendRecords(ctx context.Context, ps *push.Server, a *appendArgs) push.Status {
	return push.Status(called(ctx, ps, "127.0.0.1:1", push.Program, procAppend, push.Octets(a)).Uint32())
}

// listening is a Caller that knows the answer to the last OPEN that went through it.
type listening struct {
	rpc.Caller

	mu  sync.Mutex
	res openRes
}

func (l *listening) Do(ctx context.Context, c *rpc.Call, reply *rpc.Reply) error {
	err := l.Caller.Do(ctx, c, reply)
	if err == nil && c.Prog == push.Program && c.Proc == procOpen {
		l.mu.Lock()
		defer l.mu.Unlock()
		d := xdr.NewDecoder(reply.Results)
		l.res = openRes{}
		xdr.Decode(&d, &l.res)
	}
	return err
}

func (l *listening) last() openRes {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.res
}
