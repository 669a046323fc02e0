package rdmaptest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Card says what the two Devices of a connection in this process are like.
type Card struct {
	// Windows gives names to memory that a Send with Invalidate takes back. Without, such a Send ends the connection.
	Windows bool
	// Depth is the largest IRD and ORD. 0: 16.
	Depth int
	// Held, if set, is called by a card in the middle of an RDMA Write or Read, while it touches the peer's memory.
	Held func()
}

// What RoCE delivers of private data, in octets: what was not sent is zero, and nothing tells how much was.
const (
	requestPrivate = 56
	replyPrivate   = 196
)

// Device is an end of a connection between two cards that are goroutines of this process: an rdmap.Device whose memory
// has names only where the seam says so, with odd bases. It carries out one work request after the other, waits with a
// Send until the peer has posted a receive, as a reliable connection does, and completes nothing that it has not done.
type Device struct {
	card          Card
	local, remote net.Addr
	peer          *Device
	request       chan request // the initiator's, for the responder
	reply         chan reply
	asked         func() // the initiator calls it when its request is there
	over          chan struct{}
	wake          chan struct{} // one slot: Serve looks again
	kick          chan struct{} // one slot: the card looks again

	mu       sync.Mutex
	cfg      *rdmap.DeviceConfig
	err      error
	draining bool // it ends when the queue is empty
	down     bool // nothing more is carried out
	stopped  bool // the card's goroutine is gone
	mute     bool // see Mute
	sq       []work
	events   []event
	recvs    int
	names    map[region.STag]*name
	next     uint32 // STag
	stats    rdmap.Stats
}

type request struct {
	private  []byte
	ird, ord int
}

type reply struct {
	request
	refused bool
}

// work is a work request, or the end of a name.
type work struct {
	wr   verbs.WR
	drop *name
}

// event is what Serve hears of: a completion, a message, or the peer's end.
type event struct {
	wr      *verbs.WR
	err     error
	message *verbs.Message
	end     bool
}

// name is memory that the peer can reach.
type name struct {
	d       *Device
	stag    region.STag
	base    uint64
	mem     []byte
	access  region.Access
	users   int  // copies of the peer's card
	dropped bool // Drop was called
	gone    bool // nobody finds it any more
	free    chan struct{}
}

var _ rdmap.Device = (*Device)(nil)

// Devices returns the two ends of a connection: of the initiator and of the responder.
func (c Card) Devices() (a, b *Device) {
	local, remote := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2}
	return c.devices(local, remote, func(*Device) {})
}

func (c Card) devices(local, remote net.Addr, asked func(responder *Device)) (a, b *Device) {
	req, rep := make(chan request, 1), make(chan reply, 1)
	end := func(local, remote net.Addr) *Device {
		return &Device{
			card: c, local: local, remote: remote, request: req, reply: rep, over: make(chan struct{}),
			wake: make(chan struct{}, 1), kick: make(chan struct{}, 1), names: make(map[region.STag]*name),
		}
	}
	a, b = end(local, remote), end(remote, local)
	a.peer, b.peer, a.asked = b, a, func() { asked(b) }
	return a, b
}

// depth is the largest IRD and ORD.
func (d *Device) depth() int { return cmp.Or(d.card.Depth, 16) }

// Caps implements rdmap.Device.
func (d *Device) Caps() rdmap.DeviceCaps {
	return rdmap.DeviceCaps{Windows: d.card.Windows, SendInvalidate: true}
}

// Read implements net.Conn: no octets pass here.
func (d *Device) Read([]byte) (int, error) { return 0, errors.ErrUnsupported }

// Write implements net.Conn.
func (d *Device) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }

// Close implements net.Conn.
func (d *Device) Close() error {
	d.End(verbs.ErrClosed, false)
	return nil
}

// LocalAddr implements net.Conn.
func (d *Device) LocalAddr() net.Addr { return d.local }

// RemoteAddr implements net.Conn.
func (d *Device) RemoteAddr() net.Addr { return d.remote }

// SetDeadline implements net.Conn.
func (d *Device) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (d *Device) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (d *Device) SetWriteDeadline(time.Time) error { return nil }

// Over implements rdmap.Device.
func (d *Device) Over() <-chan struct{} { return d.over }

// Err implements rdmap.Device.
func (d *Device) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// Stats implements rdmap.Device.
func (d *Device) Stats() rdmap.Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats
}

