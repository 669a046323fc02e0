package capture

import (
	"encoding/binary"
	"time"
)

// Blocks of a pcapng file (draft-ietf-opsawg-pcapng). Each is
//
//	off 0 type u32, 4 length u32, 8 body padded to 32 bits, length u32 again
//
// with numbers in the byte order of the section header's magic: here, big-endian.
const (
	blockSection   = 0x0a0d0d0a
	blockInterface = 1
	blockPacket    = 6 // Enhanced Packet Block
)

// Codes of options, and of the end of options.
const (
	optEnd          = 0
	optApplication  = 4 // of a section
	optName         = 2 // of an interface
	optDescription  = 3
	optTimeResolved = 9
)

const linkEthernet = 1

// appendHead appends the head of a file: one section, one interface. Times are in nanoseconds.
func appendHead(b []byte) []byte {
	b = appendBlock(b, blockSection, func(b []byte) []byte {
		b = binary.BigEndian.AppendUint32(b, 0x1a2b3c4d)
		b = append(b, 0, 1, 0, 0)                     // version 1.0
		b = binary.BigEndian.AppendUint64(b, 1<<64-1) // length of the section not specified
		return appendOption(appendOption(b, optApplication, "stag"), optEnd, "")
	})
	return appendBlock(b, blockInterface, func(b []byte) []byte {
		b = append(b, 0, linkEthernet, 0, 0, 0, 0, 0, 0) // packets of any length
		b = appendOption(b, optName, "stag")
		b = appendOption(b, optDescription, "octets of streams, headers made up")
		b = appendOption(b, optTimeResolved, "\x09")
		return appendOption(b, optEnd, "")
	})
}

// appendPacket appends a packet of the interface: headers, then payload.
func appendPacket(b []byte, at time.Time, headers, payload []byte) []byte {
	return appendBlock(b, blockPacket, func(b []byte) []byte {
		n := uint32(len(headers) + len(payload))
		b = binary.BigEndian.AppendUint32(b, 0)
		b = binary.BigEndian.AppendUint64(b, uint64(at.UnixNano()))
		b = binary.BigEndian.AppendUint32(b, n)
		b = binary.BigEndian.AppendUint32(b, n)
		return append(append(b, headers...), payload...)
	})
}

// appendBlock appends a block. body appends its body.
func appendBlock(b []byte, kind uint32, body func([]byte) []byte) []byte {
	at := len(b)
	b = binary.BigEndian.AppendUint32(b, kind)
	b = body(append(b, 0, 0, 0, 0))
	b = pad(b, at)
	n := uint32(len(b) - at + 4)
	binary.BigEndian.PutUint32(b[at+4:], n)
	return binary.BigEndian.AppendUint32(b, n)
}

func appendOption(b []byte, code uint16, value string) []byte {
	at := len(b)
	b = binary.BigEndian.AppendUint16(b, code)
	b = binary.BigEndian.AppendUint16(b, uint16(len(value)))
	return pad(append(b, value...), at)
}

// pad appends zeros until the length of b[at:] is a multiple of 32 bits.
func pad(b []byte, at int) []byte {
	for (len(b)-at)%4 != 0 {
		b = append(b, 0)
	}
	return b
}
