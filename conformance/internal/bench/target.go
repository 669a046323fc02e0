package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// target is the far end of streams: it answers the first message with the STag of bulkSize octets of memory,
// and every further one with itself.
type target struct{ hello []byte }

func (t *target) HandleRecv(c *rdmap.Conn, m *verbs.Message) {
	c.PostRecv(1)
	out := m.Data
	if t.hello != nil {
		out, t.hello = t.hello, nil
	}
	_ = c.Post([]verbs.WR{{Op: verbs.OpSend, Head: out}}) // a broken connection shows in Serve
}
func (t *target) HandleClose(*rdmap.Conn, error) {}

// targetMemory is what all targets expose.
var targetMemory [bulkSize]byte

func serveTarget(nc net.Conn) error {
	t := new(target)
	c := rdmap.Server(nc, &rdmap.Config{Handler: t})
	defer c.Close()
	r, err := c.Register(targetMemory[:], region.RemoteRead)
	if err != nil {
		return err
	}
	t.hello = binary.BigEndian.AppendUint32(nil, uint32(r.STag()))
	if err := c.Handshake(context.Background()); err != nil {
		return err
	}
	_ = c.Serve() // the client hangs up
	return nil
}

// stream is the near end. It waits for one answer at a time.
type stream struct {
	c    *rdmap.Conn
	stag region.STag
	w    rdmap.Waiter
	over chan struct{} // closed at the end of the connection, if not nil
}

func (s *stream) HandleRecv(c *rdmap.Conn, m *verbs.Message) {
	c.PostRecv(1)
	if s.stag == 0 {
		s.stag = region.STag(binary.BigEndian.Uint32(m.Data))
	}
	s.w.Complete(nil)
}

func (s *stream) HandleClose(*rdmap.Conn, error) {
	if s.over != nil {
		close(s.over)
	}
}

func dialTarget(from net.IP, addr string) (*stream, error) {
	nc, err := dialFrom(from, addr)
	if err != nil {
		return nil, err
	}
	s := new(stream)
	s.c = rdmap.Client(nc, &rdmap.Config{Handler: s})
	if err := s.c.Handshake(context.Background()); err != nil {
		return nil, err
	}
	if err := s.ping(); err != nil {
		s.c.Close()
		return nil, err
	}
	return s, nil
}

// ping sends a message and waits for the answer.
func (s *stream) ping() error {
	var msg [sendSize]byte
	s.w.Reset()
	if err := s.c.Post([]verbs.WR{{Op: verbs.OpSend, Head: msg[:]}}); err != nil {
		return err
	}
	return s.c.Wait(context.Background(), &s.w)
}

// pull reads the target's memory with shareDepth Reads in flight.
func (s *stream) pull(octets *atomic.Int64, stop <-chan struct{}) error {
	return each(shareDepth, shareDepth, func(int) error {
		sink := make([]byte, bulkSize)
		for {
			select {
			case <-stop:
				return nil
			default:
			}
			if err := s.c.Read(context.Background(), sink, s.stag, 0); err != nil {
				return fmt.Errorf("bulk: %w", err)
			}
			octets.Add(bulkSize)
		}
	}, nil)
}

// pings pings for dur and returns the round trips in microseconds.
func (s *stream) pings(dur time.Duration) ([]float64, error) {
	var rtt []float64
	for start := time.Now(); time.Since(start) < dur; {
		begin := time.Now()
		if err := s.ping(); err != nil {
			return nil, err
		}
		rtt = append(rtt, float64(time.Since(begin).Nanoseconds())/1e3)
	}
	return rtt, nil
}
