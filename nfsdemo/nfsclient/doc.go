// Package nfsclient is an NFSv3 and MOUNT v3 client (RFC 1813) over any
// transport.Caller: the same code reads and writes over RPC-over-RDMA
// (RFC 8267, nfs+rdma://) and over record-marked TCP (nfs://).
//
//	u, err := nfsclient.ParseURL("nfs+rdma://host/export/dir/file")
//	c, err := nfsclient.Dial(ctx, u, nil)  // MOUNT, connect, FSINFO
//	defer c.Close()
//	node, err := c.Lookup(ctx, u.Path)
//	n, err := c.ReadTo(ctx, node, os.Stdout…)
//
// # Layers
//
//   - one method per procedure (proc_*.go) that encodes, calls, decodes and turns
//     a status into a *StatusError. JUKEBOX is retried with a new XID.
//   - a node is a file handle with its path and attributes. Paths are those of the
//     URL: the export is their prefix. Symbolic links are followed by the client,
//     inside the export only.
//   - transfers (transfer.go, pump.go) keep several READs or WRITEs in flight.
//     Short READs and WRITEs are continued. WRITEs are UNSTABLE and followed by
//     COMMIT; when the write verifier changed, what might be lost is sent again.
//
// # Memory
//
// A transfer holds Config.InFlight blocks. File data are placed by the transport
// in the block, or in the caller's memory if that is a [Lender], and go from there
// to the io.WriterAt: this package copies no data over RDMA. Over TCP the data are
// handed out from the reply's record.
//
// # Cancellation
//
// Every call takes a context; when it is done the call returns at once with an
// error that wraps its cause. What was sent may still be executed.
//
// # Not here
//
// Caches, locks (NLM), ACLs, RPCSEC_GSS. A lost connection ends the client, unless
// [Config] says Reconnect. Symbolic links that leave the export are refused.
package nfsclient
