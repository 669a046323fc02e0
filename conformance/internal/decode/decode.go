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

import (
	"cmp"
	"errors"
	"strings"
)

// Options limits what a decoder keeps in memory, and says what Sends carry. The zero value, and a nil
// *Options, mean the defaults. All limits are in octets unless they say otherwise.
type Options struct {
	// MaxEarly bounds the TCP payload kept per direction while octets before it are missing; each packet
	// counts as 256 octets more. If zero, 4 MiB. The missing octets are given up when the bound is exceeded,
	// or when the receiver acknowledged them 128 packets ago. In addition each direction takes 64 KiB to
	// compare retransmissions, and up to 512 KiB while it looks for an FPDU.
	MaxEarly int

	// MaxMessage bounds one untagged DDP message that is put together from several segments. If zero, 1 MiB.
	// A longer one is reported with [ErrTooLong] and not decoded further.
	MaxMessage int

	// MaxPlaced bounds the chunk contents (RDMA Writes, Read Responses) remembered at one time, over all
	// connections of a capture, to rebuild calls and replies with chunks. If zero, 64 MiB. Beyond that,
	// messages are decoded from their inline octets alone.
	MaxPlaced int

	// MaxCalls bounds the RPC calls remembered per connection and direction while their replies
	// have not been seen, in calls. If zero, 4096. The oldest is forgotten first.
	MaxCalls int

	// MaxConns bounds the TCP connections remembered, in connections. If zero, 32768. The one that was
	// idle longest is dropped first.
	MaxConns int

	// ULP says what the Sends carry.
	ULP ULP
}

// ULP is the protocol above RDMAP.
type ULP uint8

const (
	// ULPAuto takes a connection for RPC-over-RDMA if either startup frame carries the private data of RFC
	// 8797, or if the first Send is a plausible RPC-over-RDMA message.
	ULPAuto    ULP = iota
	ULPRPCRDMA     // every Send is RPC-over-RDMA
	ULPOpaque      // no Send is decoded
	ULPCommit      // a commit session (docs/commitlog-format.md), recognised by what it says
)

// withDefaults returns a copy of o with the zero fields filled in.
func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	c.MaxEarly = cmp.Or(c.MaxEarly, 4<<20)
	c.MaxMessage = cmp.Or(c.MaxMessage, 1<<20)
	c.MaxPlaced = cmp.Or(c.MaxPlaced, 64<<20)
	c.MaxCalls = cmp.Or(c.MaxCalls, 4096)
	c.MaxConns = cmp.Or(c.MaxConns, 1<<15)
	return c
}

