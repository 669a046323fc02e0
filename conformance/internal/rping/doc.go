// Package rping speaks the protocol of rping, the program of rdma-core that tries out RDMA connections, on
// the engine of package rdmap. It tests Sends, Reads and Writes against other implementations of iWARP, in
// both roles.
//
// A ping, as seen in testdata/pcaps/a-rping.pcap:
//
//	client                          server
//	Send: source buffer       ──>
//	                          <──   RDMA Read of the source
//	                          <──   Send: go ahead
//	Send: sink buffer         ──>
//	                          <──   RDMA Write of what was read, into the sink
//	                          <──   Send: go ahead
//	compares sink with source
//
// Every Send carries an [Info] of 16 octets; those of the server are empty. The client repeats this as often
// as it likes, and closes the connection. So a ping needs an IRD and an ORD of one, and the server learns
// the size from the client.
//
//	c := rdmap.Client(tcp, rping.Config(rdmap.CRCOn))
//	if err := c.Handshake(ctx); err != nil { … }
//	err := rping.Ping(ctx, c, &rping.Options{Size: 4096, Count: 3})
//
// The other side is [Echo] on one connection and [Server.Serve] on a listener.
//
// Against rping itself:
//
//	rping -s -P -a ADDRESS -p PORT -S SIZE          conformance rping client
//	rping -c -a ADDRESS -p PORT -S SIZE -C N -V     conformance rping server
package rping
