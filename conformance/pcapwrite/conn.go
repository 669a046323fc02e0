package pcapwrite

import (
	"net/netip"

	"github.com/gopacket/gopacket/layers"
)

// Dir is the direction of octets on a connection.
type Dir uint8

const (
	ToServer Dir = iota // from the side that opened the connection
	ToClient            // from the side that accepted it
)

// A Conn is one synthetic TCP connection in a capture. It is safe for concurrent use; the order
// of the calls is the order of the packets.
type Conn struct {
	w      *Writer
	ends   [2]netip.AddrPort // indexed by Dir: who sends in that direction
	seq    [2]uint32         // next sequence number of each direction
	closed [2]bool
}

// Conn begins a connection from client to server with the three packets of TCP's handshake.
func (w *Writer) Conn(client, server netip.AddrPort) *Conn {
	c := &Conn{w: w, ends: [2]netip.AddrPort{client, server}, seq: [2]uint32{1000, 2000}}
	w.mu.Lock()
	defer w.mu.Unlock()
	mss := []layers.TCPOption{{OptionType: layers.TCPOptionKindMSS, OptionLength: 4, OptionData: []byte{0x05, 0xb4}}}
	c.send(ToServer, &layers.TCP{SYN: true, Options: mss}, nil)
	c.send(ToClient, &layers.TCP{SYN: true, ACK: true, Options: mss}, nil)
	c.send(ToServer, &layers.TCP{ACK: true}, nil)
	return c
}

// Write appends p to the stream of direction dir, in packets of at most 65,483 octets. It borrows
// p. It returns the first error of the file, if any; octets behind a Close are dropped.
func (c *Conn) Write(dir Dir, p []byte) error {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	for len(p) > 0 && !c.closed[dir] {
		n := min(len(p), maxSegment)
		c.send(dir, &layers.TCP{ACK: true, PSH: n == len(p)}, p[:n])
		p = p[n:]
	}
	return c.w.err
}

// CloseWrite ends the stream of direction dir with a FIN. Calls after the first do nothing.
func (c *Conn) CloseWrite(dir Dir) error {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if !c.closed[dir] {
		c.closed[dir] = true
		c.send(dir, &layers.TCP{ACK: true, FIN: true}, nil)
	}
	return c.w.err
}

// Close ends both streams, the client's first.
func (c *Conn) Close() error {
	_ = c.CloseWrite(ToServer) // the same error comes from the next call
	return c.CloseWrite(ToClient)
}

// send writes one packet and advances the sequence number. The caller holds the writer's lock.
func (c *Conn) send(dir Dir, tcp *layers.TCP, payload []byte) {
	tcp.Seq, tcp.Window = c.seq[dir], 65535
	if tcp.ACK {
		tcp.Ack = c.seq[1-dir]
	}
	c.w.packet(c.ends[dir], c.ends[1-dir], tcp, payload)
	c.seq[dir] += uint32(len(payload))
	if tcp.SYN || tcp.FIN {
		c.seq[dir]++
	}
}
