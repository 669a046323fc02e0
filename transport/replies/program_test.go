package replies_test

import (
	"context"
	"errors"

	"github.com/stag-rdma/stag/transport/internal/rendezvous"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// The RPC program of docs/replies.x as another implementation would write it: what the tests say to a
// server, and what they understand.
const (
	procNull  = 0
	procOffer = 1

	statusConnect = 1
	statusBusy    = 2
)

type key [16]byte

type offerArgs struct {
	Client  key
	Epoch   uint32
	Connect bool
}

func (a *offerArgs) append(b []byte) []byte {
	b = xdr.AppendFixedOpaque(b, a.Client[:])
	return xdr.AppendBool(xdr.AppendUint32(b, a.Epoch), a.Connect)
}

type offerRes struct {
	Status uint32
	At     rendezvous.Place // of statusConnect
	Life   uint64
}

func (r *offerRes) parse(d *xdr.Decoder) {
	if r.Status = d.Uint32(); r.Status == statusConnect {
		xdr.Decode(d, &r.At)
		r.Life = d.Uint64()
	}
}

// offer makes an OFFER.
func offer(ctx context.Context, c rpc.Caller, a offerArgs) (r offerRes, err error) {
	var reply rpc.Reply
	defer reply.Release()
	err = c.Do(ctx, &rpc.Call{Prog: replies.Program, Vers: replies.Version, Proc: procOffer, Args: a.append(nil)}, &reply)
	if err = errors.Join(err, reply.Header.Err()); err != nil {
		return r, err
	}
	d := xdr.NewDecoder(reply.Results)
	r.parse(&d)
	return r, d.End()
}

type from string

func (from) Network() string  { return "tcp" }
func (f from) String() string { return string(f) }

// ask makes an OFFER without a connection, as if it had come over network.
func ask(ctx context.Context, p *replies.Pusher, network, addr string, a offerArgs) (r offerRes) {
	req := rpc.Request{RemoteAddr: from(addr), Network: network, Args: a.append(nil)}
	req.CallHeader = xdr.CallHeader{RPCVers: xdr.RPCVersion, Prog: replies.Program, Vers: replies.Version, Proc: procOffer}
	var resp rpc.Response
	resp.Reset()
	p.ServeRPC(ctx, &req, &resp)
	d := xdr.NewDecoder(resp.Results)
	r.parse(&d)
	return r
}
