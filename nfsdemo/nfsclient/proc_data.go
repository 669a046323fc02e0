package nfsclient

import (
	"context"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// read runs one READ of at most len(sink) octets (RFC 1813 Section 3.3.6) and passes the data to use:
// a part of sink, or of the reply, lent until use returns.
func (c *Client) read(ctx context.Context, n *Node, off int64, sink []byte, use func(data []byte) error) (got int, eof bool, err error) {
	args := nfs3.ReadArgs{Handle: n.FH, Offset: uint64(off), Count: uint32(len(sink))}
	call := rpc.Call{
		Proc: uint32(nfs3.ProcRead), Args: xdr.Encode(make([]byte, 0, 96), &args),
		Sink: sink, MaxResults: nfs3.ProcRead.MaxRes(),
	}
	err = c.send(ctx, nfs3.ProcRead, &call, func(d *xdr.Decoder, reply *rpc.Reply) error {
		var res nfs3.ReadRes
		if err := xdr.Decode(d, res.Head()).Err(); err != nil {
			return err
		}
		if res.Status != nfs3.OK {
			return &StatusError{Proc: nfs3.ProcRead, Status: res.Status}
		}
		if n := d.Uint32(); res.Count != n || len(reply.Item) != int(n) {
			return ErrBadReply
		}
		got, eof = len(reply.Item), res.EOF
		return use(reply.Item)
	})
	return got, eof, err
}

// pace counts the calls for one piece of a file. Servers answer READ and WRITE with as much as they like (RFC 1813
// Sections 3.3.6, 3.3.7), and one that moves an octet at a time is as useless as one that moves none.
type pace struct{ calls, octets int }

// fewCalls are not judged; of more, each has to move leastOctets on the average, which is a sector.
const (
	fewCalls    = 64
	leastOctets = 512
)

// next counts a call that has moved n octets, and after which more are to come.
func (p *pace) next(n int) error {
	p.calls++
	p.octets += n
	if n == 0 || p.calls >= fewCalls && p.octets < p.calls*leastOctets {
		return ErrNoProgress
	}
	return nil
}

// write runs one WRITE (RFC 1813 Section 3.3.7). It borrows data.
func (c *Client) write(ctx context.Context, n *Node, off int64, data []byte, stable nfs3.StableHow) (res nfs3.WriteRes, err error) {
	args := nfs3.WriteArgs{Handle: n.FH, Offset: uint64(off), Count: uint32(len(data)), Stable: stable}
	call := rpc.Call{
		Proc: uint32(nfs3.ProcWrite), Args: xdr.AppendUint32(xdr.Encode(make([]byte, 0, 96), args.Head()), args.Count), Item: data,
		MaxResults: nfs3.ProcWrite.MaxRes(),
	}
	call.ItemPos = len(call.Args)
	err = c.send(ctx, nfs3.ProcWrite, &call, func(d *xdr.Decoder, _ *rpc.Reply) error {
		if err := xdr.Decode(d, &res).Err(); err != nil {
			return err
		}
		switch {
		case res.Status != nfs3.OK:
			return &StatusError{Proc: nfs3.ProcWrite, Status: res.Status}
		case int64(res.Count) > int64(len(data)), res.Committed < stable:
			return ErrBadReply
		case res.Count == 0 && len(data) > 0:
			return ErrNoProgress
		}
		return nil
	})
	return res, err
}

// commit makes everything written to n durable and returns the write verifier
// (RFC 1813 Section 3.3.21).
func (c *Client) commit(ctx context.Context, n *Node) (nfs3.WriteVerf, error) {
	var res nfs3.CommitRes
	err := c.call(ctx, nfs3.ProcCommit, &nfs3.CommitArgs{Handle: n.FH}, &res)
	return res.Verf, err
}
