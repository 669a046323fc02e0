package bench

import (
	"context"
	"time"

	"github.com/stag-rdma/stag/internal/measure"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// usageProg is a program of one procedure, 1: it answers with the processor time of its
// process in nanoseconds, u64.
const usageProg = 0x20000002

func usageProgram() server.Program {
	return server.Program{
		Prog: usageProg, Low: 1, High: 1, Procs: 2,
		Serve: func(_ context.Context, c *server.Call) error {
			cpu, err := measure.CPU()
			if err != nil {
				c.Resp.Stat = xdr.SystemErr
				return nil //nolint:nilerr // the reply carries the error
			}
			c.Resp.Results = xdr.AppendUint64(c.Resp.Results, uint64(cpu))
			return nil
		},
	}
}

// serverCPU asks the server for its processor time.
func serverCPU(at Place) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	c, err := dial(ctx, at.Push, nil)
	if err != nil {
		return 0, err
	}
	defer c.Close() //nolint:errcheck // its answer is there
	var reply rpc.Reply
	defer reply.Release()
	if err := c.caller.Do(ctx, &rpc.Call{Prog: usageProg, Vers: 1, Proc: 1, MaxResults: 8}, &reply); err != nil {
		return 0, err
	}
	if err := reply.Header.Err(); err != nil {
		return 0, err
	}
	d := xdr.NewDecoder(reply.Results)
	return time.Duration(d.Uint64()), d.Err()
}
