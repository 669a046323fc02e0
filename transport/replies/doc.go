// Package replies makes the replies to calls durable at the client before its callers see them. The
// server pushes each reply of the chosen procedures into a commit log (package commitlog) in persistent
// memory of the client. After a crash the client can look up the replies that it had received.
//
//	server                                       client
//	p := &replies.Pusher{Handler: h,             replies.Create(mem, nil)            // once
//	    Addr: ":20051"}                          c, err := replies.Open(&replies.Config{
//	go p.Serve(listener)                             Memory: mem, Redial: redial})
//	s := &transport.Server{Handler: p}           for _, r := range c.Recovered() { ...; c.Done(r.Seq) }
//	                                             seq, err := c.Call(ctx, &call, &reply)
//	                                             ...make use of the reply...
//	                                             c.Done(seq)
//
// The server does not wait for the flush. The record travels next to the reply, and the verifier of the
// reply names the record. The client holds a reply back until its own engine has flushed the record,
// because the reply may overtake the flush.
//
// # Promises
//
// When Call returns a number other than 0, Open finds that reply after any crash, until Done is called.
// With it come the procedure, a digest of the call, and its key (epoch of the client's life, XID).
// Number 0 means that the reply was not pushed, and is only as durable as any other reply: the server
// does not push for this procedure, or cannot at the moment. ErrNotKept means that the reply named a
// record which will never be in the log.
//
// With Config.Calls, a note of each call is made durable in a second log before the call is sent.
// Unanswered lists the calls that a crashed client had sent and that were not answered; Settle strikes
// one out. A call whose Call has returned is not listed, whatever it returned, except when the crash
// interrupted the striking out. Not running a call twice is up to the server (see
// [rpc.Handler]).
//
// # Limits and non-features
//
// The server pushes only to clients on RDMA connections. Calls with RPCSEC_GSS are answered without a
// record, because their verifier belongs to RPCSEC_GSS. Records for which nobody calls Done fill the log;
// from then on replies come without a record. docs/replies.x describes the RPC program. A note adds a
// flush of the client's memory to each call.
//
// Pusher and Client are safe for concurrent use.
package replies
