// Package backend is what an NFS server needs from a file system: an interface of files that
// are named by opaque handles, not by paths.
//
// Package dir implements it over a real directory, package mem over memory, and package
// backendtest is the suite every implementation must pass.
//
// # Division of work
//
// The server decodes calls, checks permissions against the caller's ids, checks names, and
// builds weak cache consistency data. A backend does what it is told, refuses what the kind
// of file does not allow (Lookup in a file is NFS3ERR_NOTDIR), and keeps the promises about
// durability: an operation on names or attributes is durable when it returns
// (RFC 1813 Section 1.3.1 and 4.8), WRITE and COMMIT do what stable_how says.
//
// # Errors
//
// Every error is an nfs3.Status, or is answered as NFS3ERR_IO.
//
// # Concurrency
//
// All methods of FS and Node may be called from any goroutine. Operations on one directory
// or one file take effect one after the other, in some order.
//
// # Memory
//
// Read fills the caller's slice and Write borrows the caller's data until it returns; neither
// is kept. Package copies counts the octets copied in user space on the way.
package backend
