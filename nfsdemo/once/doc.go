// Package once lets calls that must not run twice run exactly once, even if the server
// ends between executing one and answering it. It stands between transport.Server and a
// server of some program, the [Service]:
//
//	j, err := once.OpenDir("/var/lib/nfsdemo", nil)
//	h, err := once.New(ctx, j, service, logger) // settles what the last life left open
//	s := &transport.Server{Handler: h}
//	...
//	err = j.Close(ctx)
//
// # How
//
// Before a covered call is executed, an intent is made durable: who calls, what, and what
// the call was about to find. After it, and before the reply leaves, the results are. Both
// go into one commit log, so that calls of many clients share their flushes. Calls that
// may run again pay nothing.
//
// At a restart [New] looks at every intent without a reply and asks the Service, by
// inspection, whether it was executed. If so, the reply that it would have had is
// recorded; if not, the call is forgotten, and runs when it comes again. Only then does
// anybody get a handler to serve with. A call that comes again finds the recorded results,
// octet for octet.
//
// While a call runs, others about the same names wait, until its reply is on its way to
// the log: so what Settle finds is what that call has left.
//
// # Limits
//
// What a local process changes in the served files while the server is down, or between
// an intent and its execution, can deceive the inspection. Replies are kept for a time, and
// a bounded number of them (Options). Calls with RPCSEC_GSS are not covered. The transport's
// own duplicate request cache stays in front, and answers calls that come again within one
// life of the server.
//
// The first error of the journal's memory is final: from then on every covered call is
// refused, and none is executed.
//
// The format of the records, the guarantee and its limits are in docs/exactly-once.md.
package once
