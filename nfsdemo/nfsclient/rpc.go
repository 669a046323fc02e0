package nfsclient

import (
	"context"
	"fmt"

	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// program is one program on one connection.
type program struct {
	caller     rpc.Caller
	prog, vers uint32
	cred       xdr.Auth
}

// do sends a call and decodes its results with parse. A reply header with a status other than SUCCESS
// is an error. call.MaxResults limits the reply.
func (r *program) do(ctx context.Context, call *rpc.Call, parse func(d *xdr.Decoder, reply *rpc.Reply) error) error {
	call.Prog, call.Vers, call.Cred = r.prog, r.vers, r.cred
	call.Repeatable = true // NFS servers keep the replies to changes; all else may run twice, leases too
	var reply rpc.Reply
	if err := r.caller.Do(ctx, call, &reply); err != nil {
		return err
	}
	defer reply.Release()
	if err := reply.Header.Err(); err != nil {
		return err
	}
	if parse == nil {
		return nil
	}
	d := xdr.NewDecoder(reply.Results)
	if err := parse(&d, &reply); err != nil {
		return err
	}
	if err := d.Err(); err != nil {
		return fmt.Errorf("the server's answer cannot be decoded: %w", err)
	}
	return nil
}

// null calls procedure 0, which every program answers (RFC 5531 Section 12.1).
func (r *program) null(ctx context.Context) error {
	return r.do(ctx, &rpc.Call{}, nil)
}
