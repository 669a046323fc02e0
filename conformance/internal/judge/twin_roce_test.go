package judge_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// RoCE says how [Trace.RoCE] translates a conversation. The zero value is RoCE v2 over IPv4 with an MTU of 256 octets.
type RoCE struct {
	MTU     int
	V6      bool   // IPv6
	V1      bool   // RoCE v1: a Global Route Header behind Ethernet
	LID     bool   // InfiniBand without a Global Route Header, from its Local Route Header on
	Service uint64 // service of the connection manager; 0: that of the IP CM for port 20049
	NoCM    bool   // the connection manager's messages are left out
	NoAcks  bool   // so are acknowledgements
	QP      uint32 // of the initiator; that of the responder is one more. 0: 0x11
	ID      uint32 // of the initiator in the connection manager. 0: 0x77
	PSN     uint32 // is added to the first one of each side
}

// roceWriter has what the packets of a conversation share.
type roceWriter struct {
	RoCE
	out [][]byte
	psn [2]uint32   // of the next request of a direction
	due [2][]uint32 // PSNs of the responses that a direction owes
}

// RoCE returns the conversation as packets of Ethernet (with LID, of InfiniBand) that carry a reliable connection. What
// only iWARP has, as MSNs, is left out; a Terminate is a NAK.
func (t *Trace) RoCE(o RoCE) [][]byte {
	w := newRoCEWriter(o)
	var msg []byte
	var first *Frame
	ended := false
	for _, f := range t.Frames {
		switch {
		case f.Startup != nil:
			if !w.NoCM {
				w.startup(f)
			}
		case f.End != NoEnd:
			if !ended && !w.NoCM {
				w.manage(f.Dir, 0x15, octetsOf(w.id(f.Dir), w.id(1-f.Dir), u24(w.qp(1-f.Dir)), 0))
			}
			ended = true
		case f.Lost > 0:
			w.psn[f.Dir]++
		default:
			if first == nil {
				first = f
			}
			if msg = append(msg, f.Payload...); f.Seg.Last {
				w.message(f.Dir, first, msg)
				msg, first = nil, nil
			}
		}
	}
	return w.out
}

func newRoCEWriter(o RoCE) *roceWriter {
	w := &roceWriter{RoCE: o, psn: [2]uint32{(0xfffff0 + o.PSN) & 0xffffff, 0x1000 + o.PSN}} // the first wraps
	w.MTU, w.QP, w.ID = cmp.Or(w.MTU, 256), cmp.Or(w.QP, 0x11), cmp.Or(w.ID, 0x77)
	return w
}

// Raw returns a packet by hand: n is its PSN beyond the first of its requests, or of those that it answers; b is what is
// behind the Base Transport Header.
func (o RoCE) Raw(dir decode.Dir, op byte, n uint32, b []byte) []byte {
	w := newRoCEWriter(o)
	of := dir
	if op >= 0x0d && op <= 0x12 {
		of = 1 - dir
	}
	w.packet(dir, op, w.qp(1-dir), (w.psn[of]+n)&0xffffff, b)
	return w.out[0]
}

func (w *roceWriter) qp(owner decode.Dir) uint32 { return w.QP + uint32(owner) }
func (w *roceWriter) id(owner decode.Dir) []byte { return u32(w.ID + uint32(owner)*0x1000) }

// startup adds a REQ or a REP.
func (w *roceWriter) startup(f *Frame) {
	private := make([]byte, 196)
	copy(private, f.Startup.PrivateData)
	word := f.Startup.Word
	if f.Startup.Reply {
		w.manage(f.Dir, 0x13, octetsOf(
			w.id(R), w.id(I), 0, 0, 0, 0, u24(w.qp(R)), 0, 0, 0, 0, 0, u24(w.psn[I]), 0,
			byte(word.IRD), byte(word.ORD), 0, 0, make([]byte, 8), private))
		return
	}
	service := w.Service
	head := octetsOf(0, 0x40, []byte{0xa0, 0x01}, make([]byte, 12), []byte{192, 0, 2, 1}, make([]byte, 12), []byte{192, 0, 2, 2})
	if w.V6 {
		head = octetsOf(0, 0x60, []byte{0xa0, 0x01}, v6(I), v6(R))
	}
	if service == 0 {
		service = 0x0000000001064e51
	} else {
		head = nil
	}
	mtu := byte(1)
	for n := 256; n < w.MTU; n *= 2 {
		mtu++
	}
	w.manage(f.Dir, 0x10, octetsOf(
		w.id(I), make([]byte, 4), binary.BigEndian.AppendUint64(nil, service), make([]byte, 8), make([]byte, 8),
		u24(w.qp(I)), byte(word.IRD), make([]byte, 3), byte(word.ORD), make([]byte, 3), 0, u24(w.psn[R]), 0x37,
		0xff, 0xff, mtu<<4, 0, make([]byte, 88), head, private[:92-len(head)]))
}

