package transport

// MayBlock asks h what it says about a call, as [Handler] has it; false if h says nothing.
// Like [NonIdempotent] and [Lazy] it is for handlers that pass calls on to another one,
// and must pass on what that says too. h may be nil.
func MayBlock(h Handler, prog, vers, proc uint32) bool {
	m, ok := h.(mayBlocker)
	return ok && m.MayBlock(prog, vers, proc)
}

// NonIdempotent is MayBlock for calls that must not run twice.
func NonIdempotent(h Handler, prog, vers, proc uint32) bool {
	m, ok := h.(nonIdempotent)
	return ok && m.NonIdempotent(prog, vers, proc)
}

// Lazy is MayBlock for calls whose data the handler takes itself. A handler that needs all
// of the arguments of a call before it passes the call on answers false instead.
func Lazy(h Handler, prog, vers, proc uint32) bool {
	m, ok := h.(lazyHandler)
	return ok && m.Lazy(prog, vers, proc)
}
