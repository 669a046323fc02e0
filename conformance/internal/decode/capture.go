package decode

import (
	"cmp"
	"io"
	"iter"
	"net/netip"
	"slices"

	"github.com/stag-rdma/stag/internal/list"
)

// A Capture decodes the packets of one capture, in order, into events of all its connections.
type Capture struct {
	// Stats counts what was read so far.
	Stats CaptureStats

	opt    Options
	visit  func(*Event)
	parser packetParser
	mem    *budget
	flows  map[flowKey]*flow
	roce   roce
	order  list.List[flow] // the one that was idle longest first
	held   int             // octets that the flows hold
}

// maxHeld bounds what the flows of a capture hold together, in octets: the limits of one, times MaxConns, are more than
// a machine has. The flows that were idle longest are dropped; what follows of them begins in the middle.
const maxHeld = 64 << 20

// CaptureStats counts packets.
type CaptureStats struct {
	Packets     int // in the file
	TCP         int // of these, TCP segments that could be read
	RoCE        int // of RoCE, or of InfiniBand itself
	Connections int // of TCP, and reliable ones of RoCE and InfiniBand

	Stray      int // packets of RoCE and InfiniBand that are not decoded: of other services, or of a connection that is not known
	Fragments  int // of IP datagrams, except those that made one whole
	Unread     int // packets of other link types that this package does not read
	UnreadLink int // the first of these link types
}

// NewCapture returns a decoder that calls visit for every event; visit borrows the event. nil
// options mean the defaults. It panics with the error of opt.Check.
func NewCapture(opt *Options, visit func(*Event)) *Capture {
	c := &Capture{opt: opt.withDefaults(), visit: visit, flows: make(map[flowKey]*flow)}
	c.mem = &budget{left: c.opt.MaxPlaced}
	c.roce = roce{c: c, pairs: make(map[queuePair]*rcConn), ids: make(map[commID]*rcConn), lone: make(map[queuePair]sentTo), sent: make(map[sentTo]queuePair)}
	return c
}

// Packet takes the next packet. It borrows pkt.
func (c *Capture) Packet(pkt *Packet) {
	c.Stats.Packets++
	seg, what := c.parser.parse(pkt)
	c.Stats.count(what, pkt.Link)
	at := Stamp{pkt.Frame, pkt.Time}
	var f *flow
	switch what {
	case carrierTCP:
		f = c.flow(&seg, at)
		f.packet(&seg, at)
	case carrierRoCEv1, carrierRoCEv2, carrierInfiniBand:
		if f = c.roce.packet(&seg, what, at); f == nil {
			return
		}
	default:
		return
	}
	c.order.Push(&f.place, f)
	c.held -= f.held
	f.held = f.holds()
	c.held += f.held
	for c.held > maxHeld && c.order.Len() > 1 {
		c.forget()
	}
}

// Finish ends the capture: what is incomplete is reported.
func (c *Capture) Finish() {
	for _, f := range slices.SortedFunc(c.order.All(), func(a, b *flow) int { return cmp.Compare(a.conn.Info.ID, b.conn.Info.ID) }) {
		f.end()
		f.place.Leave()
	}
	clear(c.flows)
}

// flow returns the flow of a segment. It makes a new one if the segment opens a connection, or is the first
// one seen of it.
func (c *Capture) flow(seg *tcpSegment, at Stamp) *flow {
	key := keyOf(seg.src, seg.dst)
	f := c.flows[key]
	if f != nil && !f.reopens(seg) {
		return f
	}
	if f != nil {
		c.drop(f)
	}
	src, dst := seg.src, seg.dst
	if seg.syn && seg.ack { // the SYN before it is not in the capture
		src, dst = dst, src
	}
	f = c.newFlow(src, dst)
	c.flows[key] = f
	c.enter(f)
	c.visit(f.conn.begin(KindOpen, f.dirOf(src), at, at))
	return f
}

// newFlow returns the flow of the connection that src opened to dst.
func (c *Capture) newFlow(src, dst netip.AddrPort) *flow {
	c.Stats.Connections++
	f := &flow{conn: NewConn(&c.opt, c.visit)}
	f.conn.rpc.mem = c.mem
	f.conn.Info.ID, f.conn.Info.Opener, f.conn.Info.Accepter = c.Stats.Connections, src, dst
	for dir := range f.streams {
		f.streams[dir] = stream{assembler: assembler{limit: f.conn.opt.MaxEarly}, flow: f, dir: Dir(dir)}
	}
	return f
}

// enter adds a flow, and makes room for it.
func (c *Capture) enter(f *flow) {
	c.order.Push(&f.place, f)
	if c.order.Len() > c.opt.MaxConns {
		c.forget()
	}
}

// forget drops the flow that was idle longest.
func (c *Capture) forget() {
	f := c.order.First()
	if !f.conn.closed() {
		f.conn.Info.Unknown |= UnknownRest
	}
	c.drop(f)
}

// drop ends a flow and forgets it.
func (c *Capture) drop(f *flow) {
	f.end()
	f.conn.Info.Over = true
	c.held -= f.held
	f.place.Leave()
	if key := keyOf(f.conn.Info.Opener, f.conn.Info.Accepter); c.flows[key] == f {
		delete(c.flows, key)
	}
	if f.rc != nil {
		c.roce.forget(f.rc)
	}
}

func keyOf(a, b netip.AddrPort) flowKey {
	if a.Compare(b) > 0 {
		a, b = b, a
	}
	return flowKey{a, b}
}

// Events yields the events of a pcap or pcapng stream in the order in which their last octets were captured.
// It borrows r until the loop ends. An error comes as the last pair, with a nil event: the file is damaged,
// or is not a capture ([ErrNotCapture]).
func Events(r io.Reader, opt *Options) iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		stopped := false
		c := NewCapture(opt, func(ev *Event) {
			stopped = stopped || !yield(ev, nil)
		})
		var failed error
		for pkt, err := range Packets(r) {
			if failed = err; err != nil {
				break
			}
			if c.Packet(&pkt); stopped {
				return
			}
		}
		if c.Finish(); failed != nil && !stopped {
			yield(nil, failed)
		}
	}
}
