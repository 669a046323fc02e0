package capture

import "net/netip"

// Dir is the direction of octets on a connection.
type Dir uint8

const (
	ToServer Dir = iota // from the side that opened the connection
	ToClient            // from the side that accepted it
)

// Conn is one synthetic TCP connection in a capture. It is safe for concurrent use;
// the order of the calls is the order of the packets.
type Conn struct {
	w    *Writer
	ends [2]netip.AddrPort // indexed by Dir: the sender of that direction
	lost [2]uint64         // octets not recorded since the last record; under queue.mu

	// The goroutine of the Writer owns what follows.
	seq    [2]uint32 // next sequence number of each direction
	acked  [2]uint32 // what the other side has acknowledged of each direction
	closed [2]bool
}

// Conn begins a connection from client to server with the three packets of TCP's
// handshake. No two connections of a Writer begin with the same sequence numbers, so
// the same addresses may be used again.
func (w *Writer) Conn(client, server netip.AddrPort) *Conn {
	isn := w.conns.Add(1) * 1_000_003 // far apart, and easy to tell
	c := &Conn{w: w, ends: [2]netip.AddrPort{client, server}, seq: [2]uint32{isn, ^isn}}
	w.q.add(record{kind: kindOpen, c: c}, nil)
	return c
}

// Write appends p, which it borrows, to the stream of direction dir. Octets after the
// end of that stream are dropped.
func (c *Conn) Write(dir Dir, p []byte) {
	for len(p) > 0 {
		n := min(len(p), maxSegment)
		c.w.q.add(record{kind: kindData, dir: dir, c: c}, p[:n])
		p = p[n:]
	}
}

// CloseWrite ends the stream of direction dir with a FIN. Only the first call has an effect.
func (c *Conn) CloseWrite(dir Dir) { c.w.q.add(record{kind: kindFIN, dir: dir, c: c}, nil) }

// Close ends both streams, the client's first.
func (c *Conn) Close() {
	c.CloseWrite(ToServer)
	c.CloseWrite(ToClient)
}

// ackEvery is how many octets go one way before an empty packet acknowledges them, if nothing else
// goes the other way.
const ackEvery = 256 << 10

// windowScale makes the window that the packets announce 65,535 << 3 octets, more than ackEvery.
const windowScale = 3

// play writes the packets of one record, whose octets are p.
func (c *Conn) play(r *record, p []byte) {
	dir := r.dir
	switch {
	case r.kind == kindOpen:
		c.send(r, ToServer, tcpSYN, nil)
		c.send(r, ToClient, tcpSYN|tcpACK, nil)
		c.send(r, ToServer, tcpACK, nil)
		return
	case c.closed[dir]:
		return
	}
	c.seq[dir] += uint32(r.lost)
	if r.kind == kindFIN {
		c.closed[dir] = true
		c.send(r, dir, tcpACK|tcpFIN, nil)
		return
	}
	c.send(r, dir, tcpACK|tcpPSH, p)
	if c.seq[dir]-c.acked[dir] >= ackEvery && !c.closed[1-dir] {
		c.send(r, 1-dir, tcpACK, nil)
	}
}

// send writes one packet and advances the sequence number.
func (c *Conn) send(r *record, dir Dir, flags uint8, payload []byte) {
	s := segment{seq: c.seq[dir], flags: flags}
	if flags&tcpACK != 0 {
		s.ack = c.seq[1-dir]
		c.acked[1-dir] = s.ack
	}
	var room [maxHeaders]byte
	c.w.packet(r.at, s.appendHeaders(room[:0], c.ends[dir], c.ends[1-dir], payload), payload)
	c.seq[dir] += uint32(len(payload))
	if flags&(tcpSYN|tcpFIN) != 0 {
		c.seq[dir]++
	}
}
