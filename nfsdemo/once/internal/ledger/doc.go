// Package ledger is the machine behind exactly once: which calls are under way, which
// replies are kept and for how long, what records of them are to be in the log, and which
// of those still count. It knows nothing of files, of NFS or of how a message travels.
// Records, events and the time go in; records come out, which the owner appends to a log
// that keeps their order. It has one owner, no lock and no clock: the owner says what time
// it is, in nanoseconds since 1970.
//
// A call goes through these steps; between two of them everything may end:
//
//	Begin   it has come, and is new
//	Intend  the record to be durable before it is executed
//	Reply   the record to be durable before the reply leaves
//	Done    that record is durable
//
// What is recovered is the same ledger, in which each call without a reply is to be
// settled: with Reply if it was executed, with Void if not. The format of the records is
// in docs/exactly-once.md.
package ledger
