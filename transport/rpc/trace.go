package rpc

import (
	"fmt"

	"github.com/stag-rdma/stag/rpcrdma"
)

// Trace has functions that are called for the steps of each call of a client or a server, in the
// manner of net/http/httptrace. The XID identifies the call. Any function may be nil. They run in
// the goroutines that do the work, several at a time, and must neither block nor use the
// connection. Without Config.Trace they cost nothing.
type Trace struct {
	// Registered: a client has registered octets of memory for its call.
	Registered func(xid uint32, kind ChunkKind, octets int)
	// Sent: a client is about to send a call, as a Send of octets, header included.
	Sent func(xid uint32, form rpcrdma.Form, octets int)
	// Replied: the reply to a client's call has come, a Send of octets. Invalidated: that Send has
	// invalidated the memory of the call (RFC 8797 Section 4.1).
	Replied     func(xid uint32, octets int)
	Invalidated func(xid uint32)
	// Ended: a client's call is over, with the error that Do returns.
	Ended func(xid uint32, err error)

	// Received: a server has taken a call, a Send of octets.
	Received func(xid uint32, octets int)
	// Pulled: a server has read octets of the chunks of the call.
	Pulled func(xid uint32, octets int)
	// Answered: a server is about to reply with a Send of octets, after RDMA Writes of written
	// octets.
	Answered func(xid uint32, octets, written int)
}

// ChunkKind says for which chunk memory was registered.
type ChunkKind uint8

// Kinds of chunks (RFC 8166 Section 3.4).
const (
	ReadChunk    ChunkKind = iota // an argument that was reduced
	PositionZero                  // the payload stream of a long call
	WriteChunk                    // a result that may be reduced
	ReplyChunk                    // a long reply
)

// String returns "read", "position zero", "write" or "reply".
func (k ChunkKind) String() string {
	names := [...]string{"read", "position zero", "write", "reply"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("ChunkKind(%d)", uint8(k))
}
