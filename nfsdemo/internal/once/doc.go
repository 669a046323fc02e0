// Package once runs calls that must not run twice exactly once, even if the server ends between
// executing and answering one. It stands between transport.Server and the server of a program, the
// [Service]:
//
//	j, err := once.OpenDir("/var/lib/nfsdemo", nil)
//	h, err := once.New(ctx, j, service, logger) // settles calls that a crash has left open
//	s := &transport.Server{Handler: h}
//	...
//	err = j.Close(ctx)
//
// # How
//
// Before a covered call is executed, an intent is made durable: who calls, what, and what the call is
// about to find. After it, and before the reply is sent, the results are made durable. Both go into
// one commit log, so that calls of many clients share their flushes. Calls that may run twice cost
// nothing extra.
//
// At a restart [New] asks the Service about every intent without a reply. The Service inspects its
// files to find out whether the call was executed. If so, the reply that it would have had is
// recorded; if not, the call is forgotten, and runs when it comes again. Only then does New return a
// handler to serve with. A repeated call gets the recorded results, octet for octet.
//
// While a call runs, other calls about the same names wait until its reply is on its way to the log.
// So Settle finds exactly what that call has left.
//
// # Limits
//
// A local process that changes the served files while the server is down, or between an intent and its
// execution, can deceive the inspection. Replies are kept for a limited time, and in limited number
// (Options). Calls with RPCSEC_GSS are not covered. The transport's duplicate request cache comes
// first, and answers calls that are repeated while the server lives.
//
// The first error of the journal's memory is final: from then on every covered call is refused, and
// none is executed.
//
// The format of the records, the guarantee and its limits are in docs/exactly-once.md.
package once
