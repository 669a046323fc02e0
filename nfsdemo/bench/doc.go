// Package bench measures the cost of making octets durable at an NFS server in another process:
// by push, as records in a log that the server applies to the file in the background (package
// pushwrite), against WRITE with FILE_SYNC (RFC 1813 Section 3.3.7), pulled by an RDMA Read or
// sent inline.
//
//	p, stop, err := bench.Serve(dir)        // in the other process
//	results, err := bench.Push(p, &bench.Options{Rounds: 9})
//
// The method is that of package measure: both sides alternate round by round, over sockets of
// the same kind, with files on the same file system.
package bench
