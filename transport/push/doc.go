// Package push appends to logs at a server, durably and in one round trip: commit logs
// (package commitlog) that belong to whoever has their secret, opened by a small RPC
// program (docs/push.x) on an ordinary RPC connection, and appended to on a connection of
// their own.
//
//	server                                     client
//	ps := &push.Server{Store: push.Dir(dir,    s, err := push.Dial(ctx, caller, "name",
//	    pmem.File), Addr: ":20050"}                &push.Config{Secret: known, Keep: keep})
//	err := ps.Load()                           r, err := s.Append(ctx, record)
//	go ps.Serve(listener)                      // r.Seq, r.Level
//	t := &transport.Server{Handler: ps}
//	l, err := ps.Log("name")
//	rec, err := l.Next(ctx)
//	...make its effects durable...
//	err = l.Release(rec.Seq)
//
// # The ladder
//
// What a client gets depends on its peer, and Session.Rung and Result.Level tell it:
//
//	Native   RDMA Write, Flush and Atomic Write; the server's processor has no part in it
//	Append   the RPC APPEND: the server appends and syncs
//	InFile   WRITE and COMMIT: to a file of another server, by Config.File
//
// A peer that refuses the operations of the commit extension, or cannot be reached on the
// second connection, costs the rung and nothing else. A log in memory that is not
// persistent gives Placed on every rung.
//
// # Who may
//
// A log belongs to whoever has its secret, 128 bits that the server issues at the first
// OPEN and keeps a digest of. Who has another one, or none, is refused in the same way,
// whether there is such a log or not; that a free name can be had, Server.Allow decides. An
// OPEN by the owner ends, or fences, the session before it: what that has queued is
// dropped, what is running finishes. An instance that was fenced so is told, and does not
// fence in return. Secret and records travel in the clear unless the
// connections are of TLS: whoever reads them can forge.
//
// # After a cut
//
// A Session opens again and resends exactly what the answer says has not survived. An
// append that returned nil is found by the consumer once, in order.
//
// # Limits
//
// Limits has the bounds of a server with their defaults: logs, octets, opens per second
// and address, flushes and hashed octets per second and log. Floods are slowed down, not
// refused.
//
// Server, Log and Session may be used by several goroutines at once.
package push
