package transport

// MayBlock returns what the method MayBlock of h says about a call (see [Handler]), and false if
// h has no such method. Handlers that pass calls on to another handler need it, and
// [NonIdempotent] and [Lazy], to pass on its answers as well. h may be nil.
func MayBlock(h Handler, prog, vers, proc uint32) bool {
	m, ok := h.(mayBlocker)
	return ok && m.MayBlock(prog, vers, proc)
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
