package transport

import (
	"context"

	"github.com/stag-rdma/stag/internal/callid"
	"github.com/stag-rdma/stag/xdr"
)

// argsLen returns the length of the complete arguments.
func (r *Request) argsLen() int {
	if r.away != nil {
		return r.away.x.in.Unreduced()
	}
	return len(r.Args)
}

// sum returns the sum of all octets of the arguments. It is unknown as long as some of them are at the
// client.
func (r *Request) sum() callid.Sum {
	if r.away != nil {
		return r.away.sums.Sum(r.Args, r.away.x.in.Reduced)
	}
	return callid.SumOf(r.Args)
}

// pullFailed reports whether the handler has asked for data that could not be read. Then the call
// has no reply, and may come again.
func (r *Request) pullFailed() bool { return r.away != nil && r.away.failed }

// untouched reports whether the handler has left all data at the client, by which it refuses the call.
func (r *Request) untouched() bool { return r.away != nil && !r.away.begun }

// fetch reads all data that are still at the client, so that the arguments are complete.
func (r *Request) fetch(ctx context.Context) error {
	args, err := r.away.fetch(ctx)
	if err == nil {
		r.Args, r.away = args, nil
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
		if err := l.pull(ctx, i, 0, [][]byte{b[c.Pos:end]}, nil); err != nil {
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
