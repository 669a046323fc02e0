package bench

import (
	"fmt"
	"io"
	"net"
	"time"
)

// tcpPair returns the two ends of a loopback connection.
func tcpPair() (a, b net.Conn, err error) {
	l, err := listen()
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	type accepted struct {
		c   net.Conn
		err error
	}
	ch := make(chan accepted, 1)
	go func() {
		c, err := l.Accept()
		ch <- accepted{c, err}
	}()
	if a, err = dial(l.Addr().String()); err != nil {
		return nil, nil, err
	}
	got := <-ch
	return a, got.c, got.err
}

// rawBulk writes total octets in writes of bulkSize and returns MB/s, timed until the reader has them all.
func rawBulk(total int) (float64, error) {
	const size = bulkSize
	a, b, err := tcpPair()
	if err != nil {
		return 0, err
	}
	defer a.Close()
	defer b.Close()
	done := make(chan error, 1)
	go func() {
		buf := make([]byte, size)
		for n := 0; n < total; {
			k, err := b.Read(buf)
			if n += k; err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	buf := make([]byte, size)
	start := time.Now()
	for n := 0; n < total; n += size {
		if _, err := a.Write(buf); err != nil {
			return 0, err
		}
	}
	if err := <-done; err != nil {
		return 0, err
	}
	return float64(total) / time.Since(start).Seconds() / 1e6, nil
}

// serveEcho answers every request of req octets with rep octets.
func serveEcho(c net.Conn, req, rep int) {
	defer c.Close()
	in, out := make([]byte, req), make([]byte, rep)
	for {
		if _, err := io.ReadFull(c, in); err != nil {
			return
		}
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

// pingPong returns the median round trip in microseconds of n exchanges.
func pingPong(c net.Conn, req, rep, n int) (float64, error) {
	out, in := make([]byte, req), make([]byte, rep)
	rtt := make([]float64, n)
	for i := range rtt {
		start := time.Now()
		if _, err := c.Write(out); err != nil {
			return 0, err
		}
		if _, err := io.ReadFull(c, in); err != nil {
			return 0, fmt.Errorf("bench: echo: %w", err)
		}
		rtt[i] = float64(time.Since(start).Nanoseconds()) / 1e3
	}
	return median(rtt), nil
}