// Start implements rdmap.Device.
func (d *Device) Start(ctx context.Context, cfg *rdmap.DeviceConfig) (st rdmap.ConnectionState, err error) {
	d.mu.Lock()
	if err = d.err; err == nil {
		d.cfg, d.recvs = cfg, d.recvs+max(cfg.Recvs, 0)
	}
	d.mu.Unlock()
	if err != nil {
		return st, err
	}
	cfg.Table.SetNamer(d)
	st = rdmap.ConnectionState{HandshakeComplete: true, Initiator: cfg.Initiator, CRC: true}
	if cfg.Initiator {
		err = d.connect(ctx, cfg, &st)
	} else {
		err = d.accept(ctx, cfg, &st)
	}
	d.mu.Lock()
	if err = cmp.Or(d.err, err); err != nil && d.err == nil {
		d.err = err
	}
	d.mu.Unlock()
	if err != nil {
		d.peer.ended()
		close(d.over)
		return rdmap.ConnectionState{}, err
	}
	go d.run()
	hint(d.peer.kick) // it may wait with a Send
	return st, nil
}

func (d *Device) connect(ctx context.Context, cfg *rdmap.DeviceConfig, st *rdmap.ConnectionState) error {
	if len(cfg.PrivateData) > requestPrivate {
		return &verbs.ConnError{Op: "handshake", Err: fmt.Errorf("private data of %d octets, at most %d", len(cfg.PrivateData), requestPrivate)}
	}
	depth := d.depth()
	ird, ord := min(cfg.IRD, depth), min(cfg.ORD, depth)
	d.request <- request{append(bytes.Clone(cfg.PrivateData), make([]byte, requestPrivate-len(cfg.PrivateData))...), ird, ord}
	d.asked()
	r, err := await(ctx, d, d.reply)
	if err != nil {
		return err
	}
	if r.refused {
		return &verbs.RejectError{PrivateData: r.private, IRD: -1, ORD: -1}
	}
	st.IRD, st.ORD = min(ird, r.ord), min(ord, r.ird)
	_, err = cfg.Accept(r.private)
	return err
}

func (d *Device) accept(ctx context.Context, cfg *rdmap.DeviceConfig, st *rdmap.ConnectionState) error {
	r, err := await(ctx, d, d.request)
	if err != nil {
		return err
	}
	private, err := cfg.Accept(r.private)
	depth := d.depth()
	st.IRD, st.ORD = min(cfg.IRD, depth, r.ord), min(cfg.ORD, depth, r.ird)
	d.reply <- reply{request{append(bytes.Clone(private), make([]byte, replyPrivate-len(private))...), st.IRD, st.ORD}, err != nil}
	if err != nil {
		return &verbs.ConnError{Op: "handshake", Err: err}
	}
	return nil
}

// await returns what the peer says first.
func await[T any](ctx context.Context, d *Device, said <-chan T) (v T, err error) {
	for {
		select {
		case v = <-said:
			return v, nil
		case <-d.peer.over:
			select {
			case v = <-said: // its last word
				return v, nil
			default:
			}
			return v, &verbs.ConnError{Op: "handshake", Err: io.EOF}
		case <-d.wake:
			if err := d.Err(); err != nil {
				return v, err
			}
		case <-ctx.Done():
			return v, &verbs.ConnError{Op: "handshake", Err: ctx.Err()}
		}
	}
}

// Refuse implements rdmap.Device.
func (d *Device) Refuse(private []byte) {
	d.reply <- reply{request{private: append(bytes.Clone(private), make([]byte, replyPrivate-len(private))...)}, true}
	d.End(verbs.ErrClosed, false)
}

// PostRecv implements rdmap.Device.
func (d *Device) PostRecv(n int) {
	d.mu.Lock()
	d.recvs += n
	d.mu.Unlock()
	hint(d.peer.kick) // it may wait with a Send
}

// Mute makes the cards of both ends do nothing more, as if their network had failed in a way that none of them notices.
func (d *Device) Mute() {
	for _, d := range [...]*Device{d, d.peer} {
		d.mu.Lock()
		d.mute = true
		d.mu.Unlock()
	}
}

// LimitORD implements rdmap.Device: one request at a time is carried out anyway.
func (d *Device) LimitORD(int) {}

// Post implements rdmap.Device.
func (d *Device) Post(wrs []verbs.WR) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return d.err
	}
	for _, wr := range wrs {
		if n := len(wr.Head) + len(wr.Body); n <= verbs.CopyLimit {
			wr.Head, wr.Body = append(append(make([]byte, 0, n), wr.Head...), wr.Body...), nil
		} else {
			wr.Head = bytes.Clone(wr.Head)
		}
		d.sq = append(d.sq, work{wr: wr})
	}
	hint(d.kick)
	return nil
}

// End implements rdmap.Device.
func (d *Device) End(err error, graceful bool) {
	d.mu.Lock()
	first := d.err == nil
	if first {
		d.err = err
	}
	d.draining = first && graceful || d.draining && graceful
	d.down = d.down || !d.draining
	unborn := first && d.cfg == nil
	d.mu.Unlock()
	if unborn {
		close(d.over)
	}
	hint(d.kick)
	hint(d.wake)
}

