// Package commitlog is a log in persistent memory to which a peer appends by RDMA: the
// record is written, flushed and made part of the log by operations that the consumer's
// processor has no part in, in one flight (draft-talpey-rdma-commit-01). It needs rdmap,
// and neither RPC nor NFS.
//
//	consumer                                 producer
//	Create(mem, nil)                         p := NewProducer(nil)
//	l, err := Open(mem)                      c := rdmap.Client(nc, p.Config(nil))
//	c := rdmap.Server(nc, Config(nil))       err := c.Handshake(ctx)
//	a, err := l.Advertise(ctx, c)  ──────>   err = p.Open(c, a)
//	rec, err := l.Next(ctx)                  r, err := p.Append(ctx, payload)
//	...make its effects durable...
//	err = l.Release(rec.Seq)
//
// How the Answer travels is the business of who uses the package; Log.Serve and
// Producer.Attach send it over the connection itself.
//
// # Promises
//
// An append that has returned with Persistent is found by every later Open. Records are
// found in the order of their numbers, without gaps, whole, and once. The numbers begin
// with 1 and are never given to two records that were both acknowledged. What was on its
// way when a connection or a process ended is there or is not; the Answer of the next
// session says which, and Producer resends exactly the rest.
//
// Next hands out copies. A record is handed out again after a restart until it was
// released. Its room is given back to the producer when the head is durable, and not before.
//
// A new session ends the one before: its registrations are revoked, what it has queued
// is dropped, what is running finishes, and only then is the new epoch written.
//
// The first error of the memory is final for the Log; recovery is to open it again.
//
// # Limits
//
// One session at a time. A record is at most half the ring, and 1 GiB. Whoever holds an
// Answer may append: the package knows no users. The layout is in docs/commitlog-format.md;
// Inspect reads it.
//
// Who may call what: methods of Log and of Producer may be called from several
// goroutines at once.
package commitlog
