package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/xdr"
)

// Opaque is a variable-length opaque of a call's arguments. Its data came with the call, or is
// still at the client: [Handler] says for which calls it stays there until it is pulled. Either
// way it can be pulled once, whole or piece by piece, or not at all. An Opaque is valid until
// ServeRPC returns, and belongs to one goroutine.
type Opaque struct {
	n     int    // octets
	off   int    // how many of them were taken
	data  []byte // the data, if they came with the call
	away  memory.Deferred
	turn  uint64
	chunk int
}

// Misuse of an [Opaque]. Nothing was read.
var (
	// ErrPulled: the data, or part of it, was pulled before.
	ErrPulled = errors.New("transport: the data were pulled already; each octet can be taken once")
	// ErrPullSize: the buffers do not have exactly the size of the data.
	ErrPullSize = errors.New("transport: the buffers do not have the size of the data; see Opaque.Len")
	// ErrPullLate: ServeRPC has returned.
	ErrPullLate = errors.New("transport: pull after ServeRPC has returned")
)

// Opaque reads the count word of an opaque with d, which must decode r.Args from their first octet
// on, and moves d past the opaque. If the count exceeds most, or octets are missing, d fails, and the
// reply should be GARBAGE_ARGS.
//
// It serves arguments whose data may still be at the client, and also those that came with the
// call: inline, with RDMA_MSGP, in a Position Zero chunk (which holds the arguments, so it is
// pulled whole), or over TCP.
func (r *Request) Opaque(d *xdr.Decoder, most int) Opaque {
	if l := r.Deferred; l != nil {
		if chunk, n, ok := l.Find(d, most); ok {
			return Opaque{n: n, away: l, turn: l.Turn(), chunk: chunk}
		}
	}
	data := d.Opaque(most)
	return Opaque{n: len(data), data: data}
}

// Len returns the length of the opaque in octets, without the pad.
func (o *Opaque) Len() int { return o.n }

// Pending reports whether data is still at the client. Pulling it costs a round trip.
func (o *Opaque) Pending() bool { return o.away != nil && o.off < o.n }

// Pull returns the data in memory that is lent until the reply was sent: where it came with the call,
// or in pooled memory. Errors are those of PullInto.
func (o *Opaque) Pull(ctx context.Context) ([]byte, error) {
	if o.off > 0 {
		return nil, ErrPulled
	}
	if o.away == nil {
		o.off = o.n
		return o.data, nil
	}
	if o.turn != o.away.Turn() {
		return nil, ErrPullLate
	}
	b := o.away.Scratch(o.n)
	return b, o.take(ctx, [][]byte{b})
}

// PullInto fills bufs with the data, in order; together they must have exactly Len octets. RDMA
// Reads place the data straight into them; data that came with the call is copied. PullInto
// borrows bufs until it returns. A net.Buffers can be passed as bufs....
//
// If ctx ends first, the connection is closed, because an RDMA Read cannot be cancelled, and
// PullInto returns when nobody touches the memory anymore. If a pull fails, the call gets no
// reply (RFC 8166 Section 4.5.3); if it must not run twice, it may come again. Errors:
// [ErrPulled], [ErrPullSize], [ErrPullLate]; an *OpError if the connection or ctx ended, which
// wraps region.ErrPinned if the memory must never be reused.
func (o *Opaque) PullInto(ctx context.Context, bufs ...[]byte) error {
	if o.off > 0 {
		return ErrPulled
	}
	room := 0
	for _, b := range bufs {
		room += len(b)
	}
	if room != o.n {
		return fmt.Errorf("%w: %d octets for %d", ErrPullSize, room, o.n)
	}
	return o.take(ctx, bufs)
}

// Reader returns the data as a stream. Each Read pulls as many octets as fit straight into its
// buffer, so large reads are cheaper. Otherwise it is like PullInto.
func (o *Opaque) Reader(ctx context.Context) io.Reader { return &opaqueReader{ctx, o} }

type opaqueReader struct {
	ctx context.Context
	o   *Opaque
}

// Read implements io.Reader.
func (r *opaqueReader) Read(p []byte) (int, error) {
	n := min(len(p), r.o.n-r.o.off)
	switch {
	case len(p) == 0:
		return 0, nil
	case n == 0:
		return 0, io.EOF
	}
	if err := r.o.take(r.ctx, [][]byte{p[:n]}); err != nil {
		return 0, err
	}
	return n, nil
}

// take fills bufs with the next octets.
func (o *Opaque) take(ctx context.Context, bufs [][]byte) error {
	from := o.off // it moves in any case: octets that failed are not tried again
	for _, b := range bufs {
		if o.away == nil {
			copy(b, o.data[o.off:])
		}
		o.off += len(b)
	}
	if o.away == nil || o.off == from {
		return nil
	}
	if o.turn != o.away.Turn() {
		return ErrPullLate
	}
	return o.away.Pull(ctx, o.chunk, from, bufs)
}
