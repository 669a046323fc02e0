package decode

import (
	"net/netip"
	"time"

	"github.com/stag-rdma/stag/rpcrdma"
)

// Kind says what an [Event] is about.
type Kind uint8

const (
	// KindOpen: the first packet of a connection was seen. Len is 0.
	KindOpen Kind = iota
	// KindStartup: one MPA startup frame, in Event.Startup.
	KindStartup
	// KindFPDU: one FPDU, in Event.FPDU, with the layers above it.
	KindFPDU
	// KindUndecoded: octets that are none of the above; Event.Err says why. Len may be 0 for a hole, that
	// is, octets that are not in the capture.
	KindUndecoded
	// KindClose: this side ended its stream, by FIN or, when Event.Reset is set, by RST.
	KindClose
	// KindRecord: a message of RPC over TCP, in Event.RPC, on a connection that is not MPA.
	KindRecord
	// KindPacket: one packet of a reliable connection of RoCE or InfiniBand, in Event.RC, with the layers above it.
	// Acknowledgements, and what was sent again, have no event.
	KindPacket
)

// String returns "open", "startup", "fpdu", "undecoded", "close", "record" or "packet".
func (k Kind) String() string {
	return [...]string{"open", "startup", "fpdu", "undecoded", "close", "record", "packet"}[k]
}

// Carrier is what a connection runs on.
type Carrier uint8

// The carriers. All but the first carry reliable connections of InfiniBand.
const (
	CarrierTCP Carrier = iota
	CarrierRoCEv2
	CarrierRoCEv1
	CarrierInfiniBand
)

// String returns "TCP", "RoCE v2", "RoCE v1" or "InfiniBand".
func (c Carrier) String() string { return [...]string{"TCP", "RoCE v2", "RoCE v1", "InfiniBand"}[c] }

// Dir is a direction of a connection.
type Dir uint8

const (
	FromOpener   Dir = iota // sent by the side that opened the TCP connection
	FromAccepter            // sent by the other side
)

// String returns ">" for what the opener sent and "<" for what the other side sent.
func (d Dir) String() string { return [...]string{">", "<"}[d] }

// Event is one thing that happened on one connection. It, and all octets and structs it points
// to, except Conn, are lent until the visitor returns.
type Event struct {
	Kind Kind
	Conn *ConnInfo // the connection, the same pointer in all its events
	Dir  Dir       // who sent it

	Frame int       // packet that completed it, from 1
	First int       // packet that had its first octet; of packets of RoCE that are missing, the last before them
	Time  time.Time // of the packet that completed it

	// Offset is that of the first octet within the stream of this direction; the octet after SYN is 0. With RoCE what is
	// behind the Base Transport Headers is the stream.
	Offset uint64
	Len    int    // octets of the stream
	Raw    []byte // the Len octets; nil for open, close and holes

	Reset   bool   // KindClose: by RST
	Again   []byte // KindUndecoded with ErrConflict: what was sent the second time, from Offset on
	Missing int    // KindUndecoded: octets before Offset that are not in the capture

	// The layers of the frame, lowest first; nil if absent.
	Manager string          // KindStartup, KindClose with RoCE: the message of the connection manager
	Startup *Startup        // KindStartup
	FPDU    *FPDU           // KindFPDU
	RC      *RC             // KindPacket
	DDP     *DDP            // the segment in the FPDU, or what the packet means
	RDMAP   *RDMAP          // what RDMAP adds to the segment
	Message *Message        // the untagged message that this segment completed
	Header  *rpcrdma.Header // the RPC-over-RDMA header of that message
	RPC     *RPC            // the RPC message that this event brought, or whose chunks it completed
	Commit  *Commit         // what the frame means to a commit log

	// Err is the first thing wrong with the frame, nil if the frame is well formed as far as it was decoded.
	// Test it with errors.Is.
	Err error
}

// ConnInfo identifies a connection and holds what its startup settled. The decoder fills it in as
// the connection proceeds; read it during an event.
type ConnInfo struct {
	ID       int            // from 1, in order of appearance in the capture
	Carrier  Carrier        // what it runs on
	Opener   netip.AddrPort // who opened the TCP connection or, if that is not in the capture, spoke first
	Accepter netip.AddrPort

	Request *Startup // the MPA Request, nil until it is seen; a copy, so it stays valid. With RoCE the REQ of the CM
	Reply   *Startup // the MPA Reply; with RoCE the REP or REJ

	Initiator Dir  // direction of the Request
	CRC       bool // CRCs are on: either startup frame asked for them (RFC 5044 Section 7.1)
	Foreign   bool // not an MPA connection, as far as is known by now
	Encrypted bool // within TLS, and so foreign
	ULP       ULP  // ULPAuto while undecided, then one of the others

	Held [2]int // octets of a frame of each side that is not complete yet

	Commit *CommitInfo // of a commit session, once it is known to be one

	Unknown Unknown // what the capture does not show of the connection, as far as is known by now
	Over    bool    // no event of it follows
	guessed bool    // Initiator is a guess that will not change
}

// end returns the address of the side that sends in direction d.
func (c *ConnInfo) end(d Dir) netip.AddrPort {
	if d == FromOpener {
		return c.Opener
	}
	return c.Accepter
}
