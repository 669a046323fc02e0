package transport

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// errNotACall: the octets cannot be decoded as an RPC call. Over RDMA the answer is ERR_CHUNK; over
// TCP there is none.
var errNotACall = errors.New("transport: not an RPC call")

// parseCall decodes the RPC header of msg, and a view of its arguments, into req. If the call is
// refused before its program is looked at, the reply is in resp.
func parseCall(req *Request, resp *Response, cfg *Config, msg []byte) error {
	if _, typ, ok := xdr.PeekXID(msg); !ok || typ != xdr.MsgCall {
		return errNotACall
	}
	d := xdr.NewDecoder(msg)
	err := req.CallHeader.Parse(&d)
	req.Args = d.Rest()
	if err == nil && req.RPCVers == xdr.RPCVersion && cfg.AnyCred {
		return nil
	}
	resp.refusal, resp.refused = req.Refusal(err)
	if err != nil && !resp.refused {
		return errNotACall
	}
	return nil
}

// noLogger is the Logger of a Config that has none.
var noLogger = zap.NewNop()

// run serves req unless it was refused. A panic of the handler becomes SYSTEM_ERR
// (RFC 5531 Section 9), a log line, or lines on standard error if no Logger is set, and a count.
func run(ctx context.Context, h Handler, c *counters, log *zap.Logger, req *Request, resp *Response) {
	if resp.refused {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			c.panics.Add(1)
			if log == noLogger { // a bug must not stay hidden because nobody asked for a log
				fmt.Fprintf(os.Stderr, "transport: handler panicked in call 0x%08x of program %d, procedure %d: %v\n%s",
					req.XID, req.Prog, req.Proc, v, debug.Stack())
			}
			log.Error("transport: handler panicked", zap.Any("panic", v),
				zap.Uint32("rpc.xid", req.XID), zap.Uint32("rpc.program", req.Prog),
				zap.Uint32("rpc.procedure", req.Proc), zap.ByteString("stack", debug.Stack()))
			resp.fail(xdr.SystemErr)
		}
	}()
	h.ServeRPC(ctx, req, resp)
}
