package bench

import (
	"io"
	"net"
	"time"
)

// bareProducer appends to a serveBare, over a connection of its own.
type bareProducer struct {
	net.Conn
	out, in []byte
}

// dialBare opens a session at addr. It returns when the file of the session exists.
func dialBare(addr string, poll bool) (*bareProducer, error) {
	c, err := dial(addr)
	if err != nil {
		return nil, err
	}
	if poll {
		c = looking(c)
	}
	p := &bareProducer{Conn: c, out: make([]byte, commitPayload), in: make([]byte, commitReply)}
	if err := p.append(); err != nil {
		c.Close()
		return nil, err
	}
	return p, nil
}

func (p *bareProducer) append() error {
	if _, err := p.Write(p.out); err != nil {
		return err
	}
	_, err := io.ReadFull(p, p.in)
	return err
}

// bareRate is appendRate with an fdatasync for every append: k producers, each with a plain TCP connection
// and, at the other end, a file.
func bareRate(addr string, poll bool, k int, dur time.Duration) (float64, error) {
	ps := make([]*bareProducer, k)
	for i := range ps {
		p, err := dialBare(addr, poll)
		if err != nil {
			return 0, err
		}
		defer p.Close()
		ps[i] = p
	}
	return writers(k, dur, func(i int) error { return ps[i].append() })
}
