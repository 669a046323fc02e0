package decode

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
)

// roce finds the reliable connections in packets of RoCE and InfiniBand. Packets name only the queue pair that receives
// them, so a connection is known by what its connection manager says (InfiniBand Architecture Specification, Volume 1,
// Section 12.6), or, if that is not in the capture, by who acknowledges whose packets.
type roce struct {
	c     *Capture
	pairs map[queuePair]*rcConn
	ids   map[commID]*rcConn
	lone  map[queuePair]sentTo // what was sent last to queue pairs of no known connection
	sent  map[sentTo]queuePair // the reverse; without a number if there are several
}

// queuePair names who receives a packet, commID a side of a connection to its peer's connection manager, and sentTo a request.
type (
	queuePair struct {
		at netip.Addr
		n  uint32
	}
	commID struct {
		at netip.Addr
		n  uint32
	}
	sentTo struct {
		from, to netip.Addr
		psn      uint32
	}
)

const (
	bthLen, dethLen, icrcLen = 12, 8, 4
	madLen, madHead          = 256, 24
	psnMask                  = 1<<24 - 1

	serviceRC, serviceUD, serviceCNP = 0, 3, 4 // the upper three bits of an opcode: reliable connections, datagrams, notes of congestion
	opSendUD, managerQP              = 0x64, 1

	classCM                                                 = 7
	cmRequest, cmReject, cmReply, cmDisconnect, cmDisReply  = 0x10, 0x12, 0x13, 0x15, 0x16
	cmRequestPrivate, cmRejectPrivate, cmReplyPrivate, ipCM = 140, 84, 36, 36
)

// packet takes a packet, and returns the flow of its connection, nil if there is none.
func (r *roce) packet(seg *tcpSegment, what carrier, at Stamp) *flow {
	b, cut := seg.payload, seg.missing
	if len(b) < bthLen {
		r.c.Stats.Stray++
		return nil
	}
	src, dst := seg.src.Addr(), seg.dst.Addr()
	to := queuePair{dst, be24(b[5:])}
	p := rcPacket{op: b[0], solicits: b[1]&0x80 != 0, psn: be24(b[9:]), qp: to.n, b: b[bthLen:], cut: cut, at: at}
	switch p.op >> 5 {
	case serviceRC:
	case serviceUD:
		if p.op == opSendUD && to.n == managerQP && len(p.b) >= dethLen+madLen {
			return r.manage(src, dst, p.b[dethLen:][:madLen], what, at)
		}
		return nil // datagrams are no connections
	case serviceCNP:
		return nil
	default:
		r.c.Stats.Stray++
		return nil
	}
	pad := int(b[1] >> 4 & 3)
	p.b, p.cut = p.b[:len(p.b)-min(max(0, pad-p.cut), len(p.b))], max(0, p.cut-pad)
	c := r.pairs[to]
	if c == nil || c.pairs[1-c.receives(to)].n == 0 {
		c = r.pair(c, src, to, &p, what)
	}
	if c == nil {
		r.c.Stats.Stray++
		return nil
	}
	p.dir = c.receives(to)
	c.packet(&p)
	return c.flow
}

func be24(b []byte) uint32 { return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) }

// pair takes a packet to a queue pair whose peer is not known. c is its connection, nil if that is not known either. It
// returns the connection if there is one now. Who acknowledges the last packet to another queue pair, and is the only one
// to whom that can be, is the peer of that.
func (r *roce) pair(c *rcConn, src netip.Addr, to queuePair, p *rcPacket, what carrier) *rcConn {
	if !p.answers() {
		if c == nil {
			if max(len(r.lone), len(r.sent)) > r.c.opt.MaxConns {
				clear(r.lone)
				clear(r.sent)
			}
			if old := r.lone[to]; r.sent[old] == to {
				delete(r.sent, old)
			}
			s := sentTo{src, to.at, p.psn}
			if x, ok := r.sent[s]; ok && x != to {
				to = queuePair{}
			} else {
				r.lone[to] = s
			}
			r.sent[s] = to
		}
		return c
	}
	peer := r.sent[sentTo{to.at, src, p.psn}]
	if peer.n == 0 {
		return c
	}
	if c == nil {
		c = r.open(netip.AddrPortFrom(to.at, 0), netip.AddrPortFrom(src, 0), what, p.at)
		r.own(c, FromAccepter, to)
	}
	c.noStartup()
	c.Info.Unknown &^= UnknownCRC
	c.forget()
	r.own(c, 1-c.receives(to), peer)
	return c
}

