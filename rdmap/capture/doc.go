// Package capture records connections in a pcapng file, with synthetic Ethernet, IP
// and TCP headers, so that Wireshark, tshark and
// github.com/stag-rdma/stag/conformance/internal/decode can read it. It needs no privileges, and
// also records connections that are not TCP.
//
//	w, err := capture.Create("trace.pcapng")
//	conn = w.TapClient(conn)        // use this conn from now on; or TapServer, TapListener
//	...
//	err = w.Close()                 // reports what could not be recorded
//
// [Writer.Conn] does the same for octets that you have already.
//
// TLS: a tap above it records the plaintext, iWARP that Wireshark finds by itself. A tap
// below it records the TLS records. To look inside them, give tls.Config.KeyLogWriter a
// file, and name that file in Wireshark (tls.keylog_file).
//
// What is recorded: octets in the order of the calls, in TCP segments of at most 65,483
// octets (the longest IPv4 packet less its headers), with correct sequence numbers and
// checksums. Every segment acknowledges everything that went the other way, and times
// never decrease. Nothing is reordered or sent twice.
//
// What it costs: one copy of every octet in the connection's own goroutine. A goroutine
// of the Writer turns the copies into packets and writes them. At most twice QueueSize
// octets wait for it. If the file is too slow, a connection waits for [Patience] and then
// goes on unrecorded until there is room: the capture has a hole in the sequence numbers,
// [Writer.Dropped] counts the octets, and [Writer.Close] returns a *[LossError]. The
// first error of the file ends the recording, but not the connections.
package capture
