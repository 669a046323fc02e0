package transport

import (
	"context"

	"github.com/stag-rdma/stag/xdr"
)

// Call is one RPC, as a client describes it. All slices are borrowed until Do
// returns; Item and Sink of a call that was cancelled longer, see Free.
type Call struct {
	// Prog, Vers and Proc name the procedure (RFC 5531 Section 9).
	Prog, Vers, Proc uint32
	// Cred is the credential and Verf its verifier; the zero values are AUTH_NONE.
	Cred, Verf xdr.Auth
	// Args are the XDR arguments without the octets and the pad of Item, whose count
	// word stays.
	Args []byte
	// Item is the reducible argument's data, nil for none. It must be DDP-eligible
	// by the binding of both ends (NFSv3: the data of WRITE, the path of SYMLINK).
	// Whether it travels inline or as a read chunk is not the caller's business.
	Item []byte
	// ItemPos is where in Args the data of Item belong: just after their count word.
	ItemPos int
	// Sink is where the eligible result may be placed (READ, READLINK); its length
	// is the largest result. Nil: no write chunk is offered.
	Sink []byte
	// ItemMemory and SinkMemory, if not nil, are the registered memory that Item and Sink
	// are slices of: they need no registration of their own for this call.
	ItemMemory, SinkMemory *Memory
	// MoreItems and MoreSinks are further reducible arguments, behind Item in ascending
	// positions, and room for further eligible results, in the order in which they come:
	// for programs like NFS version 4, of which a call can hold several READs and WRITEs
	// (RFC 8166 Section 4.3.2.1). There are at most 8 sinks in all. Where several are
	// offered, each eligible result that comes takes the next one. Args has none of the
	// items' octets and pads.
	MoreItems []CallItem
	MoreSinks []CallSink
	// MaxResults bounds the results in octets, without the RPC reply header, the
	// data placed in Sink and their pad. A reply chunk is offered when they might not
	// fit inline. 0 says that they do. Results beyond it come back as an RPCError.
	MaxResults int
	// Free, if set, is called once when Item and Sink are no longer used: before Do
	// returns, or, if Do ended before the reply (its context did), when the reply has
	// come or the connection has ended. Until then the server may read Item and write
	// Sink. It must not block. Without it, do not reuse the memory of a call that
	// was cancelled.
	Free func()

	tx *transmission // of a Redialer's call, or of one that is passed on
}

// Reply is the answer to a call. The zero value is ready for Do; it may be used
// again after Release.
type Reply struct {
	// Header is the RPC reply header; Header.Err is nil for Success.
	Header xdr.ReplyHeader
	// Results are the octets behind the header, lent until Release. If Placed, the
	// item's data and pad are not among them; the count word is.
	Results []byte
	// Placed says that the eligible result is in the call's Sink, or one of several in
	// theirs.
	Placed bool
	// ItemLen is how many octets of Sink were written, if Placed.
	ItemLen int
	// Lens are the octets of results in Sink and MoreSinks, if Placed; lent until Release.
	Lens []int

	buf *buffer
}

// Release gives the memory of Results back. It may be called more than once; not
// calling it costs garbage, nothing else.
func (r *Reply) Release() {
	if r.buf != nil {
		r.buf.release()
	}
	*r = Reply{Lens: r.Lens[:0]}
}

// Caller is an RPC client: [*Client] over RDMA, [*StreamClient] over record-marked
// TCP.
type Caller interface {
	// Do sends a call and waits for its reply. It returns nil when a reply came,
	// whatever its status: see reply.Header.Err. Errors are *RPCError when this call
	// alone was refused, *OpError when the connection or the context ended. reply is
	// released first.
	Do(ctx context.Context, call *Call, reply *Reply) error
	// Stats returns the counters of this connection.
	Stats() Stats
	// Close ends the connection; calls in flight fail with net.ErrClosed.
	Close() error
}

var (
	_ Caller = (*Client)(nil)
	_ Caller = (*StreamClient)(nil)
)
