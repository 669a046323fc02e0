package decode

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/stag-rdma/stag/rdmap/mpa"
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
