// Package crash proves what a server keeps when it, its machine or its clients are killed in
// the middle of their work.
//
// A [Worker] is a client of one thread. It chooses operations at random among names that are
// its own, notes each on its [List] before it is sent and its result when it has come, and
// sends a call that had no answer again with the same XID for as long as it takes. Since
// nobody else touches these names, a [Model] of some files knows the only right result of
// every operation: a REMOVE that is answered NFS3ERR_NOENT has run twice, or that of another
// name has.
//
// [Check] takes the list and a [Tree], what is there after the crash. All that was
// acknowledged must be there, once; the operation that was under way, once or not at all.
// Octets that were written and not committed may be there or not, in pieces of 512 octets.
//
// The lists are files to which one write(2) adds a line. They outlive the process that is
// killed with SIGKILL, not the machine they are on: when a machine is killed, its clients run
// on another.
package crash