// open makes a connection.
func (r *roce) open(opener, accepter netip.AddrPort, what carrier, at Stamp) *rcConn {
	f := r.c.newFlow(opener, accepter)
	c := &rcConn{Conn: f.conn, flow: f, roce: r}
	f.rc = c
	c.Info.Carrier = map[carrier]Carrier{carrierRoCEv1: CarrierRoCEv1, carrierRoCEv2: CarrierRoCEv2, carrierInfiniBand: CarrierInfiniBand}[what]
	r.c.enter(f)
	c.visit(c.begin(KindOpen, FromOpener, at, at))
	return c
}

// own says that a queue pair receives the packets of direction dir of a connection, and no longer those of another.
func (r *roce) own(c *rcConn, dir Dir, p queuePair) {
	if s, ok := r.lone[p]; ok {
		delete(r.lone, p)
		delete(r.sent, s)
	}
	r.pairs[p], c.pairs[dir] = c, p
}

// forget drops a connection.
func (r *roce) forget(c *rcConn) {
	for dir := range c.pairs {
		if r.pairs[c.pairs[dir]] == c {
			delete(r.pairs, c.pairs[dir])
		}
		if r.ids[c.ids[dir]] == c {
			delete(r.ids, c.ids[dir])
		}
	}
}

// manage takes a datagram of the connection manager:
//
//	REQ  0 own ID, 8 service, 32 own queue pair, 35 IRD, 39 ORD, 43 kind of service, 44 first PSN of the peer, 50 MTU, 140 private data
//	REP  0 own ID, 4 peer's ID, 12 own queue pair, 20 first PSN of the peer, 24 IRD, 25 ORD, 36 private data
//	REJ  0 own ID, 4 peer's ID, 10 reason, 84 private data
//
// The service of the IP CM (Annex A11) is 00 00 00 00 01, an IP protocol, a port; 36 octets about the two IP addresses come
// before its private data then.
func (r *roce) manage(src, dst netip.Addr, mad []byte, what carrier, at Stamp) *flow {
	be := binary.BigEndian
	if mad[1] != classCM {
		return nil
	}
	m, kind := mad[madHead:], be.Uint16(mad[16:])
	own, peer := commID{src, be.Uint32(m)}, commID{dst, be.Uint32(m[4:])}
	if kind == cmRequest {
		qp, psn := queuePair{src, be24(m[32:])}, be24(m[44:])
		if c := r.ids[own]; m[43]>>1&3 != serviceRC || c != nil && c.pairs[FromAccepter] == qp && c.first == psn {
			return nil // sent again
		}
		opener, accepter, private := netip.AddrPortFrom(src, 0), netip.AddrPortFrom(dst, 0), m[cmRequestPrivate:]
		if be.Uint32(m[8:]) == 0 && m[12] == 1 {
			head := private[:ipCM]
			ip := func(at int) netip.Addr { return netip.AddrFrom16([16]byte(head[at:])) }
			if head[1]>>4 == 4 {
				ip = func(at int) netip.Addr { return netip.AddrFrom4([4]byte(head[at+12:])) }
			}
			opener, accepter = netip.AddrPortFrom(ip(4), be.Uint16(head[2:])), netip.AddrPortFrom(ip(20), be.Uint16(m[14:]))
			private = private[ipCM:]
		}
		c := r.open(opener, accepter, what, at)
		r.ids[own], c.ids[FromOpener] = c, own
		r.own(c, FromAccepter, qp)
		c.first = psn
		c.dirs[FromAccepter].expect(psn, at)
		if n := 128 << (m[50] >> 4); n >= 256 && n <= 4096 {
			c.mtu = uint32(n)
		}
		c.startup(FromOpener, "ConnectRequest", &Startup{Frame: depths(m[35], m[39], private)}, at)
		return c.flow
	}
	c := r.ids[peer]
	if c == nil || c.ended {
		return nil
	}
	dir := FromOpener
	if c.ids[FromOpener] == peer {
		dir = FromAccepter
	}
	switch kind {
	case cmReply:
		if dir != FromAccepter || c.Info.Reply != nil {
			return nil
		}
		r.ids[own], c.ids[FromAccepter] = c, own
		r.own(c, FromOpener, queuePair{src, be24(m[12:])})
		c.dirs[FromOpener].expect(be24(m[20:]), at)
		c.startup(dir, "ConnectReply", &Startup{IsReply: true, Frame: depths(m[24], m[25], m[cmReplyPrivate:])}, at)
	case cmReject:
		why := fmt.Sprintf("ConnectReject, reason %d", be.Uint16(m[10:]))
		if dir == FromAccepter && c.Info.Reply == nil {
			c.startup(dir, why, &Startup{IsReply: true, Frame: mpa.Frame{Rejected: true, PrivateData: m[cmRejectPrivate:]}}, at)
		}
		c.close(dir, why, at)
	case cmDisconnect:
		c.close(dir, "DisconnectRequest", at)
	case cmDisReply:
		c.close(dir, "DisconnectReply", at)
	default:
		return nil
	}
	return c.flow
}

