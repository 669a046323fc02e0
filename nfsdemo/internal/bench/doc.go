// Package bench measures an NFS server in another process: what RDMA makes of its calls, and what it
// costs to make octets durable.
//
//	p, stop, err := bench.ServeNFS(dir)     // in the other process
//	columns, err := p.Columns()
//	table, err := bench.NFS(columns, nil)
//
// [NFS] puts the same READs, WRITEs, GETATTRs and LOOKUPs on servers over RDMA and over TCP, and on any others.
//
//	p, stop, err := bench.Serve(dir)        // in the other process
//	results, err := bench.Push(p, &bench.Options{Rounds: 9})
//
// [Push] compares push, as records in a log that the server applies to the file in the background
// (package pushwrite), with WRITE with FILE_SYNC (RFC 1813 Section 3.3.7), pulled by an RDMA Read or
// sent inline.
//
// The method is that of package measure: the sides alternate round by round, over sockets of
// the same kind, with files on the same file system.
package bench