// ended tells this end that the peer's is gone, behind what the peer has sent.
func (d *Device) ended() {
	d.mu.Lock()
	d.events = append(d.events, event{end: true})
	d.mu.Unlock()
	hint(d.wake)
}

func hint(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run is the card: it carries out what is posted, and flushes it at the end.
func (d *Device) run() {
	for {
		d.mu.Lock()
		switch {
		case d.down || d.draining && len(d.sq) == 0:
			for _, w := range d.sq {
				d.complete(w, d.err)
			}
			d.sq, d.down, d.stopped = nil, true, true
			d.mu.Unlock()
			d.peer.ended()
			hint(d.wake)
			return
		case len(d.sq) == 0 || d.mute:
			d.mu.Unlock()
			<-d.kick
			continue
		}
		w := d.sq[0]
		d.mu.Unlock()
		done, err := d.execute(&w)
		if err != nil {
			d.End(err, false)
			continue
		}
		if !done {
			<-d.kick
			continue
		}
		d.mu.Lock()
		d.sq = d.sq[1:]
		d.complete(w, nil)
		d.mu.Unlock()
		hint(d.wake)
	}
}

// complete notes that w is over. The caller holds mu.
func (d *Device) complete(w work, err error) {
	if w.drop != nil {
		w.drop.end()
		return
	}
	d.events = append(d.events, event{wr: &w.wr, err: err})
}

// execute carries out w. It returns false if that has to wait for the peer.
func (d *Device) execute(w *work) (done bool, err error) {
	if w.drop != nil {
		return true, nil
	}
	wr, p := &w.wr, d.peer
	data := append(bytes.Clone(wr.Head), wr.Body...)
	switch {
	case wr.Op == verbs.OpWrite && len(data) == 0:
	case wr.Op == verbs.OpWrite:
		n, to, err := p.reach(wr.STag, wr.TO, len(data), region.RemoteWrite)
		if err != nil || n == nil {
			return false, err
		}
		if d.card.Held != nil {
			d.card.Held()
		}
		copy(to, data)
		p.leave(n)
	case wr.Op == verbs.OpReadRequest:
		v, err := d.cfg.Table.Lookup(wr.Sink, wr.SinkTO, wr.Len, region.ReadSink)
		if err != nil {
			return false, &verbs.LocalError{Err: fmt.Errorf("%w: %w", verbs.ErrSinkLost, err)}
		}
		defer v.Release()
		n, from, err := p.reach(wr.STag, wr.TO, int(wr.Len), region.RemoteRead)
		if err != nil || n == nil {
			return false, err
		}
		if d.card.Held != nil {
			d.card.Held()
		}
		err = v.CopyIn(from)
		p.leave(n)
		p.mu.Lock()
		p.stats.ReadsIn++ // more than a card tells
		p.mu.Unlock()
		if err != nil {
			return false, err
		}
	default:
		if done, err := p.receive(wr, data); !done {
			return false, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &d.stats
	s.MessagesOut[wr.Op]++
	switch n := uint64(len(data)); {
	case wr.Op == verbs.OpReadRequest:
		s.ReadsOut++
		s.ReadOctetsIn += uint64(wr.Len)
		s.OctetsIn += uint64(wr.Len)
	case wr.Op == verbs.OpWrite:
		s.WriteOctetsOut += n
		s.OctetsOut += n
	default:
		s.SendsOut++
		s.OctetsOut += n
	}
	return true, nil
}

// remote is the error of a card whose peer has refused to have its memory touched.
func remote(format string, args ...any) error {
	return &verbs.ConnError{Op: "complete", Err: fmt.Errorf("remote access error: "+format, args...)}
}

// reach finds n octets of this end for the peer, which calls leave. The name is nil if this end is down: then the peer
// will hear of that.
func (d *Device) reach(stag region.STag, to uint64, n int, need region.Access) (*name, []byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down {
		return nil, nil, nil
	}
	m := d.names[stag]
	switch {
	case m == nil:
		return nil, nil, remote("STag %v", stag)
	case m.access&need == 0:
		return nil, nil, remote("STag %v has the rights %v", stag, m.access)
	case to < m.base || to-m.base > uint64(len(m.mem)) || uint64(n) > uint64(len(m.mem))-(to-m.base):
		return nil, nil, remote("%d octets at %#x of %d at %#x", n, to, len(m.mem), m.base)
	}
	m.users++
	off := to - m.base
	return m, m.mem[off : off+uint64(n)], nil
}

func (d *Device) leave(m *name) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m.users--
	m.check()
}

// receive takes a Send, if a receive is posted.
func (d *Device) receive(wr *verbs.WR, data []byte) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.cfg == nil || d.down || d.recvs == 0:
		return false, nil
	case len(data) > d.cfg.RecvSize:
		return false, remote("a Send of %d octets for a receive of %d", len(data), d.cfg.RecvSize)
	}
	m := &verbs.Message{Op: wr.Op, Data: data, Solicited: wr.Op.Solicited()}
	if wr.Op.Invalidates() {
		n := d.names[wr.STag]
		if n == nil || !d.card.Windows || n.access&region.RemoteInvalidate == 0 {
			return false, remote("STag %v cannot be invalidated", wr.STag)
		}
		n.end()
		m.Invalidated = wr.STag
	}
	d.recvs--
	d.stats.SendsIn++
	d.stats.MessagesIn[wr.Op]++
	d.stats.OctetsIn += uint64(len(data))
	d.events = append(d.events, event{message: m})
	hint(d.wake)
	return true, nil
}

