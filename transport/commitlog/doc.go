// Package commitlog is a log in persistent memory to which a peer appends by RDMA. RDMA operations
// write the record, flush it and make it part of the log, in one flight; the consumer's program takes
// no part in that (draft-talpey-rdma-commit-01). The package needs rdmap, but neither RPC nor NFS.
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
// The application carries the Answer from Advertise to the producer. Log.Serve and Producer.Attach
// send it over the connection itself.
//
// # Promises
//
// Every later Open finds an append that has returned with Persistent. It finds the records whole, in
// the order of their numbers, without gaps, and once each. The numbers begin with 1, and two
// acknowledged records never have the same number. An append that was in progress when a connection or
// a process ended may have survived or not. The Answer of the next session says which ones have, and
// Producer resends exactly the others.
//
// Next and Read return copies. Read returns records by number, as often as wanted, until they are released. After a restart it returns records that were not released again. The producer gets
// the room of a record back only when the head after it is durable.
//
// A new session ends the old one: its registrations are revoked, its queued operations are dropped, its
// running operations finish, and only then is the new epoch written.
//
// The first error of the memory is final for the Log. To recover, open it again.
//
// # Limits
//
// There is one session at a time. A record takes at most half the ring; its payload has at most 1 GiB.
// Whoever has an Answer may append: the package has no users. docs/commitlog-format.md describes the
// layout, and Inspect reads it.
//
// Log and Producer are safe for concurrent use.
package commitlog
