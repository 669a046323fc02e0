package transport

import (
	"context"

	"github.com/stag-rdma/stag/internal/callid"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// deferred returns the data of a call that are at the client, nil if there are none.
func deferred(r *rpc.Request) *deferral {
	l, _ := r.Deferred.(*deferral)
	return l
}

// argsLen returns the length of the complete arguments.
func argsLen(r *rpc.Request) int {
	if l := deferred(r); l != nil {
		return l.x.in.Unreduced()
	}
	return len(r.Args)
}

// sumOf returns the sum of all octets of the arguments. It is unknown as long as some of them are at the
// client.
func sumOf(r *rpc.Request) callid.Sum {
	if l := deferred(r); l != nil {
		return l.sums.Sum(r.Args, l.x.in.Reduced)
	}
	return callid.SumOf(r.Args)
}

// fetch reads all data that are still at the client, so that the arguments are complete.
func fetch(ctx context.Context, r *rpc.Request) error {
	args, err := deferred(r).fetch(ctx)
	if err == nil {
		r.Args, r.Deferred = args, nil
	}
	return err
}

// fetch reads all data of the call into pooled memory, and returns the complete arguments.
func (l *deferral) fetch(ctx context.Context) ([]byte, error) {
	in := &l.x.in
	b := l.x.resp.Scratch(in.Layout.Total)
	in.Layout.Place(b, in.Payload)
	for i, c := range in.Layout.Chunks {
		_, n := in.Reduced(i)
		end := c.Pos + n
		clear(b[end : end+xdr.Pad(n)]) // the client may have put the pad into the chunk
		if n == 0 {
			continue
		}
		if err := l.Pull(ctx, i, 0, [][]byte{b[c.Pos:end]}, nil); err != nil {
			return nil, err
		}
	}
	return b[len(b)-in.Unreduced():], nil
}

// summed notes octets of a chunk, from off on, that were read.
func (l *deferral) summed(chunk, off int, bufs [][]byte) {
	if !l.summing {
		return
	}
	for _, b := range bufs {
		l.sums.Add(chunk, off, b)
		off += len(b)
	}
}
