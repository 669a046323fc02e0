// Package crash checks what a server keeps when it, its machine or its clients are killed in the
// middle of their work.
//
// A [Worker] is a client that does one operation at a time, on names that belong to it alone. It
// chooses operations at random and notes each on its [List]: before it is sent, and again with
// its result. It sends an unanswered call again with the same XID for as long as it takes. Since
// nobody else touches these names, a [Model] of the files knows the only right result of every
// operation: if a REMOVE is answered NFS3ERR_NOENT, it, or another REMOVE, has run twice. A server forgets its
// replies when it is killed, so a call that was on its way then may have.
//
// [Check] compares the list with a [Tree], the files after the crash. Every acknowledged operation
// must have been done once; the one in flight, once or not at all. Octets that were written but not
// committed may be there or not, in pieces of 512 octets.
//
// Lists are files; one write(2) adds a line. They survive a SIGKILL of the process, but not of the
// machine they are on: if a machine is to be killed, its clients must run on another.
package crash