// manage adds a datagram of the connection manager.
func (w *roceWriter) manage(dir decode.Dir, kind byte, m []byte) {
	mad := make([]byte, 256)
	copy(mad, []byte{1, 7, 2, 3})
	mad[17] = kind
	copy(mad[24:], m)
	w.packet(dir, 0x64, 1, 7, octetsOf(0x80, 1, 0, 0, 0, 0, 0, 1, mad))
}

// message adds the packets of a message, and what acknowledges it.
func (w *roceWriter) message(dir decode.Dir, f *Frame, b []byte) {
	reth := func(addr uint64, key, n uint32) []byte {
		return octetsOf(binary.BigEndian.AppendUint64(nil, addr), u32(key), u32(n))
	}
	last := true
	switch op := f.Seg.Control & 0xf; op {
	case 0:
		w.pieces(dir, 6, b, reth(f.Seg.TO, uint32(f.Seg.STag), uint32(len(b))), nil, false)
	case 1: // sink 4, 8, size 4, source 4, 8
		n := max(1, (int(binary.BigEndian.Uint32(b[12:]))+w.MTU-1)/w.MTU)
		w.packet(dir, 0x0c, w.qp(1-dir), w.psn[dir], octetsOf(b[20:28], b[16:20], b[12:16]))
		for range n {
			w.due[1-dir] = append(w.due[1-dir], w.next(dir))
		}
		last = false
	case 2:
		for n := 0; ; n++ {
			k := min(w.MTU, len(b))
			first, end := n == 0, k == len(b)
			op, head := byte(0x0e), []byte(nil)
			switch {
			case first && end:
				op = 0x10
			case first:
				op = 0x0d
			case end:
				op = 0x0f
			}
			if first || end {
				head = []byte{0x1f, 0, 0, 1}
			}
			w.packet(dir, op, w.qp(1-dir), w.due[dir][0], octetsOf(head, b[:k]))
			w.due[dir] = w.due[dir][1:]
			if b = b[k:]; end {
				return
			}
		}
	case 3, 4, 5, 6:
		var inv []byte
		if op&1 == 0 {
			inv = u32(f.Seg.ULP)
		}
		w.pieces(dir, 0, b, nil, inv, op > 4)
	case 7:
		w.packet(dir, 0x11, w.qp(1-dir), w.psn[1-dir], []byte{0x62, 0, 0, 1})
		return
	}
	if last && !w.NoAcks {
		w.packet(1-dir, 0x11, w.qp(dir), (w.psn[dir]-1)&0xffffff, []byte{0x1f, 0, 0, 1})
	}
}

func (w *roceWriter) next(dir decode.Dir) uint32 {
	p := w.psn[dir]
	w.psn[dir] = (p + 1) & 0xffffff
	return p
}

// pieces adds the packets of a Send (first is 0) or of an RDMA Write (6).
func (w *roceWriter) pieces(dir decode.Dir, first byte, b, reth, inv []byte, solicits bool) {
	for n := 0; ; n++ {
		k := min(w.MTU, len(b))
		begin, end := n == 0, k == len(b)
		op, head := first+1, []byte(nil)
		switch {
		case begin && end:
			op = first + 4
		case begin:
			op = first
		case end:
			op = first + 2
		}
		if begin {
			head = reth
		}
		if end && inv != nil {
			op, head = 0x16, inv
			if begin {
				op = 0x17
			}
		}
		w.packet(dir, op, w.qp(1-dir), w.next(dir), octetsOf(head, b[:k]))
		if solicits && end {
			w.solicit()
		}
		if b = b[k:]; end {
			return
		}
	}
}

