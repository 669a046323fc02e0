package mpa

import (
	"encoding/binary"
	"strings"
)

// NotNegotiated as an IRD or ORD means that this depth is not negotiated here (RFC 6581 Section
// 9.1). It is never compared as a number.
const NotNegotiated = 0x3fff

// EnhancedLen is the length of the enhanced word in octets.
const EnhancedLen = 4

// RTR is a set of ready-to-receive messages. The first FPDU that the initiator of a peer-to-peer
// connection sends is such a message (RFC 6581 Section 9.2).
type RTR uint8

// The options, with the letters of their bits in the enhanced word.
const (
	RTRSend  RTR = 1 << iota // B: zero-length Send, QN 0, MSN 1
	RTRWrite                 // C: zero-length RDMA Write, any STag
	RTRRead                  // D: zero-length RDMA Read Request, QN 1, MSN 1

	rtrAll = RTRSend | RTRWrite | RTRRead
)

// String returns the names of the options joined by "|", or "none".
func (r RTR) String() string {
	var s []string
	for _, o := range [...]struct {
		bit  RTR
		name string
	}{{RTRSend, "send"}, {RTRWrite, "write"}, {RTRRead, "read"}} {
		if r&o.bit != 0 {
			s = append(s, o.name)
		}
	}
	if s == nil {
		return "none"
	}
	return strings.Join(s, "|")
}

// prefer returns the one option of r to send, 0 if r is empty.
// Choice: Write before Read before Send. A zero-length Write touches nothing, a
// Read needs an answer, a Send costs a receive buffer.
func (r RTR) prefer() RTR {
	for _, o := range [...]RTR{RTRWrite, RTRRead, RTRSend} {
		if r&o != 0 {
			return o
		}
	}
	return 0
}

// Enhanced is the enhanced word: the first four octets of the private data if
// S=1 at revision 2 (RFC 6581 Sections 6 and 9), big-endian:
//
//	0x80000000  A    PeerToPeer
//	0x40000000  B    RTRSend
//	0x3fff0000  IRD
//	0x00008000  C    RTRWrite
//	0x00004000  D    RTRRead
//	0x00003fff  ORD
//
// There are no reserved bits and no invalid values.
type Enhanced struct {
	PeerToPeer bool
	RTR        RTR
	// IRD is how many inbound RDMA Reads (and other queue 1 requests) the sender of the word can
	// serve, ORD how many of its own it wants to have outstanding: 0..0x3ffe, or NotNegotiated.
	IRD, ORD uint16
}

// parseEnhanced decodes the word at the start of b, which is borrowed. ok is false if b is shorter
// than 4 octets.
func parseEnhanced(b []byte) (e Enhanced, ok bool) {
	if len(b) < EnhancedLen {
		return e, false
	}
	w := binary.BigEndian.Uint32(b)
	e.PeerToPeer = w&0x80000000 != 0
	if w&0x40000000 != 0 {
		e.RTR |= RTRSend
	}
	if w&0x8000 != 0 {
		e.RTR |= RTRWrite
	}
	if w&0x4000 != 0 {
		e.RTR |= RTRRead
	}
	e.IRD, e.ORD = uint16(w>>16)&NotNegotiated, uint16(w)&NotNegotiated
	return e, true
}

// Append appends the word to b. IRD and ORD are cut to 14 bits.
func (e Enhanced) Append(b []byte) []byte {
	w := uint32(e.IRD&NotNegotiated)<<16 | uint32(e.ORD&NotNegotiated)
	if e.PeerToPeer {
		w |= 0x80000000
	}
	if e.RTR&RTRSend != 0 {
		w |= 0x40000000
	}
	if e.RTR&RTRWrite != 0 {
		w |= 0x8000
	}
	if e.RTR&RTRRead != 0 {
		w |= 0x4000
	}
	return binary.BigEndian.AppendUint32(b, w)
}
