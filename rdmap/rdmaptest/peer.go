package rdmaptest

import (
	"errors"
	"io"
	"net"

	"github.com/stag-rdma/stag/rdmap/mpa"
)

// Peer is an iWARP peer that does exactly what a test tells it to do, right or wrong. Its
// methods are for one goroutine.
type Peer struct {
	Conn net.Conn
	CRC  bool

	mark *mpa.Inserter     // nil if the other side wants no markers
	msn  map[uint32]uint32 // of the last message, by queue
	d    mpa.Deframer
	in   []byte // read, not yet returned
	buf  []byte // for Read
}

// Initiate sends a Request according to cfg and waits for the Reply.
func Initiate(c net.Conn, cfg *mpa.Config) (*Peer, *mpa.Negotiation, error) {
	m, err := mpa.NewInitiator(cfg)
	if err != nil {
		return nil, nil, err
	}
	if _, err := c.Write(m.AppendRequest(nil)); err != nil {
		return nil, nil, err
	}
	if err := frame(c, m.Input); err != nil {
		return nil, nil, err
	}
	return NewPeer(c, m.Result()), m.Result(), nil
}

// Respond waits for a Request and accepts it with privateData, which it borrows.
func Respond(c net.Conn, cfg *mpa.Config, privateData []byte) (*Peer, *mpa.Negotiation, error) {
	m, err := mpa.NewResponder(cfg)
	if err != nil {
		return nil, nil, err
	}
	if err := frame(c, m.Input); err != nil {
		return nil, nil, err
	}
	reply, err := m.Accept(nil, privateData)
	if err != nil {
		return nil, nil, err
	}
	if _, err := c.Write(reply); err != nil {
		return nil, nil, err
	}
	return NewPeer(c, m.Result()), m.Result(), nil
}

// NewPeer returns a peer on a connection whose startup the test has run itself. It uses CRC,
// SendMarkers and RecvMarkers of n.
func NewPeer(c net.Conn, n *mpa.Negotiation) *Peer {
	p := &Peer{Conn: c, CRC: n.CRC, d: mpa.Deframer{CRC: n.CRC}}
	if n.SendMarkers {
		p.mark = new(mpa.Inserter)
	}
	if n.RecvMarkers {
		p.d.ExpectMarkers()
	}
	return p
}

// frame reads octet by octet, so that it reads nothing beyond the frame.
func frame(c net.Conn, input func([]byte) (int, error)) error {
	var b []byte
	for {
		var one [1]byte
		if _, err := io.ReadFull(c, one[:]); err != nil {
			return err
		}
		b = append(b, one[0])
		if n, err := input(b); n > 0 || err != nil {
			return err
		}
	}
}

// Send writes one FPDU around ulpdu.
func (p *Peer) Send(ulpdu []byte) error {
	_, err := p.Conn.Write(p.Frame(ulpdu))
	return err
}

// Frame returns the FPDU that Send would write, for a test that damages it first. With markers,
// every FPDU that Frame returns must be written, in order. ulpdu is borrowed.
func (p *Peer) Frame(ulpdu []byte) []byte {
	if p.mark != nil {
		return p.mark.AppendFPDU(nil, ulpdu, p.CRC)
	}
	return mpa.AppendFPDU(nil, ulpdu, p.CRC)
}

// Next returns a copy of the ULPDU of the next FPDU. The error is io.EOF if the stream ends between
// two FPDUs, and io.ErrUnexpectedEOF if it ends inside one.
func (p *Peer) Next() ([]byte, error) {
	for {
		u, n, err := p.d.Next(p.in)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			u = append([]byte(nil), u...)
			p.in = p.in[n:]
			return u, nil
		}
		if p.buf == nil {
			p.buf = make([]byte, 64<<10)
		}
		n, err = p.Conn.Read(p.buf)
		p.in = append(p.in, p.buf[:n]...)
		if n == 0 {
			if errors.Is(err, io.EOF) && len(p.in) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}
