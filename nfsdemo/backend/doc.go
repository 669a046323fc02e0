// Package backend is what an NFS server needs from a file system: an interface to files that
// are named by opaque handles instead of paths.
//
// Package dir implements it over a directory, package mem in memory, and package backendtest is
// the test suite that every implementation must pass.
//
// # Division of work
//
// The server decodes calls, maps callers to identities, checks names, and builds weak cache
// consistency data. A backend decides what an identity may do (Node.As), refuses what the kind
// of file does not allow (Lookup in a file is NFS3ERR_NOTDIR), and is responsible for durability:
// an operation on names or attributes is durable when it returns (RFC 1813 Sections 1.3.1 and
// 4.8), and WRITE and COMMIT obey stable_how.
//
// # Errors
//
// Every error is an nfs3.Status; the server answers any other error with NFS3ERR_IO.
//
// # Concurrency
//
// All methods of FS and Node are safe for concurrent use. Operations on the same directory or
// file take effect one after the other, in some order.
//
// # Memory
//
// Read and Write borrow the caller's slice until they return. Package copies counts the octets
// that are copied in user space on the way.
package backend
