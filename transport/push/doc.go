// Package push appends to logs at a server, durably and in one round trip. They are commit logs
// (package commitlog), and a log belongs to whoever has its secret. Clients open a log with a small RPC
// program (docs/push.x) on an ordinary RPC connection, and append to it on a separate connection.
//
//	server                                     client
//	ps := &push.Server{Store: push.Dir(dir,    s, err := push.Dial(ctx, caller, "name",
//	    pmem.File), Addr: ":20050"}                &push.Config{Secret: kept})
//	err := ps.Load()                           r, err := s.Append(ctx, record)
//	go ps.Serve(listener)                      // r.Seq, r.Level
//	t := &transport.Server{Handler: ps}        rec, err := s.Reader(0).Next(ctx)
//
// # The ladder
//
// How a client appends depends on its peer. Session.Rung and Result.Level tell which way was taken:
//
//	Native   RDMA Write, Flush and Atomic Write; the server's program takes no part
//	Append   the RPC procedure APPEND: the server appends and syncs
//
// When a peer refuses the operations of the commit extension, or cannot be reached on the second
// connection, the client loses that rung for a while and nothing else. A log in memory that is
// not persistent gives Placed on both rungs.
//
// # Access
//
// A client chooses a secret of 128 random bits and keeps it; the first OPEN with a free name makes a log that
// belongs to it, of which the server keeps a digest. A client with another secret is always refused in the
// same way.
//
// An OPEN by the owner fences the previous session: its queued operations are dropped, and its running
// operations finish. The fenced instance is told so, and does not fence in return.
//
// Secret and records travel in the clear unless the connections use TLS. Whoever can read them can
// forge records.
//
// # After a connection is lost
//
// A Session opens the log again, and resends exactly the records that have not survived according to
// the answer. A Reader finds an append that has returned nil once, and in order.
//
// # Reading
//
// A Reader returns the records of a log, by number and with their epochs, and waits for more. It needs the
// secret and fences nobody. Records stay until Reader.Release; while a log is full, its owner's appends
// get StatusFull.
//
// # Limits
//
// Limits restricts what clients can take from a server, and documents the defaults. Who makes too many calls at a time is
// told that the server is busy.
//
// Server and Session are safe for concurrent use.
package push
