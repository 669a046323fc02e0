package decode

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sort"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
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

// Counts holds how often things occur in a capture. The keys are those of the table that
// testdata/tshark-counts.sh makes with tshark:
//
//	mpa.req mpa.rep mpa.fpdu   MPA Requests, Replies, FPDUs
//	opcode.0x03                RDMAP opcodes, per FPDU
//	rc.0x04                    opcodes of reliable connections, per packet
//	msg_type.0                 RPC-over-RDMA message types by number
//	errcode.1                  error codes in RDMA_ERROR
//	chunk.read                 segments in Read lists
//	chunk.write chunk.reply    Write chunks, Reply chunks
//	handle                     RDMA segments of all three kinds
//	rpc.0 rpc.1                RPC calls, replies
//	nfs3.6                     NFSv3 calls and replies by procedure number
//
// and these, which tshark does not count:
//
//	crc.bad                    FPDUs with a wrong CRC
//	error                      frames with something wrong
//	undecoded                  octets that were not decoded
type Counts map[string]int

// Add counts one event.
func (c Counts) Add(e *Event) {
	if e.Err != nil && e.Kind != KindUndecoded {
		c["error"]++
	}
	switch e.Kind {
	case KindOpen, KindClose:
	case KindRecord:
		c["rpc.tcp"]++
	case KindStartup:
		switch {
		case e.Manager != "":
		case e.Startup.IsReply:
			c["mpa.rep"]++
		default:
			c["mpa.req"]++
		}
	case KindPacket:
		c[fmt.Sprintf("rc.0x%02x", e.RC.Opcode)]++
		c.upper(e)
	case KindUndecoded:
		c["undecoded"] += e.Len
	case KindFPDU:
		c["mpa.fpdu"]++
		c.fpdu(e)
	}
}

func (c Counts) fpdu(e *Event) {
	if e.FPDU.CRCState == CRCBad {
		c["crc.bad"]++
	}
	if e.RDMAP != nil {
		c[fmt.Sprintf("opcode.0x%02x", uint8(e.RDMAP.Op))]++
	}
	c.upper(e)
}

func (c Counts) upper(e *Event) {
	if e.Header != nil {
		c.header(e.Header)
	}
	if r := e.RPC; r != nil && !r.Again {
		if r.IsReply {
			c["rpc.1"]++
		} else {
			c["rpc.0"]++
		}
		if r.Prog == nfs3.Program && r.Vers == nfs3.Version {
			c[fmt.Sprintf("nfs3.%d", r.Proc)]++
		}
	}
}

func (c Counts) header(h *rpcrdma.Header) {
	c[fmt.Sprintf("msg_type.%d", uint32(h.Type))]++
	if h.Err != 0 {
		c[fmt.Sprintf("errcode.%d", uint32(h.Err))]++
	}
	n := len(h.Read)
	c.plus("chunk.read", n)
	c.plus("chunk.write", len(h.Write))
	for _, w := range h.Write {
		n += len(w)
	}
	if h.HasReply {
		c["chunk.reply"]++
		n += len(h.Reply)
	}
	c.plus("handle", n)
}

// plus adds n, but makes no key for 0.
func (c Counts) plus(key string, n int) {
	if n > 0 {
		c[key] += n
	}
}

// Keys returns the keys in order.
func (c Counts) Keys() []string { return slices.Sorted(maps.Keys(c)) }

// Stamp says where octets came from: a packet of a capture. For streams that were never packets, any
// increasing Frame will do.
type Stamp struct {
	Frame int       // number of the packet, from 1
	Time  time.Time // when it was captured
}

// span says that the octets of a stream up to, but not including, offset end came with packet at.
type span struct {
	end uint64
	at  Stamp
}

// spans maps stream offsets to packets for the octets that are buffered. Ends ascend.
type spans []span

// add notes that the stream now ends at offset end, with packet at.
func (s *spans) add(end uint64, at Stamp) { *s = append(*s, span{end, at}) }

// find returns the packet that brought the octet at offset off, or the zero Stamp if the octet is not
// buffered any more.
func (s spans) find(off uint64) Stamp {
	i := sort.Search(len(s), func(i int) bool { return s[i].end > off })
	if i == len(s) {
		return Stamp{}
	}
	return s[i].at
}

// drop forgets the packets that only brought octets before off.
func (s *spans) drop(off uint64) {
	n := 0
	for n < len(*s) && (*s)[n].end <= off {
		n++
	}
	*s = append((*s)[:0], (*s)[n:]...)
}
