package bench

import (
	"context"
	"time"

	"github.com/stag-rdma/stag/internal/measure"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/xdr"
)

// usageProg is a program of one procedure, 1: as soon as the server has applied as many
// records as the argument says, u64, it answers with the processor time of its process in
// nanoseconds, u64.
const usageProg = 0x20000002

// appliedWait is how long the server has for that.
const appliedWait = 20 * time.Second

// front hands calls to the program that they are for. What the NFS server says of its calls
// counts as if it stood alone.
type front struct {
	*server.Server // NFS and MOUNT
	push           *push.Server
	a              *applier
}

// MayBlock implements [transport.Handler].
func (f *front) MayBlock(prog, vers, proc uint32) bool {
	switch prog {
	case usageProg:
		return true
	case push.Program:
		return f.push.MayBlock(prog, vers, proc)
	}
	return f.Server.MayBlock(prog, vers, proc)
}

// NonIdempotent implements [transport.Handler].
func (f *front) NonIdempotent(prog, vers, proc uint32) bool {
	if prog == push.Program {
		return f.push.NonIdempotent(prog, vers, proc)
	}
	return f.Server.NonIdempotent(prog, vers, proc)
}

// ServeRPC implements [transport.Handler].
func (f *front) ServeRPC(ctx context.Context, req *transport.Request, resp *transport.Response) {
	switch req.Prog {
	case usageProg:
		f.usage(ctx, req, resp)
	case push.Program:
		f.push.ServeRPC(ctx, req, resp)
	default:
		f.Server.ServeRPC(ctx, req, resp)
	}
}

func (f *front) usage(ctx context.Context, req *transport.Request, resp *transport.Response) {
	d := xdr.NewDecoder(req.Args)
	for want := int64(d.Uint64()); f.a.applied.Load() < want && ctx.Err() == nil; {
		time.Sleep(time.Millisecond)
	}
	cpu, err := measure.CPU()
	if err != nil || d.Err() != nil {
		resp.Stat = xdr.SystemErr
		return
	}
	resp.Results = xdr.AppendUint64(resp.Results, uint64(cpu))
}

// serverCPU asks for it when all that was pushed to l is applied.
func (l *logs) serverCPU() (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), appliedWait)
	defer cancel()
	c, err := dial(ctx, l.at, nil)
	if err != nil {
		return 0, err
	}
	defer c.Close() //nolint:errcheck // its answer is there
	var reply transport.Reply
	defer reply.Release()
	call := transport.Call{Prog: usageProg, Vers: 1, Proc: 1, Args: xdr.AppendUint64(nil, uint64(l.records.Load())), MaxResults: 8}
	if err := c.Do(ctx, &call, &reply); err != nil {
		return 0, err
	}
	if err := reply.Header.Err(); err != nil {
		return 0, err
	}
	d := xdr.NewDecoder(reply.Results)
	return time.Duration(d.Uint64()), d.Err()
}
