package bench

import (
	"context"
	"net"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

const (
	noticeTimes = 10
	noticeLimit = 100 // ms
	restLong    = 200 * time.Millisecond
)

// Ways in which a peer ends a connection.
func hangUp(_ *rdmap.Conn, nc net.Conn)   { _ = nc.(*net.TCPConn).CloseWrite() } // the other end sees what it does
func terminate(c *rdmap.Conn, _ net.Conn) { c.Terminate(verbs.TermCode{}, nil) }

// noticed returns the longest time, in milliseconds, in which a client that nobody waits on notices that its
// peer ends the connection; rest is the time since its last call.
func noticed(rest time.Duration, end func(*rdmap.Conn, net.Conn)) (limit, longest float64, err error) {
	for range noticeTimes {
		took, err := notice(rest, end)
		if err != nil {
			return 0, 0, err
		}
		longest = max(longest, took.Seconds()*1e3)
	}
	return noticeLimit, longest, nil
}

func notice(rest time.Duration, end func(*rdmap.Conn, net.Conn)) (time.Duration, error) {
	a, b, err := tcpPair()
	if err != nil {
		return 0, err
	}
	s := new(stream)
	s.over = make(chan struct{})
	from, to, err := connect(a, b, &rdmap.Config{Handler: s}, &rdmap.Config{Handler: new(target)})
	if err != nil {
		return 0, err
	}
	defer from.Close()
	defer to.Close()
	go func() { _ = to.Serve() }() // ends with the connection
	s.c = from
	if err := s.ping(); err != nil {
		return 0, err
	}
	time.Sleep(rest)
	start := time.Now()
	end(to, b)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	select {
	case <-s.over:
		return time.Since(start), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