// depths returns what a REQ or REP says as a startup frame says it.
func depths(ird, ord byte, private []byte) mpa.Frame {
	return mpa.Frame{Enhanced: true, Word: mpa.Enhanced{IRD: uint16(ird), ORD: uint16(ord)}, PrivateData: private}
}

// startup shows a message of the connection manager that takes the place of a startup frame.
func (c *rcConn) startup(dir Dir, name string, f *Startup, at Stamp) {
	if cm, ok := rpcrdma.ParsePrivateData(f.PrivateData); ok {
		f.CM = &cm
	}
	ev := c.begin(KindStartup, dir, at, at)
	f.PDLength, f.At = len(f.PrivateData), at
	ev.Manager, ev.Startup, ev.Offset = name, f, c.sides[dir].off
	c.note(dir, f)
	c.visit(ev)
}

// RC is a packet of a reliable connection of RoCE or InfiniBand (InfiniBand Architecture Specification, Volume 1, Chapter 9).
// What it means is in the layers above, in the words of iWARP: an R_Key is an STag, a virtual address a TO.
type RC struct {
	Opcode    uint8
	PSN       uint32  // packet sequence number, 24 bits; a Read Response has one of its Request's
	QP        uint32  // the queue pair that receives it
	Syndrome  uint8   // of an acknowledgement
	Immediate *uint32 // nil: it has none
}

// String returns Wireshark's name for the opcode: "RC Send Only".
func (r *RC) String() string {
	if name := rcOps[r.Opcode].name; name != "" {
		return "RC " + name
	}
	return fmt.Sprintf("RC opcode %#02x", r.Opcode)
}

// Requests reports whether the packet has a PSN of its own, in the order of those that its sender sends, and so shows that
// none before it is missing.
func (r *RC) Requests() bool { k := rcOps[r.Opcode].kind; return k != rcReserved && k < rcResponse }

// rcConn is a reliable connection of two queue pairs.
type rcConn struct {
	*Conn
	flow  *flow
	roce  *roce
	pairs [2]queuePair // that receive the packets of a direction; without a number while unknown
	ids   [2]commID    // of the sides
	first uint32       // the first PSN in the REQ, to know that again
	mtu   uint32       // octets of all packets of a message but the last; 0 while unknown
	sinks uint32       // numbers the sinks of Reads, which have no name here
	dirs  [2]rcDir
	ended bool
	rc    RC // reused for every event

	// Packets wait, all of the connection, while one is due before them that may be sent again: what is lost between the
	// capture and its receiver comes twice, and what only the capture lacks is acknowledged.
	wait   []rcPacket
	held   int // octets of wait
	waited int // packets since the first of them
	proven int // of these, since an acknowledgement of what is due
}