// Reasons why octets of a connection are not decoded, or a message is not rebuilt. They are
// wrapped in [Event.Err], [RPC.Err] and [Compound.Err] with the details, so test with errors.Is.
var (
	// ErrNotMPA: neither side begins with an MPA startup key (RFC 5044 Section 7.1.1). This is another
	// protocol; the rest of the connection is not decoded.
	ErrNotMPA = errors.New("not an MPA stream")

	// ErrEncrypted: TLS begins, at once or after RPC over TCP has asked for it (RFC 9289). The rest of the connection is
	// not decoded.
	ErrEncrypted = errors.New("TLS: encrypted from here on")

	// ErrStartup: this side did not send a well-formed MPA startup frame, although its peer did.
	ErrStartup = errors.New("bad MPA startup frame")

	// ErrNoReply: octets of the initiator, but no Reply of the responder that would say how to read them.
	ErrNoReply = errors.New("octets before the MPA Reply")

	// ErrRejected: octets after an MPA Reply that rejected the connection.
	ErrRejected = errors.New("octets after a rejected startup")

	// ErrMarkers: the markers of a stream do not point at the FPDUs they are in (RFC 5044
	// Section 4.3). What follows cannot be decoded.
	ErrMarkers = errors.New("bad marker")

	// ErrHole: octets are missing from the capture; FPDU boundaries after them are unknown.
	ErrHole = errors.New("octets missing from the capture")

	// ErrMiddle: the capture begins in the middle of the connection, and no FPDU is known to have begun yet.
	ErrMiddle = errors.New("the capture begins in the middle")

	// ErrConflict: octets were sent again with other contents. Which of them the receiver took is unknown;
	// those seen first are decoded.
	ErrConflict = errors.New("octets retransmitted with other contents")

	// ErrUnseen: a message whose beginning is not in the capture.
	ErrUnseen = errors.New("beginning not in the capture")

	// ErrPartial: the stream, or the capture, ended inside a frame.
	ErrPartial = errors.New("incomplete frame at the end")

	// ErrCRC: the CRC32c of an FPDU does not match (RFC 5044 Section 4.4).
	ErrCRC = errors.New("bad CRC")

	// ErrShort: a ULPDU, or a message, is too short for the header it must carry.
	ErrShort = errors.New("too short for its header")

	// ErrVersion: a DDP or RDMAP version other than 1.
	ErrVersion = errors.New("unknown version")

	// ErrOrder: a segment does not continue its message: MSN, MO or opcode differ from what the
	// segments before it announced (RFC 5041 Section 5.2).
	ErrOrder = errors.New("segment out of order")

	// ErrTooLong: a message is longer than [Options.MaxMessage].
	ErrTooLong = errors.New("message longer than the limit")

	// ErrOpcode: an opcode that RFC 5040 and RFC 7306 do not define, or one on the wrong queue.
	ErrOpcode = errors.New("unexpected opcode")

	// ErrNotPlaced: chunk contents the capture does not hold, or more than [Options.MaxPlaced].
	ErrNotPlaced = errors.New("chunk contents not seen")

	// ErrTrailing: octets after the last field of a message.
	ErrTrailing = errors.New("octets after the last field")

	// ErrPadded: an RDMA_MSGP of a program whose variable-length items this package cannot find, so that it
	// does not know where the padding is (RFC 5666 Section 3.9).
	ErrPadded = errors.New("padding of RDMA_MSGP in a program of unknown shape")

	// ErrNoCall: a reply whose call is not in the capture.
	ErrNoCall = errors.New("reply to a call that was not seen")
)

// Unknown is a set of things that a capture does not show of a connection, because it begins in the middle,
// octets are missing from it, or its packets are out of order.
type Unknown uint16

const (
	// UnknownStartup: the startup frames are not in the capture. Private data, IRD and ORD, and so
	// the inline thresholds, are unknown; markers are taken to be off.
	UnknownStartup Unknown = 1 << iota
	// UnknownCRC: whether CRCs are on; they are not checked.
	UnknownCRC
	// UnknownInitiator: ConnInfo.Initiator is who sent the first call seen, or else a guess.
	UnknownInitiator
	// UnknownPast: message numbers, credits, calls, STags and Read Requests from before the capture.
	UnknownPast
	// UnknownHole: what octets missing from the middle of the capture said.
	UnknownHole
	// UnknownOrder: which of two things from different sides was sent first, beyond what the
	// acknowledgements show: packets were captured out of order.
	UnknownOrder
	// UnknownTruncated: what the snap length of the capture cut off.
	UnknownTruncated
	// UnknownSide: everything that one side sent, although its peer acknowledged octets of it.
	UnknownSide
	// UnknownRest: what followed after so many other connections that this one was forgotten.
	UnknownRest
)

// Reasons returns the members in words, each without a full stop.
func (u Unknown) Reasons() []string {
	var all []string
	for i, s := range [...]string{
		"the startup: private data, IRD and ORD, inline thresholds, markers",
		"whether CRCs are on",
		"who is the initiator",
		"message numbers, credits, calls, STags and Read Requests from before the capture",
		"the contents of octets missing from the capture",
		"what was sent first: packets were captured out of order",
		"what the snap length cut off: the packets are truncated",
		"one side: no octet that it sent is in the capture",
		"what followed: it was idle longest, and forgotten because of too many others",
	} {
		if u&(1<<i) != 0 {
			all = append(all, s)
		}
	}
	return all
}

// String joins the reasons by semicolons.
func (u Unknown) String() string { return strings.Join(u.Reasons(), "; ") }
