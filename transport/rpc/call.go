package rpc

import (
	"context"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/xdr"
)

// Call is one RPC, as a client describes it. Do borrows all slices until it returns; Item and
// Sink of a cancelled call longer: see Free.
type Call struct {
	// Prog, Vers and Proc name the procedure (RFC 5531 Section 9).
	Prog, Vers, Proc uint32
	// Cred is the credential and Verf its verifier; the zero values are AUTH_NONE. With the flavor RPCSECGSS and no body,
	// the call is made in the context of transport.Config.GSS.
	Cred, Verf xdr.Auth
	// Sign, if set, fills mic, the body of Verf in the message, from the message up to its credential, which has the XID.
	// It must not block.
	Sign func(header, mic []byte)
	// Args are the XDR arguments without the data and the pad of Item. Its count word stays.
	Args []byte
	// Item is the data of the reducible argument, nil for none. The binding of both ends must make it
	// DDP-eligible (NFSv3: the data of WRITE, the path of SYMLINK). The package decides whether it
	// travels inline or as a read chunk.
	Item []byte
	// ItemPos is where in Args the data of Item belongs: just after its count word.
	ItemPos int
	// Sink is where the eligible result may be placed (READ, READLINK): see Reply.Item. Its length bounds
	// that result. If nil, no write chunk is offered. A call with a Sink that Config.Binding makes no result
	// eligible for is refused, with a *rpcrdma.BindingError.
	Sink []byte
	// ItemMemory and SinkMemory, if not nil, are the registered memory of which Item and Sink are
	// slices. Then this call needs no registration for them.
	ItemMemory, SinkMemory *Memory
	// MoreItems are further reducible arguments, after Item and in ascending positions; Args contains
	// neither their data nor their pads. MoreSinks is room for further eligible results, in the order
	// of the results: each eligible result takes the next sink. They are for programs like NFS version
	// 4, where one call can have several READs and WRITEs (RFC 8166 Section 4.3.2.1). There are at
	// most 8 sinks in total.
	MoreItems []CallItem
	MoreSinks []CallSink
	// MaxResults bounds the results in octets, without the RPC reply header, the data placed in
	// Sink, and its pad. If the results might not fit inline, a reply chunk is offered. 0 means
	// that they fit, a negative number that they may be as large as Config.MaxPayload allows, for which
	// memory is taken. Larger results that do not fit inline either (4096 octets over TCP) come back as an RPCError
	// with a RoomError.
	MaxResults int
	// Free, if set, is called once when Item and Sink are no longer used. Normally this is before
	// Do returns; if the context ended first, it is when the reply comes or the connection ends.
	// Until then the server may read Item and write Sink. Free must not block. Without Free, do
	// not reuse the memory of a cancelled call.
	Free func()
	// Repeatable says that a redial.Caller may send the call again when it is not known whether the server
	// has run it: it may run twice, or the server keeps its reply, so that it does not (see [Handler]).
	Repeatable bool

	// Resend, if set, keeps the XID of the call over several connections; nil: the connection chooses one.
	Resend *Transmission
}

// Reduce takes the eligible argument out of Args, whose memory Item shares then, so that it can move by RDMA. It is for
// those who pass calls on. Without an eligible argument, or if not all of it is there, Args stay whole.
func (c *Call) Reduce(b chunks.Binding) {
	args := c.Args
	pos, n, ok := b.FindArg(c.Prog, c.Vers, c.Proc, args)
	if !ok || n == 0 || n > len(args)-pos || xdr.Pad(n) > len(args)-pos-n {
		return
	}
	c.Item, c.ItemPos, c.Args = args[pos:pos+n], pos, args[:pos]
	if tail := args[pos+n+xdr.Pad(n):]; len(tail) > 0 { // elsewhere: the item stays where it is
		c.Args = append(append(make([]byte, 0, pos+len(tail)), args[:pos]...), tail...)
	}
}

// Reply is the reply to a call. The zero value is ready for Do, and a Reply may be used again
// after Release.
type Reply struct {
	// Header is the RPC reply header; Header.Err is nil for Success.
	Header xdr.ReplyHeader
	// Results are the octets after the header, lent until Release. If Item is not nil, or if Placed, they
	// contain the count word of the item, but not its data and pad.
	Results []byte
	// Item is the eligible result of a call with a Sink, without MoreSinks: the beginning of Sink if it was
	// placed there, or memory lent until Release if it came inline (copy(sink, reply.Item) does in both
	// cases what one expects). It is nil if the results have none, such as those of an error, and if one that
	// came inline cannot be found: under RPCSEC_GSS, and in a program without a binding.
	Item []byte
	// Placed says that the eligible result, or one of several, came by RDMA into its Sink.
	Placed bool
	// Lens are the octets of results in Sink and MoreSinks, if Placed; lent until Release.
	Lens []int

	// Lent is for transports: where Results lie, which Release gives back.
	Lent *memory.Buffer
}

// Release gives back the memory of Results. It may be called more than once. If it is never
// called, the garbage collector reclaims the memory.
func (r *Reply) Release() {
	if r.Lent != nil {
		r.Lent.Release()
	}
	lens := r.Lens[:0] // so that the next use allocates nothing
	*r = Reply{}
	r.Lens = lens
}

// Transmission is what a call keeps when it is sent again on another connection.
type Transmission struct {
	XID    uint32
	Posted bool // on the current connection: some of it may have been sent
	Sent   int  // number of times it was posted
	// Again, if set, is called before the call is sent for the second and each further time. It must not
	// block.
	Again func(call *Call)
}

// Posting notes that call is about to be sent. A call without a Transmission has none to note it in.
func (tx *Transmission) Posting(call *Call) {
	if tx == nil {
		return
	}
	tx.Posted = true // before it is sent: if that fails, perhaps some of it was
	tx.Sent++
	if tx.Sent > 1 && tx.Again != nil {
		tx.Again(call)
	}
}

// Caller is an RPC client, as transport.Client over RDMA, transport.StreamClient over record-marked TCP, and
// redial.Caller over either.
type Caller interface {
	// Do sends a call and waits for its reply. It returns nil when a reply has come, whatever its
	// status: see reply.Header.Err. The error is *RPCError if only this call was refused, and
	// *OpError if the connection or the context ended. Do releases reply first.
	Do(ctx context.Context, call *Call, reply *Reply) error
	// Stats returns the counters of this connection.
	Stats() Stats
	// Close ends the connection. Calls in flight fail with net.ErrClosed.
	Close() error
}

// CallItem is one more reducible argument of a call; see [Call].MoreItems.
type CallItem struct {
	Pos    int     // where in Args the data belongs: just after its count word
	Data   []byte  // like Call.Item
	Memory *Memory // like Call.ItemMemory
}

// CallSink is room for one more eligible result of a call; see [Call].MoreSinks.
type CallSink struct {
	Data   []byte  // its length is that of the largest result; 0: this result comes inline
	Memory *Memory // like Call.SinkMemory
}