// rcDir is the requests of one direction.
type rcDir struct {
	known bool
	next  uint32 // PSN of the next request, if known is set
	last  Stamp  // of the request before it
	asked []rcRequest
	msn   uint32 // of messages of queue 1
	stag  ddp.STag
	to    uint64
	open  bool // an RDMA Write is, which continues at stag and to
}

// rcRequest is a request that is answered by more than an acknowledgement.
type rcRequest struct {
	op        verbs.Opcode
	sink      ddp.STag
	next, end uint32 // PSN of the next response, and after the last
	size, got uint32
	last      Stamp // of the response before it, or of the request
}

type rcPacket struct {
	dir      Dir
	op       uint8
	solicits bool
	psn, qp  uint32
	b        []byte // what is behind the Base Transport Header
	cut      int    // octets that the file lacks
	at       Stamp
}

// rcKind is what a packet is for.
type rcKind uint8

const (
	rcReserved rcKind = iota
	rcSend
	rcWrite
	rcRead
	rcAtomic
	rcFlush
	rcAtomicWrite
	rcResponse
	rcAtomicAck
	rcAck
)

// Which part of its message a packet is, and what else it has.
const (
	rcFirst = 1 << iota
	rcLast
	rcInvalidate
	rcImmediate
	rcOnly = rcFirst | rcLast
)

// rcOps are the opcodes, with the length of the headers behind the Base Transport Header.
var rcOps = [32]struct {
	name string
	kind rcKind
	part int
	head int
}{
	0x00: {"Send First", rcSend, rcFirst, 0},
	0x01: {"Send Middle", rcSend, 0, 0},
	0x02: {"Send Last", rcSend, rcLast, 0},
	0x03: {"Send Last Immediate", rcSend, rcLast | rcImmediate, 4},
	0x04: {"Send Only", rcSend, rcOnly, 0},
	0x05: {"Send Only Immediate", rcSend, rcOnly | rcImmediate, 4},
	0x06: {"RDMA Write First", rcWrite, rcFirst, 16},
	0x07: {"RDMA Write Middle", rcWrite, 0, 0},
	0x08: {"RDMA Write Last", rcWrite, rcLast, 0},
	0x09: {"RDMA Write Last Immediate", rcWrite, rcLast | rcImmediate, 4},
	0x0a: {"RDMA Write Only", rcWrite, rcOnly, 16},
	0x0b: {"RDMA Write Only Immediate", rcWrite, rcOnly | rcImmediate, 20},
	0x0c: {"RDMA Read Request", rcRead, rcOnly, 16},
	0x0d: {"RDMA Read Response First", rcResponse, rcFirst, 4},
	0x0e: {"RDMA Read Response Middle", rcResponse, 0, 0},
	0x0f: {"RDMA Read Response Last", rcResponse, rcLast, 4},
	0x10: {"RDMA Read Response Only", rcResponse, rcOnly, 4},
	0x11: {"Acknowledge", rcAck, rcOnly, 4},
	0x12: {"Atomic Acknowledge", rcAtomicAck, rcOnly, 12},
	0x13: {"Compare Swap", rcAtomic, rcOnly, 28},
	0x14: {"Fetch Add", rcAtomic, rcOnly, 28},
	0x16: {"Send Last Invalidate", rcSend, rcLast | rcInvalidate, 4},
	0x17: {"Send Only Invalidate", rcSend, rcOnly | rcInvalidate, 4},
	0x1c: {"Flush", rcFlush, rcOnly, 20},
	0x1d: {"Atomic Write", rcAtomicWrite, rcOnly, 24},
}

// answers reports whether a packet answers one of the peer's.
func (p *rcPacket) answers() bool { return rcOps[p.op].kind >= rcResponse }

// acked returns the last PSN that an Acknowledge acknowledges: of a NAK, the one before its own.
func (p *rcPacket) acked() (psn uint32, ok bool) {
	if rcOps[p.op].kind != rcAck || len(p.b) == 0 {
		return 0, false
	}
	if p.b[0]>>5 != 0 {
		return (p.psn - 1) & psnMask, true
	}
	return p.psn, true
}

// after returns how far PSN a is behind b, negative if it is before it.
func after(a, b uint32) int { return int(int32((a-b)<<8) >> 8) }

