// Package locks keeps advisory locks on ranges of files in the memory of this process. Table is the
// pure machine, Locker the [backend.Locker] above it, which waits.
//
// Owners who wait for each other wait until one of them gives up: the table does not look for
// deadlocks, since the wait of one thread says nothing about the other threads of an owner.
package locks
