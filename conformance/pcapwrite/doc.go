// Package pcapwrite turns octet streams into a packet capture: what two ends of a connection said
// to each other, recorded above TCP, becomes a pcap file with synthetic Ethernet, IP and TCP headers that
// Wireshark, tshark and [github.com/stag-rdma/stag/conformance/decode] open. No capture rights are
// needed, and it works for connections that never were TCP.
//
//	w, err := pcapwrite.NewWriter(file)
//	c := w.Conn(client, server)      // two netip.AddrPort; writes SYN, SYN+ACK, ACK
//	c.Write(pcapwrite.ToServer, p)   // and so on, in the order things happened
//	c.Close()                        // writes FIN both ways
//
// [Writer.Tap] does the same around a net.Conn while it is in use, [Writer.Relay] between two ends that
// keep their own connections.
//
// Contract: octets are cut into TCP segments of at most 65,483 octets (the longest IPv4 packet minus
// the headers); every segment acknowledges all that went the other way; checksums are right;
// times ascend. Nothing is reordered, lost or sent twice. [Writer] and [Conn] are safe for
// concurrent use, so that many connections can go to one file.
//
// The first error of the underlying writer is kept: later calls do nothing and return it, and
// [Writer.Err] tells it to users of a Tap, whose connection goes on without recording.
package pcapwrite
