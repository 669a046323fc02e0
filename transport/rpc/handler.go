package rpc

import "context"

// Handler serves RPC calls. ServeRPC may be called from many goroutines at once. It fills resp
// and returns; then the reply leaves. It is not called if the connection has ended before. If it panics, the reply is
// SYSTEM_ERR and the panic is logged. A handler may have two more methods. With
//
//	Describe(req *Request) Traits
//
// it says about a call, before it runs, what [Traits] has; without it, nothing is known of any call. req is that of
// ServeRPC, but Args may be without the data that the client offers in read chunks. With
//
//	Ready(ctx context.Context, req *Request) bool
//
// it names those of the lazy calls whose data it would certainly pull: then they are pulled at once, and the
// call is one like any other. Both are called where the call was read, maybe more than once; they must not block, nor
// keep req.
type Handler interface {
	ServeRPC(ctx context.Context, req *Request, resp *Response)
}

// Traits is what a handler says about a call without running it. The zero value is said of unknown ones.
type Traits struct {
	// Blocks: the call may wait for a disk, a lock or another machine. All others run in the
	// goroutine that reads the connection. This is several times faster, but blocks that connection
	// meanwhile. Calls that may block run there too, one at a time, as long as calls of their class have
	// taken little time on average; otherwise each gets a goroutine of its own. When any call takes longer
	// than Reading.HandlerLimit, another goroutine goes on reading.
	Blocks bool
	// Once: the call must not run twice. A client that has lost its connection sends its
	// calls again with the same XIDs, and cannot know which of them have run. The server answers
	// those from its duplicate request cache (transport.Config), whatever transport they come by, if
	// client, credential and all octets of the arguments are those of the first one. Their context ends
	// with the server, not with the connection.
	Once bool
	// Lazy: the handler wants to pull the data of the call itself. Data that the client offers in read
	// chunks then stays at the client, and Args come without the data and its pad. The handler pulls
	// the data with [Request.Opaque] straight into its own memory, or refuses the call without moving
	// it; a call that was refused so is not kept, even if it must not run twice. Such a call always has its
	// own goroutine.
	Lazy bool
	// Memory is how many octets the handler will take beyond Args: those of what it decodes them to. Above 4096 they count
	// in Limits.Memory, and the call waits for them. One that can never have them is answered by SYSTEM_ERR.
	Memory int
	// Class numbers the calls of a procedure that take about as long.
	Class uint32
	// Changes are hashes of the objects that a call with Once changes, 0: none. If both are 0, it may change any. A
	// call that runs when its client closes the connection delays those that come on newer ones from the same caller,
	// if they change one of its objects.
	Changes [2]uint64
}

// HandlerFunc is a function that is a Handler. Its calls must not block.
type HandlerFunc func(ctx context.Context, req *Request, resp *Response)

// ServeRPC calls f.
func (f HandlerFunc) ServeRPC(ctx context.Context, req *Request, resp *Response) { f(ctx, req, resp) }

// Describe returns what h says about a call, and the zero Traits if h has no such method. Handlers that pass calls on to
// another handler use it and [Ready] to pass on its answers as well. h may be nil.
func Describe(h Handler, req *Request) (t Traits) {
	if d, ok := h.(interface{ Describe(req *Request) Traits }); ok {
		t = d.Describe(req)
	}
	return t
}

// Ready is like Describe, for lazy calls whose data may be pulled at once.
func Ready(ctx context.Context, h Handler, req *Request) bool {
	r, ok := h.(interface {
		Ready(ctx context.Context, req *Request) bool
	})
	return ok && r.Ready(ctx, req)
}