// Serve implements rdmap.Device.
func (d *Device) Serve() error {
	for {
		d.mu.Lock()
		if len(d.events) == 0 {
			if d.stopped {
				break
			}
			d.mu.Unlock()
			d.cfg.Idle()
			<-d.wake
			continue
		}
		ev := d.events[0]
		d.events = d.events[1:]
		d.mu.Unlock()
		switch {
		case ev.message != nil:
			d.cfg.Message(ev.message)
		case ev.end:
			d.End(&verbs.ConnError{Op: "read", Err: io.EOF}, false)
		default:
			d.cfg.Completed(ev.wr, ev.err)
		}
	}
	// The peer's card may be in the middle of a copy.
	for _, n := range d.names {
		n.end()
		d.mu.Unlock()
		<-n.free
		d.mu.Lock()
	}
	err := d.err
	d.mu.Unlock()
	d.cfg.Closed(err)
	close(d.over)
	return err
}

// Name implements region.Namer.
func (d *Device) Name(mem []byte, access region.Access) (region.Named, error) {
	if access&^(region.RemoteRead|region.RemoteWrite|region.RemoteInvalidate|region.ReadSink|region.Scratch) != 0 {
		return nil, region.ErrRights
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return nil, region.ErrClosed
	}
	d.next += 0x10001
	n := &name{d: d, stag: region.STag(0x5a000000 + d.next), base: uint64(d.next)<<16 | 0x7d31, mem: mem, access: access, free: make(chan struct{})}
	d.names[n.stag] = n
	return n, nil
}

// STag implements region.Named.
func (n *name) STag() region.STag { return n.stag }

// Base implements region.Named.
func (n *name) Base() uint64 { return n.base }

// Drop implements region.Named. A window is taken back by a work request.
func (n *name) Drop(ctx context.Context) error {
	d := n.d
	d.mu.Lock()
	if !n.dropped {
		n.dropped = true
		if d.card.Windows && !n.gone && !d.stopped {
			d.sq = append(d.sq, work{drop: n})
			hint(d.kick)
		} else {
			n.end()
		}
	}
	d.mu.Unlock()
	select {
	case <-n.free:
		return nil
	default:
	}
	select {
	case <-n.free:
		return nil
	case <-ctx.Done():
		return region.ErrPinned
	}
}

// end takes the name back. The caller holds mu.
func (n *name) end() {
	if !n.gone {
		n.gone = true
		delete(n.d.names, n.stag)
		n.check()
	}
}

// check notes that nobody touches the memory. The caller holds mu.
func (n *name) check() {
	if n.gone && n.users == 0 {
		close(n.free)
	}
}

// DeviceListener accepts connections of cards in this process.
type DeviceListener struct {
	card  Card
	addr  *net.TCPAddr
	queue chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// Listen returns a listener at addr, a name that only Dial knows.
func (c Card) Listen(addr *net.TCPAddr) *DeviceListener {
	return &DeviceListener{card: c, addr: addr, queue: make(chan net.Conn, 128), done: make(chan struct{})}
}

// Dial returns the initiator's end of a connection from an address.
func (l *DeviceListener) Dial(from net.Addr) (*Device, error) {
	select {
	case <-l.done:
		return nil, &net.OpError{Op: "dial", Net: "rdma", Addr: l.addr, Err: net.ErrClosed}
	default:
	}
	a, _ := l.card.devices(from, l.addr, func(b *Device) {
		select {
		case <-l.done:
			b.Refuse(nil)
		case l.queue <- b:
		}
	})
	return a, nil
}

// Accept implements net.Listener. What it returns is a Device.
func (l *DeviceListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *DeviceListener) Close() error {
	l.once.Do(func() { close(l.done) })
	for {
		select {
		case c := <-l.queue:
			c.(*Device).Refuse(nil)
		default:
			return nil
		}
	}
}

// Addr implements net.Listener.
func (l *DeviceListener) Addr() net.Addr { return l.addr }
