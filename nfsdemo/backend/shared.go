package backend

import "context"

// CallID tells calls apart. A call that a client sends again, because it has no answer, has that of the first.
type CallID [16]byte

// Shared is an optional part of an FS that several servers serve. A call that comes again may come to another
// server, which must then not run it twice, nor answer that it fails because it has run. What makes a file leaves its
// CallID there (Create); what removes or moves a name is remembered.
type Shared interface {
	// Remember keeps for some minutes, for all servers, what a call has found before it changes anything. It
	// survives whatever a change survives that begins after Remember has returned. It returns what was found the first
	// time, and how many times id was remembered, with this one. It borrows found.
	Remember(ctx context.Context, id CallID, found []byte) (was []byte, times int, err error)
}
