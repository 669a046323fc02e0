package decode

import "errors"

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
