// Package probe plays bad input, and good input of the unusual kind, to a live server
// that speaks RPC-over-RDMA on iWARP, and says how it did.
//
//	p := probe.Prober{Address: "192.0.2.1:20049"}
//	err := p.Run(ctx, func(r *probe.Result) { fmt.Println(r.Case, r.Verdict) })
//
// A case is one thing that the documents forbid, allow or leave open: a startup frame
// with another key, an FPDU cut in the middle, a chunk list that declares 2^32-1
// segments. It has one or more tries, each on a connection of its own. What the peer
// does about it is compared with what the documents name:
//
//	ok         the answer that they name, or one of them
//	tolerated  one that they allow, or that a known peer gives without harm
//	fails      anything else: another answer, silence, memory touched that nobody
//	           offered, a bad call that was executed
//
// After every case the peer has to be alive: a NULL call is answered on a fresh
// connection, and on one that was there from the start and is not touched.
//
// Nothing that is sent changes anything at the peer. The only procedure that is
// called is NULL, by good and bad calls alike; a procedure, version or program that is
// called besides does not exist.
//
// The octets and the expectations are in internal/cases; this package has the
// connections and the clock.
package probe