func (c *rcConn) receives(p queuePair) Dir {
	if c.pairs[FromOpener] == p {
		return FromOpener
	}
	return FromAccepter
}

func (d *rcDir) expect(psn uint32, at Stamp) { d.known, d.next, d.last = true, psn, at }

// holds is as flow.holds.
func (c *rcConn) holds() int {
	return c.Conn.holds() + c.held + 64*(cap(c.wait)+cap(c.dirs[0].asked)+cap(c.dirs[1].asked))
}

// space is a sequence of PSNs: the requests of a direction, or the responses that it sends.
type space struct {
	dir       Dir
	responses bool
}

// place says in which space something must come before p, and how many packets at least; 0 if p is due, negative if it came
// before, or answers nothing.
func (c *rcConn) place(p *rcPacket) (space, int) {
	asked := c.dirs[1-p.dir].asked
	if !p.answers() {
		d, s := &c.dirs[p.dir], space{dir: p.dir}
		if !d.known {
			return s, 0
		}
		return s, after(p.psn, d.next)
	}
	s := space{p.dir, true}
	acked, ok := p.acked()
	switch d := &c.dirs[1-p.dir]; {
	case !ok && (len(asked) == 0 || after(p.psn, asked[len(asked)-1].end) >= 0):
		return s, -1
	case !ok:
		return s, after(p.psn, asked[0].next)
	case d.known && after(acked, d.next) >= 0:
		return space{dir: 1 - p.dir}, after(acked, d.next) + 1
	case len(asked) > 0 && after(acked, asked[0].end) >= 0:
		return s, after(asked[0].end, asked[0].next)
	}
	return s, 0
}

const maxWaiting = 1 << 12 // packets that wait in a connection

// packet takes the next packet in the order of the capture.
func (c *rcConn) packet(p *rcPacket) {
	s, ahead := c.place(p)
	switch {
	case c.ended:
		if !p.answers() && ahead >= 0 { // perhaps the queue pair belongs to another connection by now
			c.roce.c.Stats.Stray++
		}
		return
	case len(c.wait) == 0 && ahead < 0:
		return
	case len(c.wait) == 0 && ahead == 0:
		c.deliver(p)
		return
	case len(c.wait) > 0 && ahead == 0 && !p.acknowledges() && s == c.blocked():
		c.deliver(p)
		c.replay()
	default:
		q := *p
		q.b = slices.Clone(p.b)
		c.wait = append(c.wait, q)
		c.held += len(q.b) + earlyCost
		if c.proven > 0 || ahead > 0 && p.acknowledges() && s == c.blocked() {
			c.proven++
		}
	}
	c.waited++
	for len(c.wait) > 0 && (c.proven > patience || c.waited > maxWaiting || c.held > c.opt.MaxEarly) {
		c.giveUp(p.at, false)
	}
}

// blocked is the space in which what is due first has not come.
func (c *rcConn) blocked() space {
	s, _ := c.place(&c.wait[0])
	return s
}

// replay delivers those that need not wait any more.
func (c *rcConn) replay() {
	for len(c.wait) > 0 {
		i := 0
		s, ahead := c.place(&c.wait[0])
		if ahead > 0 { // perhaps what is due came after it
			i = slices.IndexFunc(c.wait, func(p rcPacket) bool {
				x, n := c.place(&p)
				return x == s && n == 0 && !p.acknowledges()
			})
			if ahead = 0; i < 0 {
				return
			}
		}
		p := c.wait[i]
		copy(c.wait[1:], c.wait[:i])
		c.wait[0] = rcPacket{}
		c.wait = c.wait[1:]
		c.held -= len(p.b) + earlyCost
		if ahead == 0 {
			c.deliver(&p)
		}
		if c.waited, c.proven = 0, 0; len(c.wait) > 0 && c.proved(c.blocked()) > 0 {
			c.proven = 1
		}
	}
	c.wait = nil
}

// proved returns how many packets are missing in a space for certain, by what the packets that wait acknowledge.
func (c *rcConn) proved(s space) (most int) {
	for i := range c.wait {
		if x, n := c.place(&c.wait[i]); x == s && c.wait[i].acknowledges() {
			most = max(most, n)
		}
	}
	return most
}

