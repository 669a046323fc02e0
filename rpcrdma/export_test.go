package rpcrdma

// The counters of the machines are for tests; a server and a client count for themselves.
type (
	RequesterStats = requesterStats
	ResponderStats = responderStats
)

func (r *Requester) Stats() RequesterStats { return r.stats }

func (r *Responder) Stats() ResponderStats { return r.stats }
