package transport

import (
	"context"

	"github.com/stag-rdma/stag/transport/internal/count"
	"github.com/stag-rdma/stag/transport/rpc"
	"go.uber.org/zap"
)

// noLogger is the Logger of a Config that has none.
var noLogger = zap.NewNop()

// run serves req. A panic of the handler becomes a log line, or lines on standard error if no Logger is
// set, and a count.
func run(ctx context.Context, h rpc.Handler, c *count.Counters, log *zap.Logger, req *rpc.Request, resp *rpc.Response) {
	rpc.Run(ctx, h, req, resp, func(v any, stack []byte) {
		c.Panics.Add(1)
		if log == noLogger {
			rpc.PrintPanic(req, v, stack)
		}
		log.Error("transport: handler panicked", zap.Any("panic", v),
			zap.Uint32("rpc.xid", req.XID), zap.Uint32("rpc.program", req.Prog),
			zap.Uint32("rpc.procedure", req.Proc), zap.ByteString("stack", stack))
	})
}
