package rpc

import "context"

// Handler serves RPC calls. ServeRPC may be called from many goroutines at once. It fills resp
// and returns; then the reply leaves. It is not called if the connection has ended before. If it panics, the reply is SYSTEM_ERR and the panic is
// logged. A handler may have five more methods. With
//
//	MayBlock(prog, vers, proc uint32) bool
//
// it names the calls that may wait for a disk, a lock or another machine. All others run in the
// goroutine that reads the connection. This is several times faster, but blocks that connection
// meanwhile. Calls that may block run there too, one at a time, as long as calls of their class have
// taken little time on average; otherwise each gets a goroutine of its own. When any call takes longer
// than Reading.HandlerLimit, another goroutine goes on reading. With
//
//	Class(req *Request) Class
//
// it says which calls of a procedure take about as long, and which objects a call changes. req is that of ServeRPC.
// Without it all calls of a procedure are one class, and all calls that must not run twice change the same.
//
// With
//
//	NonIdempotent(prog, vers, proc uint32) bool
//
// it names the calls that must not run twice. A client that has lost its connection sends its
// calls again with the same XIDs, and cannot know which of them have run. The server answers
// those from its duplicate request cache (transport.Config), whatever transport they come by, if
// client, credential and all octets of the arguments are those of the first one. Their context ends
// with the server, not with the connection.
//
// With
//
//	Lazy(prog, vers, proc uint32) bool
//
// it names the calls whose data it wants to pull itself. Data that the client offers in read
// chunks then stays at the client, and Args come without the data and its pad. The handler pulls
// the data with [Request.Opaque] straight into its own memory, or refuses the call without moving
// it; a call that was refused so is not kept, even if it must not run twice. Such a call always has its
// own goroutine. With
//
//	Ready(ctx context.Context, req *Request) bool
//
// it names those of them whose data it would certainly pull: then they are pulled at once, and the
// call is one like any other. Ready is called where the call was read, with Args as above; it must not
// block, nor keep req.
type Handler interface {
	ServeRPC(ctx context.Context, req *Request, resp *Response)
}

// HandlerFunc is a function that is a Handler. Its calls must not block.
type HandlerFunc func(ctx context.Context, req *Request, resp *Response)

// ServeRPC calls f.
func (f HandlerFunc) ServeRPC(ctx context.Context, req *Request, resp *Response) { f(ctx, req, resp) }

// mayBlocker, classifier, nonIdempotent, lazyHandler and readyHandler are the optional methods of a Handler.
type (
	mayBlocker interface {
		MayBlock(prog, vers, proc uint32) bool
	}
	classifier interface {
		Class(req *Request) Class
	}
	nonIdempotent interface {
		NonIdempotent(prog, vers, proc uint32) bool
	}
	lazyHandler interface {
		Lazy(prog, vers, proc uint32) bool
	}
	readyHandler interface {
		Ready(ctx context.Context, req *Request) bool
	}
)

// MayBlock returns the result of h's method MayBlock for a call (see [Handler]), and false if h has
// no such method. Handlers that pass calls on to another handler use it, [ClassOf], [NonIdempotent], [Lazy]
// and [Ready] to pass on its answers as well. h may be nil.
func MayBlock(h Handler, prog, vers, proc uint32) bool {
	m, ok := h.(mayBlocker)
	return ok && m.MayBlock(prog, vers, proc)
}

// Class is what a handler says about a call without running it. The zero value is said of unknown ones.
type Class struct {
	// Pace numbers the calls of a procedure that take about as long.
	Pace uint32
	// Changes are hashes of the objects that the call changes, 0: none. If both are 0, it may change any. A call that
	// runs when its client closes the connection delays those that come on newer ones from the same caller, if they
	// change one of its objects.
	Changes [2]uint64
}

// ClassOf is like MayBlock, for the class of a call; the zero Class if h has no such method.
func ClassOf(h Handler, req *Request) (c Class) {
	if m, ok := h.(classifier); ok {
		c = m.Class(req)
	}
	return c
}

// NonIdempotent is like MayBlock, for calls that must not run twice.
func NonIdempotent(h Handler, prog, vers, proc uint32) bool {
	m, ok := h.(nonIdempotent)
	return ok && m.NonIdempotent(prog, vers, proc)
}

// Lazy is like MayBlock, for calls whose data the handler pulls itself. A handler that needs all
// arguments of a call before it passes the call on returns false instead.
func Lazy(h Handler, prog, vers, proc uint32) bool {
	m, ok := h.(lazyHandler)
	return ok && m.Lazy(prog, vers, proc)
}

// Ready is like MayBlock, for lazy calls whose data may be pulled at once.
func Ready(ctx context.Context, h Handler, req *Request) bool {
	m, ok := h.(readyHandler)
	return ok && m.Ready(ctx, req)
}
