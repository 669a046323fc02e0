package memory

import (
	"context"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr"
)

// Lent is what a reply is sent from: memory that lasts until it was sent.
type Lent struct {
	// Items are bulk data, which belong at offset Pos of the results.
	Items []chunks.Item
	// Sent, if set, is called once when nobody reads Items anymore.
	Sent func()

	bufs []*Buffer
}

// Add lends a buffer.
func (l *Lent) Add(b *Buffer) { l.bufs = append(l.bufs, b) }

// Release gives everything back.
func (l *Lent) Release() {
	for i, b := range l.bufs {
		b.Release()
		l.bufs[i] = nil
	}
	clear(l.Items)
	l.bufs, l.Items = l.bufs[:0], l.Items[:0]
	if f := l.Sent; f != nil { // last: f may reuse what Items were
		l.Sent = nil
		f()
	}
}

// Abandon leaves what an engine may still use to the garbage collector: none of it is used again, and Sent is not called.
func (l *Lent) Abandon() {
	for _, b := range l.bufs {
		b.Abandon()
	}
	*l = Lent{}
}

// Deferred is a transport's end of a call whose data are still at the client.
type Deferred interface {
	// Find skips the count word at which d stands and returns its chunk and its length in octets. ok is
	// false if the data of the opaque are not at the client; then d was not moved. A count above most
	// makes d fail.
	Find(d *xdr.Decoder, most int) (chunk, n int, ok bool)
	// Turn is a number that changes when ServeRPC has returned: then nothing can be pulled anymore.
	Turn() uint64
	// Scratch is that of the rpc.Response.
	Scratch(n int) []byte
	// Pull fills bufs with octets of a chunk from off on.
	Pull(ctx context.Context, chunk, off int, bufs [][]byte) error
}
