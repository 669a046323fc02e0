package replies_test

import (
	"context"
	"errors"

	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// The RPC program of docs/replies.x: TestGolden has its octets.
const (
	procNull  = 0
	procOffer = 1

	statusConnect = 1
	statusBusy    = 2
)

type (
	key       = replies.Key
	offerArgs = replies.OfferArgs
	offerRes  = replies.OfferRes
)

// offer makes an OFFER.
func offer(ctx context.Context, c rpc.Caller, a offerArgs) (r offerRes, err error) {
	var reply rpc.Reply
	defer reply.Release()
	err = c.Do(ctx, &rpc.Call{Prog: replies.Program, Vers: replies.Version, Proc: procOffer, Args: xdr.Encode(nil, &a)}, &reply)
	if err = errors.Join(err, reply.Header.Err()); err != nil {
		return r, err
	}
	d := xdr.NewDecoder(reply.Results)
	return r, xdr.Decode(&d, &r).End()
}

type from string

func (from) Network() string  { return "tcp" }
func (f from) String() string { return string(f) }

// ask makes an OFFER without a connection, as if it had come over network.
func ask(ctx context.Context, p *replies.Pusher, network, addr string, a offerArgs) (r offerRes) {
	req := rpc.Request{RemoteAddr: from(addr), Network: network, Args: xdr.Encode(nil, &a)}
	req.CallHeader = xdr.CallHeader{RPCVers: xdr.RPCVersion, Prog: replies.Program, Vers: replies.Version, Proc: procOffer}
	var resp rpc.Response
	resp.Reset()
	p.ServeRPC(ctx, &req, &resp)
	d := xdr.NewDecoder(resp.Results)
	xdr.Decode(&d, &r)
	return r
}
