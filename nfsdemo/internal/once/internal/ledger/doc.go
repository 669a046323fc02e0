// Package ledger is the state machine of package once: which calls are running, which replies are kept
// and for how long, which records of them must be in the log, and which records still count. It knows
// nothing about files, NFS or transports. Records, events and the time go in; records come out, which
// the owner appends to a log that keeps their order. It has one owner, no lock and no clock: the owner
// passes the time, in nanoseconds since 1970.
//
// A call goes through these steps; a crash may come between any two of them:
//
//	Begin   the call has come, and is new
//	Intend  returns the record that must be durable before the call is executed
//	Reply   returns the record that must be durable before the reply is sent
//	Done    that record is durable
//
// After a crash the same ledger is recovered, and each call without a reply must be settled: with
// Reply if it was executed, with Void if not. The format of the records is in docs/exactly-once.md.
package ledger
