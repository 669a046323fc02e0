package responder

import (
	"context"

	"github.com/stag-rdma/stag/internal/callid"
	"github.com/stag-rdma/stag/xdr"
)

// BeginSum implements execute.Deferred.
func (l *deferral) BeginSum() {
	l.summing = true
	l.sums.Reset(len(l.x.In.Layout.Chunks))
}

// Sum implements execute.Deferred.
func (l *deferral) Sum(args []byte) callid.Sum { return l.sums.Sum(args, l.x.In.Reduced) }

// ArgsLen implements execute.Deferred.
func (l *deferral) ArgsLen() int { return l.x.In.Unreduced() }

// Begun implements execute.Deferred.
func (l *deferral) Begun() bool { return l.begun }

// Failed implements execute.Deferred.
func (l *deferral) Failed() bool { return l.failed }

// Fetch reads all data of the call into pooled memory, and returns the complete arguments.
func (l *deferral) Fetch(ctx context.Context) ([]byte, error) {
	in := &l.x.In
	b := l.x.Resp.Scratch(in.Layout.Total)
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
