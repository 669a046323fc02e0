// Package replies makes the replies to calls durable at the client before its callers see
// them: the server pushes each reply of the chosen procedures into a commit log in
// persistent memory of the client (package commitlog), and what a client that crashed was
// answered can be looked up.
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
// The server does not wait: the record leaves beside the reply, whose verifier names it. It
// is the client that holds a reply back until its own engine has flushed the record, since
// the reply may overtake the flush.
//
// # Promises
//
// A Call that returns a number other than 0 has a reply that Open finds after any crash,
// with its procedure, a digest of the call, and the key (epoch of the client's life, XID),
// until Done. Number 0 says that the reply was not pushed, and is as durable as any: the
// server does not do that, for this procedure or now. ErrNotKept says that a reply was
// named, and will not be in the log any more.
//
// With Config.Calls a note of each call is durable before it is sent, in a log of its own:
// Unanswered tells what a crashed client had asked and was not answered, for Settle to
// strike out. A call whose Call has returned is not among them, whatever it returned, but
// for what the crash has cut short. The server's side of exactly once, that it does not
// run a call again, is its own (see [transport.Handler]).
//
// # Immediate Data
//
// With Config.Immediates, and transport.Config.ImmediateReplies on both sides, a reply that
// its record holds does not travel twice: 8 octets of Immediate Data stand for it. Where
// that cannot be (the reply uses chunks, the call is a duplicate) it comes as ever.
//
// # Limits and non-features
//
// RDMA connections only; calls with RPCSEC_GSS are answered without a record, as the
// verifier is theirs. Records that nobody is Done with fill the log; then replies come
// without. The program is in docs/replies.x. A note costs a call a flush of the client's
// memory before it leaves.
//
// Pusher and Client may be used by several goroutines at once.
package replies