// solicit sets the bit in the packet that was added last.
func (w *roceWriter) solicit() {
	b := w.out[len(w.out)-1]
	at := 14 + 20 + 8 + 1
	switch {
	case w.LID:
		at = 8 + 1
	case w.V1:
		at = 14 + 40 + 1
	case w.V6:
		at = 14 + 40 + 8 + 1
	}
	b[at] |= 0x80
}

// packet adds a packet.
func (w *roceWriter) packet(dir decode.Dir, op byte, qp, psn uint32, b []byte) {
	pad := -len(b) & 3
	bth := octetsOf(op, byte(pad<<4), 0xff, 0xff, 0, u24(qp), 0x80, u24(psn))
	b = octetsOf(bth, b, make([]byte, pad), u32(0xdeadbeef))
	mac := octetsOf(2, 0, 0, 0, 0, byte(2-dir), 2, 0, 0, 0, 0, byte(1+dir))
	switch {
	case w.LID:
		b = octetsOf(0, 2, 0, byte(2-dir), u16((len(b)+8)/4), 0, byte(1+dir), b, 0, 0)
	case w.V1:
		b = octetsOf(mac, 0x89, 0x15, 0x60, 0, 0, 0, u16(len(b)), 0x1b, 64, gid(dir), gid(1-dir), b)
	default:
		b = octetsOf(0xc0, 0, 0x12, 0xb7, u16(len(b)+8), 0, 0, b)
		if w.V6 {
			b = octetsOf(mac, 0x86, 0xdd, 0x60, 0, 0, 0, u16(len(b)), 17, 64, v6(dir), v6(1-dir), b)
		} else {
			ip := octetsOf(0x45, 2, u16(len(b)+20), 0, 0, 0x40, 0, 64, 17, 0, 0, []byte{192, 0, 2, 1 + byte(dir)}, []byte{192, 0, 2, 2 - byte(dir)})
			sum := 0
			for i := 0; i < 20; i += 2 {
				sum += int(binary.BigEndian.Uint16(ip[i:]))
			}
			b = octetsOf(mac, 0x08, 0, ip[:10], u16(int(^uint16(sum+sum>>16))), ip[12:], b)
		}
	}
	w.out = append(w.out, b)
}

func gid(d decode.Dir) []byte {
	return octetsOf(make([]byte, 10), 0xff, 0xff, 192, 0, 2, 1+byte(d))
}

func v6(d decode.Dir) []byte {
	a := netip.MustParseAddr("2001:db8::1").As16()
	a[15] += byte(d)
	return a[:]
}

func u16(n int) []byte    { return binary.BigEndian.AppendUint16(nil, uint16(n)) }
func u24(n uint32) []byte { return u32(n)[1:] }
func u32(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// octetsOf puts octets behind each other.
func octetsOf(parts ...any) (b []byte) {
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = append(b, byte(p))
		case byte:
			b = append(b, p)
		case []byte:
			b = append(b, p...)
		}
	}
	return b
}

// Pcap returns packets as a pcap file, a millisecond from one to the next. cut says how many octets of each are kept, 0 for
// all.
func Pcap(link uint32, packets [][]byte, cut int) []byte {
	var out bytes.Buffer
	le := binary.LittleEndian
	head := le.AppendUint32(nil, 0xa1b2c3d4)
	head = le.AppendUint16(le.AppendUint16(head, 2), 4)
	head = le.AppendUint32(le.AppendUint32(append(head, make([]byte, 8)...), 1<<18), link)
	out.Write(head)
	for i, p := range packets {
		n := len(p)
		if cut > 0 {
			n = min(n, cut)
		}
		at := time.Unix(1_700_000_000, 0).Add(time.Duration(i) * time.Millisecond)
		h := le.AppendUint32(nil, uint32(at.Unix()))
		h = le.AppendUint32(h, uint32(at.Nanosecond()/1000))
		h = le.AppendUint32(le.AppendUint32(h, uint32(n)), uint32(len(p)))
		out.Write(h)
		out.Write(p[:n])
	}
	return out.Bytes()
}
