// Package decode reads packet captures of iWARP, RoCE and InfiniBand and says, frame by frame, what the two ends told
// each other: pcap or pcapng, then TCP, MPA (RFC 5044, RFC 6581), DDP (RFC 5041), RDMAP (RFC 5040, RFC
// 7306), RPC-over-RDMA version 1 (RFC 5666, RFC 8166), ONC RPC (RFC 5531), and names and status codes of NFS
// and MOUNT (RFC 1813), operations of NFSv4 (RFC 7531, RFC 5662, RFC 7863), the Connection Configuration
// Protocol (RFC 5666 Section 6), and commit logs (docs/commitlog-format.md).
//
// It uses the codecs of the engine ([github.com/stag-rdma/stag/rdmap/mpa] and its neighbours), not the
// engine itself: a decoder reports what is there, legal or not, and never refuses anything. What is
// malformed in a frame is in [Event.Err]; whether a frame is allowed is decided above this package, by
// [github.com/stag-rdma/stag/conformance/internal/judge].
//
// # Model
//
// [Events] turns a capture into a sequence of [Event]: a connection opens, sends a startup frame, sends
// FPDUs, closes; octets that cannot be decoded come as an event of their own with the reason. Every octet of
// every stream is covered by exactly one event, in stream order for each direction: Offset and Len say which
// octets. An event names the packet that completed it (Frame) and the one it began in (First). The layers of
// a frame are pointers in its event, nil where a layer is absent; an FPDU that completes a message also
// carries the message, the RPC-over-RDMA header in it, and the RPC.
//
// Underneath, [Conn] is the machine of one connection: octets of either direction go in, events come out. It
// reads no clock and does no I/O, so it can also decode streams that were never packets, such as an engine's
// recording of itself.
//
//	for ev, err := range decode.Events(file, nil) {
//		if err != nil {
//			return err // the file is damaged; the events so far are good
//		}
//		fmt.Println(ev)
//	}
//
// Of RoCE and InfiniBand a packet of a reliable connection is an event, in [Event.RC], and messages of the connection manager
// take the place of the startup. What it says is said again in the words of DDP and RDMAP, so that the layers above are
// the same; acknowledgements serve to find what is missing. What is behind the Base Transport Headers counts as the stream.
//
// # Ownership and bounds
//
// Events and all octets they point to are lent until the visitor returns or the next event is asked for;
// copy what is kept. Memory is bounded by [Options] whatever the input is, and no input makes the package
// panic. Nothing here is safe for concurrent use, except that separate captures may be decoded in separate
// goroutines.
//
// # Captures with gaps
//
// Packets may be captured out of order, twice, or cut differently when they are sent again; retransmissions
// with other contents are reported ([ErrConflict]). After octets that are missing (lost by the capture, cut
// by its snap length, or sent before it began) decoding continues at the boundary that follows from the
// length of the broken FPDU, or at the first boundary that is proved: by two FPDUs in a row, or one with a
// right CRC, whose headers cannot be chance (2^-64). What was left out comes as events with the reason, and
// [ConnInfo.Unknown] says what cannot be known from then on. Errors that concern the capture alone are
// [ErrHole], [ErrMiddle], [ErrUnseen], [ErrPartial], [ErrNoCall], [ErrNotPlaced] and [ErrConflict].
//
// # Limits
//
// In a direction with markers, decoding ends at the first missing octet. IP fragments are not reassembled.
// NFSv4 is decoded down to its operations, not to their contents; RDMA_MSGP is unpadded for NFS only.
package decode
