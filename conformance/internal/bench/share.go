package bench

import (
	"net"
	"slices"
	"sync/atomic"
	"time"
)

const (
	shareDepth = 8         // Reads of the bulk stream in flight
	shareBatch = 512 << 10 // octets that the engine writes at a time
	sharePart  = 3         // batches that a ping-pong may take
)

// pull is a bulk stream from the server: it counts its octets until stop is closed.
type pull func(octets *atomic.Int64, stop <-chan struct{}) error

// sameConn returns the 99th percentile of round trips beside a bulk stream on the same connection, and the
// time of sharePart batches of that stream, in microseconds.
func sameConn(p ScalePeer, dur time.Duration) (batches, slowest float64, err error) {
	s, err := dialTarget(nil, p.Target)
	if err != nil {
		return 0, 0, err
	}
	defer s.c.Close()
	slowest, rate, err := beside(s, s.pull, dur)
	return sharePart * shareBatch / rate * 1e6, slowest, err
}

// sameConnTCP returns that percentile beside a bulk stream on the same connection, for stag and for plain
// TCP.
func sameConnTCP(p ScalePeer, dur time.Duration) (tcp, ours float64, err error) {
	if tcp, err = sameTCP(p.Mux, dur); err != nil {
		return 0, 0, err
	}
	_, ours, err = sameConn(p, dur)
	return tcp, ours, err
}

// otherConn returns the same beside a bulk stream of stag on another connection, and beside one of plain
// TCP: both keep two processors busy.
func otherConn(p ScalePeer, dur time.Duration) (tcp, ours float64, err error) {
	s, err := dialTarget(nil, p.Target)
	if err != nil {
		return 0, 0, err
	}
	defer s.c.Close()
	c, err := dial(p.Zeros)
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	if tcp, _, err = beside(s, pullZeros(c), dur); err != nil {
		return 0, 0, err
	}
	bulk, err := dialTarget(nil, p.Target)
	if err != nil {
		return 0, 0, err
	}
	defer bulk.c.Close()
	ours, _, err = beside(s, bulk.pull, dur)
	return tcp, ours, err
}

// beside pings on s for dur while bulk runs. It returns the 99th percentile in
// microseconds, and the rate of bulk in octets a second.
func beside(s *stream, bulk pull, dur time.Duration) (slowest, rate float64, err error) {
	var octets atomic.Int64
	stop, ended := make(chan struct{}), make(chan error, 1)
	start := time.Now()
	go func() { ended <- bulk(&octets, stop) }()
	rtt, err := s.pings(dur)
	close(stop)
	if e := <-ended; err == nil {
		err = e
	}
	if err != nil {
		return 0, 0, err
	}
	slices.Sort(rtt)
	return rtt[len(rtt)*99/100], float64(octets.Load()) / time.Since(start).Seconds(), nil
}

// pullZeros is the bulk stream of plain TCP. It ends c.
func pullZeros(c net.Conn) pull {
	return func(octets *atomic.Int64, stop <-chan struct{}) error {
		go func() {
			<-stop
			c.Close()
		}()
		buf := make([]byte, bulkSize)
		for {
			n, err := c.Read(buf)
			octets.Add(int64(n))
			select {
			case <-stop:
				return nil
			default:
			}
			if err != nil {
				return err
			}
		}
	}
}

// serveZeros writes until the other end closes.
func serveZeros(c net.Conn) {
	defer c.Close()
	zeros := make([]byte, bulkSize)
	for {
		if _, err := c.Write(zeros); err != nil {
			return
		}
	}
}
