// Package admit bounds what the clients of a server make it hold, whatever carries their calls:
// connections, octets and pulls, in total and for each client address.
//
// A [Gate] belongs to a server or listener. [Gate.Enter] admits a connection, a [Peer], and the gate gives it credits. Each
// call has a [Ticket], which asks for octets before they are taken; a call that asks for more than there is waits, first for
// its client's share, after calls of that client only, and then for the rest, where clients take turns.
// A connection that holds nothing may use a part that is spared for such connections, so that slow peers
// do not stop the others.
//
// What a ticket holds while its peer has to send or to read something is watched: [Budget.Look] cuts the
// peers that move fewer octets than they must. While calls wait, it gives them less time, and cuts those that
// have been too slow for longest, until what they hold is enough.
//
// The accounts of all that are a [Budget], which has no goroutine, clock or socket: those are the gate's.
package admit
