// Package probe sends bad input, and valid input of unusual kinds, to a live server that speaks
// RPC-over-RDMA on iWARP, and reports how the server did.
//
//	p := probe.Prober{Address: "192.0.2.1:20049"}
//	err := p.Run(ctx, func(r *probe.Result) { fmt.Println(r.Case, r.Verdict) })
//
// A case is one thing that the documents forbid, allow or leave open: a startup frame with another key, an
// FPDU cut in the middle, a chunk list that declares 2^32-1 segments. It has one or more tries, each on its
// own connection. The answer of the peer is compared with what the documents name:
//
//	ok         the answer that they name, or one of them
//	tolerated  one that they allow, or that a known peer gives without harm
//	fails      anything else: another answer, silence, memory touched that nobody
//	           offered, a bad call that was executed
//
// After every case the peer must be alive: it must answer a NULL call on a fresh connection, and another on
// one that has been open from the start and is not used otherwise.
//
// The probe changes nothing at the peer: good and bad calls alike call only NULL, or a procedure, version or
// program that does not exist.
//
// The octets and the expectations are in internal/cases; this package has the
// connections and the clock.
package probe