// giveUp takes what is due first for lost by the capture, up to the next packet that waits, or to the last that is proved.
// Requests that nobody has acknowledged by now are dropped: the PSN is damaged, or they will be sent again. At the end of a
// connection they are not.
func (c *rcConn) giveUp(at Stamp, end bool) {
	s, missing, nearest := c.blocked(), c.proved(c.blocked()), psnMask
	for i := range c.wait {
		if x, n := c.place(&c.wait[i]); x == s && n > 0 && !c.wait[i].acknowledges() {
			nearest = min(nearest, n)
		}
	}
	switch {
	case missing == 0 && !s.responses && !end:
		c.wait = slices.DeleteFunc(c.wait, func(p rcPacket) bool {
			x, n := c.place(&p)
			if x != s || n <= 0 {
				return false
			}
			c.held -= len(p.b) + earlyCost
			return true
		})
	case missing == 0:
		missing = nearest
	default:
		missing = min(missing, nearest)
	}
	c.lost(s, missing, at)
	c.waited = 0
	c.replay()
}

// lost says that packets of a space are not in the capture: n of them, or as many PSNs, since some are nobody's.
func (c *rcConn) lost(s space, n int, at Stamp) {
	d := &c.dirs[s.dir]
	since, what := d.last, "packets"
	if s.responses {
		d, what = &c.dirs[1-s.dir], "responses"
		since = d.asked[0].last
		to := d.asked[0].next + uint32(n)
		for len(d.asked) > 0 && after(d.asked[0].end, to) <= 0 {
			d.asked = d.asked[1:]
		}
		if len(d.asked) > 0 && after(to, d.asked[0].next) > 0 {
			q := &d.asked[0]
			q.got += c.mtu * uint32(after(to, q.next))
			q.next = to & psnMask
		}
	} else {
		d.next = (d.next + uint32(n)) & psnMask
		d.open = false
		c.sides[s.dir].missed()
	}
	if n > 0 {
		what = fmt.Sprintf("up to %d %s", n, what)
	} else {
		what = "or damaged: nobody acknowledges what follows"
	}
	ev := c.begin(KindUndecoded, s.dir, since, at)
	ev.Offset, ev.Err = c.sides[s.dir].off, fmt.Errorf("%w: %s", ErrHole, what)
	c.Info.Unknown |= UnknownHole
	c.forget()
	c.visit(ev)
}

// close ends the connection with a message of the connection manager from the side that sends in direction dir.
func (c *rcConn) close(dir Dir, why string, at Stamp) {
	c.flushWaiting(at)
	c.ended = true
	for _, d := range []Dir{dir, 1 - dir} {
		c.flush(d)
		c.sides[d].closed = true
		ev := c.begin(KindClose, d, at, at)
		ev.Offset, ev.Manager = c.sides[d].off, why
		c.visit(ev)
	}
	c.rpc.release()
}

func (c *rcConn) flushWaiting(at Stamp) {
	for len(c.wait) > 0 {
		c.giveUp(at, true)
	}
}

// acknowledges reports whether a packet is an Acknowledge.
func (p *rcPacket) acknowledges() bool { return rcOps[p.op].kind == rcAck }

