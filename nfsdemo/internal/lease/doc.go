// Package lease orders push-mode writes and ordinary NFS operations. A client that holds a
// lease on a file writes to it by appending records to its commit log; the server applies
// them later. [Table] decides
//
//   - which record of a log may be applied: one with a live lease of the same log;
//   - when an operation that looks at a file may run: after all records that were acknowledged
//     before it have been applied;
//   - when an operation that changes a file may run: when, in addition, nobody holds a lease on
//     it. Leases are recalled for that; if a client does not return one in time, its log is
//     fenced. Acknowledged records are never dropped.
//
// The table is a pure machine: events and the time go in, actions ([Action]) come out. It is not
// safe for concurrent use.
package lease
