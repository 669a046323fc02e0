// Package lease orders push-mode writes and ordinary NFS operations. A client that holds a
// lease on a file writes to it by appending records to its commit log; the server applies
// them later. [Table] decides
//
//   - which record of a log may be applied: one of a live lease of that very log;
//   - when an operation that looks at a file may run: when what was acknowledged before it
//     has been applied;
//   - when an operation that changes a file may run: when besides nobody holds a lease on
//     it. Leases are recalled for that, and a log whose client does not answer in time is
//     fenced. Acknowledged records are never dropped.
//
// The table is a pure machine: events and the time go in, and each [Action] that is due comes
// out. It is not safe for concurrent use.
package lease
