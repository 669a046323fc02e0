// Package decode reads packet captures of iWARP connections and says, frame by frame, what the two
// ends told each other: pcap or pcapng, then TCP, MPA (RFC 5044, RFC 6581), DDP (RFC 5041), RDMAP
// (RFC 5040, RFC 7306), RPC-over-RDMA version 1 (RFC 5666, RFC 8166), ONC RPC (RFC 5531), and the
// names and status codes of NFS and MOUNT (RFC 1813).
//
// It uses the codecs of the engine ([github.com/stag-rdma/stag/rdmap/mpa] and its neighbours), not
// the engine: a decoder reports what is there, legal or not, and never refuses. What is wrong
// with a frame is in [Event.Err]; whether it is allowed is for a judge above this package.
//
// # Model
//
// [Events] turns a capture into a sequence of [Event]: a connection opens, sends a startup frame,
// sends FPDUs, closes; octets that cannot be decoded come as an event of their own with the
// reason. Every octet of every stream is covered by exactly one event, in stream order per
// direction: Offset and Len say which. An event names the packet that completed it (Frame) and
// the one it began in (First). The layers of a frame hang on its event as pointers, nil where a
// layer is absent; an FPDU that completes a message also carries the message, the RPC-over-RDMA
// header in it, and the RPC.
//
// Below it [Conn] is the machine of one connection: octets of either direction go in, events come
// out. It reads no clock and does no I/O, so it also decodes streams that were never packets,
// such as those an engine recorded of itself.
//
//	for ev, err := range decode.Events(file, nil) {
//		if err != nil {
//			return err // the file is damaged; the events so far are good
//		}
//		fmt.Println(ev)
//	}
//
// # Ownership and bounds
//
// Events and all octets they point to are lent until the visitor returns or the next event is
// asked for; copy what is kept. Memory is bounded by [Options] whatever the input says, and no
// input makes the package panic. Nothing here is safe for concurrent use, except that separate
// captures may be decoded in separate goroutines.
//
// # Limits
//
// Octets missing from a capture end the decoding of their direction: FPDU boundaries behind a hole
// are unknown. Connections whose startup is not in the capture are not decoded. IP fragments are
// not put together. NFSv4 COMPOUNDs are named, not opened.
package decode
