// Package capture writes what connections say to a pcapng file, with synthetic
// Ethernet, IP and TCP headers, so that Wireshark, tshark and
// github.com/stag-rdma/stag/conformance/decode open it. It needs no capture rights,
// and works for connections that never were TCP.
//
//	w, err := capture.Create("trace.pcapng")
//	conn = w.TapClient(conn)        // use this one instead; or TapServer, TapListener
//	...
//	err = w.Close()                 // says what could not be recorded
//
// [Writer.Conn] does the same for octets that are at hand, [Writer.Relay] between two
// ends that keep their own connections.
//
// TLS: a tap above it records what is said inside, iWARP that Wireshark finds by itself.
// A tap below it records what TLS makes of that; give tls.Config.KeyLogWriter a file
// beside the capture, and Wireshark that file (tls.keylog_file), to look inside.
//
// What is recorded: octets in the order of the calls, in TCP segments of at most 65,483
// (the longest IPv4 packet less the headers) with right sequence numbers and checksums;
// every segment acknowledges all that went the other way; times ascend. Nothing
// is reordered or sent twice.
//
// What it costs: one copy of every octet in the connection's own goroutine. A goroutine
// of the Writer makes packets of the copies and writes them. At most twice QueueSize
// octets wait for it; when a file does not keep up, a connection waits for [Patience]
// and then goes on unrecorded until there is room: the capture shows a hole in the
// sequence numbers, [Writer.Dropped] counts and [Writer.Close] returns a *[LossError].
// The first error of the file ends the recording, not the connections.
package capture