// deliver decodes a packet that is due.
func (c *rcConn) deliver(p *rcPacket) {
	op, d, s := &rcOps[p.op], &c.dirs[p.dir], &c.sides[p.dir]
	c.rc = RC{Opcode: p.op, PSN: p.psn, QP: p.qp}
	if part := op.part & rcOnly; part == rcFirst || part == 0 && op.kind != rcReserved {
		if n := len(p.b) + p.cut - op.head; n >= 256 && n <= 4096 && n&(n-1) == 0 {
			c.mtu = uint32(n) // only the last packet of a message has less
		}
	}
	var answered rcRequest
	switch q := &c.dirs[1-p.dir]; {
	case op.kind == rcAck:
		if len(p.b) == 0 || p.b[0]>>5 != 3 || p.b[0]&31 == 0 {
			return
		}
		c.rc.Syndrome = p.b[0] // a NAK that ends the connection
	case op.kind == rcResponse || op.kind == rcAtomicAck:
		if len(q.asked) == 0 {
			return // to what came before the capture
		}
		answered = q.asked[0]
		x := &q.asked[0]
		x.next, x.got, x.last = (x.next+1)&psnMask, x.got+uint32(max(0, len(p.b)+p.cut-op.head)), p.at
		if x.next == x.end {
			q.asked = q.asked[1:]
		}
	default:
		d.expect((p.psn+1)&psnMask, p.at)
	}
	if p.cut > 0 {
		if op.kind == rcRead && len(p.b) < op.head {
			d.known = false
		}
		d.open = d.open && op.kind != rcWrite
		c.Info.Unknown |= UnknownTruncated
		c.forget()
		if op.kind == rcSend {
			s.missed()
		}
		c.undecoded(p.dir, p.b, s.off, p.at, p.at, fmt.Errorf("%w: %d octets of a packet", ErrHole, p.cut))
		s.off += uint64(len(p.b))
		return
	}
	ev := c.begin(KindPacket, p.dir, p.at, p.at)
	ev.RC, ev.Raw, ev.Len, ev.Offset = &c.rc, p.b, len(p.b), s.off
	s.off += uint64(len(p.b))
	if op.kind == rcReserved {
		ev.fail(ErrOpcode)
	} else if len(p.b) < op.head {
		ev.fail(fmt.Errorf("%w: %v of %d octets", ErrShort, &c.rc, len(p.b)))
	} else if op.kind != rcAck {
		c.packetOf(ev, p, &answered)
	}
	c.visit(ev)
}

