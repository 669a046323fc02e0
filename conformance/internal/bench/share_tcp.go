package bench

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The baseline of sameConn: what an engine does, on plain TCP, with as little code as possible. A request is
// sendSize octets, the first of which says what it is. The answer to a ping is of the same size, that to a
// pull is bulkSize octets in parts of shareBatch; a word before each part says how many octets follow.

const (
	askPing = 0
	askPull = 1
)

// muxer answers the requests of one connection: pings go before the next part of a pull.
type muxer struct {
	mu    sync.Mutex
	due   sync.Cond
	pings int
	parts int // of pulls
	over  bool
}

func serveMux(c net.Conn) {
	defer c.Close()
	m := new(muxer)
	m.due.L = &m.mu
	go m.write(c)
	req := make([]byte, sendSize)
	for {
		_, err := io.ReadFull(c, req)
		m.mu.Lock()
		switch {
		case err != nil:
			m.over = true
		case req[0] == askPing:
			m.pings++
		default:
			m.parts += bulkSize / shareBatch
		}
		m.mu.Unlock()
		if m.due.Signal(); err != nil {
			return
		}
	}
}

func (m *muxer) write(c net.Conn) {
	pong := binary.BigEndian.AppendUint32(nil, sendSize)
	pong = append(pong, make([]byte, sendSize)...)
	part := binary.BigEndian.AppendUint32(nil, shareBatch)
	for {
		pings, more, ok := m.next()
		if !ok {
			return
		}
		out := net.Buffers{slices.Repeat(pong, pings)}
		if more {
			out = append(out, part, targetMemory[:shareBatch])
		}
		if _, err := out.WriteTo(c); err != nil {
			return // the reader sees it too
		}
	}
}

// next waits for something to write.
func (m *muxer) next() (pings int, part, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.pings+m.parts == 0 && !m.over {
		m.due.Wait()
	}
	pings, part = m.pings, m.parts > 0
	if m.pings = 0; part {
		m.parts--
	}
	return pings, part, !m.over
}

// muxed is the near end.
type muxed struct {
	c     net.Conn
	mu    sync.Mutex
	pongs chan struct{}
}

func (m *muxed) ask(what byte) error {
	req := [sendSize]byte{what}
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.c.Write(req[:])
	return err
}

// read takes the answers, and requests one more pull for each that is complete.
func (m *muxed) read(octets *atomic.Int64) error {
	defer close(m.pongs)
	buf := make([]byte, shareBatch)
	for parts := 0; ; {
		if _, err := io.ReadFull(m.c, buf[:4]); err != nil {
			return err
		}
		n := min(binary.BigEndian.Uint32(buf), shareBatch)
		if _, err := io.ReadFull(m.c, buf[:n]); err != nil {
			return err
		}
		if n == sendSize {
			m.pongs <- struct{}{}
			continue
		}
		octets.Add(int64(n))
		if parts++; parts%(bulkSize/shareBatch) == 0 {
			if err := m.ask(askPull); err != nil {
				return err
			}
		}
	}
}

// sameTCP returns the 99th percentile of round trips beside a bulk stream on the same plain TCP connection,
// in microseconds.
func sameTCP(addr string, dur time.Duration) (slowest float64, err error) {
	c, err := dial(addr)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	m := &muxed{c: c, pongs: make(chan struct{}, 1)}
	var octets atomic.Int64
	go func() { _ = m.read(&octets) }() // its end closes pongs
	for range shareDepth {
		if err := m.ask(askPull); err != nil {
			return 0, err
		}
	}
	var rtt []float64
	for start := time.Now(); time.Since(start) < dur; {
		begin := time.Now()
		if err := m.ask(askPing); err != nil {
			return 0, err
		}
		if _, ok := <-m.pongs; !ok {
			return 0, io.ErrUnexpectedEOF
		}
		rtt = append(rtt, float64(time.Since(begin).Nanoseconds())/1e3)
	}
	slices.Sort(rtt)
	return rtt[len(rtt)*99/100], nil
}
