// Package nfsclient is an NFSv3 and MOUNT v3 client (RFC 1813) over any
// rpc.Caller: the same code reads and writes over RPC-over-RDMA
// (RFC 8267, nfs+rdma://) and over record-marked TCP (nfs://).
//
//	u, err := nfsclient.ParseURL("nfs+rdma://host/export/dir/file")
//	c, err := nfsclient.Dial(ctx, u, nil)  // MOUNT, connect, FSINFO
//	defer c.Close()
//	node, err := c.Lookup(ctx, u.Path)
//	end, err := c.ReadTo(ctx, node, file, 0, nil)
//
// # Layers
//
//   - One method per procedure encodes, calls, decodes, and turns a status into a *StatusError. It retries
//     JUKEBOX with a new XID.
//   - A [Node] is a file handle with its path and attributes. Paths are those of the URL: they begin
//     with the export. The client follows symbolic links, but only inside the export.
//   - Transfers (ReadTo, WriteFrom) keep several READs or WRITEs in flight and continue short
//     ones. WRITEs are UNSTABLE and followed by COMMIT; if the write verifier has changed, data
//     that may be lost are sent again.
//
// # Memory
//
// A transfer holds Config.InFlight blocks. The transport places file data in a block, or in the
// caller's memory if that is a [Lender], and from there they go to the io.WriterAt: over RDMA this
// package copies no data. Over TCP they come from the record of the reply.
//
// # Cancellation
//
// Every call takes a context. When that is done, the call returns at once with an error that wraps
// its cause. The server may still execute what was sent.
//
// # Not here
//
// Caches, locks (NLM), ACLs, RPCSEC_GSS. A lost connection ends the client, unless [Config] sets
// Reconnect. Symbolic links that leave the export are refused.
package nfsclient