// packetOf decodes a whole packet, but an Acknowledge. What it answers is in q.
func (c *rcConn) packetOf(ev *Event, p *rcPacket, q *rcRequest) {
	be := binary.BigEndian
	op, d, h, b := &rcOps[p.op], &c.dirs[p.dir], p.b[:rcOps[p.op].head], p.b[rcOps[p.op].head:]
	if op.part&rcImmediate != 0 {
		c.rc.Immediate = new(be.Uint32(h[len(h)-4:]))
	}
	seg := ddp.Segment{DV: ddp.Version, Last: op.part&rcLast != 0}
	is := func(op verbs.Opcode, invalidates ddp.STag) {
		seg.Control = rdmapVersion<<6 | uint8(op)
		c.ddp, c.rdmap = DDP{Segment: seg, Payload: b}, RDMAP{Op: op, Version: rdmapVersion, Invalidate: invalidates}
		ev.DDP, ev.RDMAP = &c.ddp, &c.rdmap
	}
	whole := func(op verbs.Opcode, msn uint32) *Message {
		seg.QN, seg.MSN = op.Queue(), msn
		is(op, 0)
		ev.Message = &Message{Op: op, QN: seg.QN, MSN: msn, Payload: b, Segments: 1, First: ev.First}
		return ev.Message
	}
	ask := func(op verbs.Opcode, size uint32, n int) *Message {
		d.msn++
		c.sinks++
		d.next = (p.psn + uint32(n)) & psnMask
		if len(d.asked) >= maxReads {
			d.asked = d.asked[1:]
		}
		d.asked = append(d.asked, rcRequest{op: op, sink: ddp.STag(c.sinks), next: p.psn, end: d.next, size: size, last: p.at})
		return whole(op, d.msn)
	}
	switch op.kind {
	case rcSend:
		queue := &c.sides[p.dir].queues[ddp.QNSend]
		as, tag := verbs.OpSend, ddp.STag(0)
		if p.solicits {
			as = verbs.OpSendSE
		}
		if op.part&rcInvalidate != 0 { // only the last packet says so
			if as, tag = verbs.OpSendInvalidate, ddp.STag(be.Uint32(h)); p.solicits {
				as = verbs.OpSendSEInvalidate
			}
		}
		switch seg.MSN = queue.last; {
		case op.part&rcFirst != 0:
			seg.MSN++
		case !queue.open:
			ev.fail(fmt.Errorf("%w: a Send", ErrUnseen))
			return
		default:
			queue.op, seg.MO = as, uint32(len(queue.buf))
		}
		is(as, tag)
		c.untagged(ev)
	case rcWrite:
		if op.part&rcFirst != 0 {
			d.to, d.stag = be.Uint64(h), ddp.STag(be.Uint32(h[8:]))
		} else if !d.open {
			ev.fail(fmt.Errorf("%w: an RDMA Write", ErrUnseen))
			return
		}
		seg.Tagged, seg.STag, seg.TO = true, d.stag, d.to
		d.open, d.to = !seg.Last, d.to+uint64(len(b))
		is(verbs.OpWrite, 0)
		c.tagged(ev)
	case rcRead:
		r := &ReadRequest{Size: be.Uint32(h[12:]), SourceSTag: ddp.STag(be.Uint32(h[8:])), SourceTO: be.Uint64(h)}
		mtu := uint64(c.mtu)
		if mtu == 0 {
			mtu = 256 // no packet has room for less
		}
		n := int(min(max(1, (uint64(r.Size)+mtu-1)/mtu), 1<<22))
		m := ask(verbs.OpReadRequest, r.Size, n)
		d.known = c.mtu > 0 || n == 1
		r.SinkSTag, m.Read = ddp.STag(c.sinks), r
		c.rpc.readRequest(ev)
	case rcAtomic:
		x := &Extension{STag: ddp.STag(be.Uint32(h[8:])), TO: be.Uint64(h), ID: p.psn, Atomic: verbs.Atomic{Op: verbs.AtomicFetchAdd, Operand: be.Uint64(h[12:])}}
		if p.op == 0x13 {
			x.Atomic = verbs.Atomic{Op: verbs.AtomicCmpSwap, Operand: be.Uint64(h[12:]), Mask: ^uint64(0), Compare: be.Uint64(h[20:]), CompareMask: ^uint64(0)}
		}
		ask(verbs.OpAtomicRequest, 0, 1).Extension = x
	case rcFlush: // Annex A19: 4 bits of placement, 2 of what is named, and then as of an RDMA Read
		x := &Extension{STag: ddp.STag(be.Uint32(h[12:])), TO: be.Uint64(h[4:]), Len: be.Uint32(h[16:])}
		for i, f := range []verbs.FlushFlags{verbs.FlushVisible, verbs.FlushPersistent} {
			if h[3]>>i&1 != 0 {
				x.Flags |= f
			}
		}
		ask(verbs.OpFlushRequest, 0, 1).Extension = x
	case rcAtomicWrite:
		ask(verbs.OpAtomicWriteRequest, 0, 1).Extension = &Extension{STag: ddp.STag(be.Uint32(h[8:])), TO: be.Uint64(h), Len: 8, Data: h[16:]}
	case rcAtomicAck:
		if q.op != verbs.OpAtomicRequest {
			ev.fail(fmt.Errorf("%w: it answers a %v", ErrOrder, q.op))
			return
		}
		whole(verbs.OpAtomicResponse, p.psn).Extension = &Extension{ID: p.psn, Old: be.Uint64(h[4:])}
	case rcResponse:
		switch q.op {
		case verbs.OpFlushRequest:
			whole(verbs.OpFlushResponse, p.psn)
		case verbs.OpAtomicWriteRequest:
			whole(verbs.OpAtomicWriteResponse, p.psn)
		case verbs.OpReadRequest:
			seg.Tagged, seg.STag, seg.TO, seg.Last = true, q.sink, uint64(q.got), p.psn == (q.end-1)&psnMask
			if c.mtu == 0 { // then its end is a guess
				seg.Last = uint64(q.got)+uint64(len(b)) >= uint64(q.size)
			}
			is(verbs.OpReadResponse, 0)
			c.tagged(ev)
		default:
			ev.fail(fmt.Errorf("%w: it answers a %v", ErrOrder, q.op))
		}
	case rcReserved, rcAck:
	}
}

// end ends the capture.
func (c *rcConn) end() {
	if n := len(c.wait); n > 0 {
		c.flushWaiting(c.wait[n-1].at)
	}
	c.Conn.Finish()
}
