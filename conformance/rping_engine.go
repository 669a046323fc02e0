package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/stag-rdma/stag/internal/accept"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// The protocol of rping, the program of rdma-core that tries out RDMA connections, on the engine of package rdmap: Sends,
// Reads and Writes against other implementations of iWARP, in both roles. A ping, as seen in testdata/pcaps/a-rping.pcap:
//
//	client                          server
//	Send: source buffer       ──>
//	                          <──   RDMA Read of the source
//	                          <──   Send: go ahead
//	Send: sink buffer         ──>
//	                          <──   RDMA Write of what was read, into the sink
//	                          <──   Send: go ahead
//	compares sink with source
//
// Every Send carries a pingInfo of 16 octets; those of the server are empty. The client repeats this as often as it likes,
// and closes the connection. So a ping needs an IRD and an ORD of one, and the server learns the size from the client.
//
// Against rping itself:
//
//	rping -s -P -a ADDRESS -p PORT -S SIZE          conformance rping client
//	rping -c -a ADDRESS -p PORT -S SIZE -C N -V     conformance rping server

// errPing is wrapped by the errors of sendPings, echoPings and parseInfo if the peer violated rping's protocol.
var errPing = errors.New("rping: not rping's protocol")

// errPingData is wrapped by the error of sendPings if octets other than those sent came back.
var errPingData = errors.New("rping: other data came back")

// sendPings runs the client on c, whose handshake is done: count pings of size octets, 1 to maxPing. It compares every octet that
// comes back. The error is that of c or ctx, or wraps errPingData or errPing. sendPings does not close c.
func sendPings(ctx context.Context, c *rdmap.Conn, size, count int) error {
	p := pinger{c: c, source: make([]byte, size), sink: make([]byte, size)}
	from, err := c.Register(p.source, region.RemoteRead)
	if err != nil {
		return err
	}
	defer from.Revoke()
	to, err := c.Register(p.sink, region.RemoteWrite)
	if err != nil {
		return err
	}
	defer to.Revoke()
	for i := range count {
		fill(p.source, i)
		clear(p.sink)
		if err := p.ping(ctx, from.STag(), to.STag()); err != nil {
			return fmt.Errorf("ping %d: %w", i+1, err)
		}
	}
	return nil
}

// pinger is the client on one connection.
type pinger struct {
	c            *rdmap.Conn
	source, sink []byte
}

// ping is one round.
func (p *pinger) ping(ctx context.Context, from, to region.STag) error {
	for _, stag := range []region.STag{from, to} {
		if err := p.advertise(ctx, stag); err != nil {
			return err
		}
	}
	if !bytes.Equal(p.sink, p.source) {
		at := 0
		for p.sink[at] == p.source[at] {
			at++
		}
		return fmt.Errorf("%w: octet %d of %d is %#02x, want %#02x", errPingData, at, len(p.sink), p.sink[at], p.source[at])
	}
	return nil
}

// advertise tells the server about a buffer and waits for its go-ahead. The offsets
// of regions start at 0.
func (p *pinger) advertise(ctx context.Context, stag region.STag) error {
	info := pingInfo{RKey: stag, Len: uint32(len(p.source))}
	if err := p.c.Send(ctx, info.Append(nil)); err != nil {
		return err
	}
	m, err := p.c.Recv(ctx)
	if err != nil {
		return err
	}
	_, err = parseInfo(m.Data)
	return err
}

// fill makes the data of ping i (from 0): text like that of rping, so that `rping -v` shows it, and
// different in every ping. The last octet ends the string.
func fill(b []byte, i int) {
	n := copy(b, fmt.Sprintf("rdma-ping-%d: ", i))
	for j := n; j < len(b)-1; j++ {
		b[j] = byte('!' + (i+j)%('~'-'!'+1))
	}
	if n < len(b) {
		b[len(b)-1] = 0
	}
}

// maxPingConns is the number of connections that Serve answers at a time; others wait in the listener's queue.
const maxPingConns = 64

// pingServer answers the connections of a listener.
type pingServer struct {
	CRC     rdmap.CRCMode
	Conns   int           // stop after this many connections; 0: never
	Timeout time.Duration // limit of one connection; 0: one minute
	// Report is called at the end of each connection, one at a time; may be nil.
	Report func(pingResult)
}

// pingResult is the end of one connection.
type pingResult struct {
	Remote net.Addr
	State  rdmap.ConnectionState
	Pings  int   // answered
	Err    error // nil: the client closed the connection between two pings
}

// Serve accepts connections of l, and closes l, until Conns have been answered, ctx is over or l fails. It
// returns when the connections have ended: nil, or the error of l. The end of ctx ends the connections and
// is not an error.
func (s *pingServer) Serve(ctx context.Context, l net.Listener) error {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	defer l.Close()
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex // one Report at a time
		busy = make(chan struct{}, maxPingConns)
	)
	defer wg.Wait()
	n := 0
	err := accept.Serve(ctx, l, func(nc net.Conn) {
		if n++; n == s.Conns {
			_ = l.Close()
		}
		busy <- struct{}{}
		wg.Go(func() {
			r := s.conn(ctx, nc)
			<-busy
			if s.Report != nil {
				mu.Lock()
				defer mu.Unlock()
				s.Report(r)
			}
		})
	})
	if errors.Is(err, net.ErrClosed) && (ctx.Err() != nil || n > 0 && n == s.Conns) {
		return nil
	}
	return err
}

// conn answers one connection.
func (s *pingServer) conn(ctx context.Context, nc net.Conn) pingResult {
	limit := s.Timeout
	if limit == 0 {
		limit = time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r := pingResult{Remote: nc.RemoteAddr()}
	c := rdmap.Server(nc, pingConfig(s.CRC))
	defer c.Close()
	if r.Err = c.Handshake(ctx); r.Err != nil {
		return r
	}
	r.State = c.ConnectionState()
	r.Pings, r.Err = echoPings(ctx, c)
	return r
}

// metError reports what was met where an rping server should be. It wraps the error that showed it.
type metError struct {
	Met string
	Err error
}

// Error says what was met.
func (e *metError) Error() string { return "rping: met " + e.Met }

// Unwrap returns Err.
func (e *metError) Unwrap() error { return e.Err }

// witness keeps the first octets that a connection reads.
type witness struct {
	net.Conn
	first []byte
}

func (w *witness) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.first = append(w.first, b[:min(n, 40-len(w.first))]...)
	return n, err
}

// met says what the peer seems to be, if a handshake has failed with err.
func (w *witness) met(err error) error {
	switch {
	case errors.Is(err, mpa.ErrKey):
		return &metError{fmt.Sprintf("a peer that does not speak iWARP: it says %q", w.first), err}
	case errors.Is(err, verbs.ErrOlderPeer):
		return &metError{"a peer that closes the connection when it gets an MPA Request: it speaks another protocol, or only MPA revision 1", err}
	case len(w.first) == 0 && errors.Is(err, context.DeadlineExceeded):
		return &metError{"a peer that takes connections, but does not answer an MPA Request: it speaks another protocol, or hangs", err}
	}
	return err
}

// dialPing connects to an rping server over TCP, pings as sendPings does, and closes the connection. The state is that of the
// connection, even if a ping failed. Errors are those of the network and of sendPings, or a *metError.
func dialPing(ctx context.Context, addr string, crc rdmap.CRCMode, size, count int) (rdmap.ConnectionState, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return rdmap.ConnectionState{}, err
	}
	w := &witness{Conn: nc}
	c := rdmap.Client(w, pingConfig(crc))
	if err := c.Handshake(ctx); err != nil {
		c.Abort(err)
		<-c.Done() // nobody reads from w anymore
		return rdmap.ConnectionState{}, w.met(err)
	}
	state := c.ConnectionState()
	if err := sendPings(ctx, c, size, count); err != nil {
		c.Abort(err)
		if errors.Is(err, context.DeadlineExceeded) {
			err = &metError{"an iWARP peer that does not answer pings: is it an rping server?", err}
		}
		return state, err
	}
	return state, c.Close()
}

// echoPings runs the server on c, whose handshake is done, until the client closes the connection, and returns
// the number of pings answered. The client's close is not an error, unless it comes in the middle of a ping.
// It does not close c.
func echoPings(ctx context.Context, c *rdmap.Conn) (pings int, err error) {
	buf := make([]byte, maxPing)
	for ; ; pings++ {
		source, err := recvInfo(ctx, c)
		if errors.Is(err, io.EOF) {
			return pings, nil
		}
		if err == nil {
			err = echo(ctx, c, source, buf)
		}
		if err != nil {
			return pings, fmt.Errorf("ping %d: %w", pings+1, err)
		}
	}
}

// echo answers one ping whose first message has been read.
func echo(ctx context.Context, c *rdmap.Conn, source pingInfo, buf []byte) error {
	data, err := slice(buf, source)
	if err != nil {
		return err
	}
	if err := c.Read(ctx, data, source.RKey, source.Addr); err != nil {
		return err
	}
	if err := c.Send(ctx, pingInfo{}.Append(nil)); err != nil {
		return err
	}
	sink, err := recvInfo(ctx, c)
	if err != nil {
		return err
	}
	if sink.Len != source.Len {
		return fmt.Errorf("%w: a sink of %d octets for a source of %d", errPing, sink.Len, source.Len)
	}
	if err := c.Write(ctx, data, sink.RKey, sink.Addr); err != nil {
		return err
	}
	return c.Send(ctx, pingInfo{}.Append(nil))
}

// slice returns the part of buf that has the size of a buffer of the client.
func slice(buf []byte, info pingInfo) ([]byte, error) {
	if info.Len == 0 || uint64(info.Len) > uint64(len(buf)) {
		return nil, fmt.Errorf("%w: a buffer of %d octets, want 1 to %d", errPing, info.Len, len(buf))
	}
	return buf[:info.Len], nil
}

func recvInfo(ctx context.Context, c *rdmap.Conn) (pingInfo, error) {
	m, err := c.Recv(ctx)
	if err != nil {
		return pingInfo{}, err
	}
	return parseInfo(m.Data)
}

// infoLen is the size of a pingInfo on the wire, octets.
const infoLen = 16

// maxPing is the largest ping, octets; the limit of rping is the same.
const maxPing = 64 << 10

// pingInfo is the content of every Send, in network byte order:
//
//	octets 0-7    Addr  tagged offset of the buffer
//	octets 8-11   RKey  its STag
//	octets 12-15  Len   octets
//
// Those of the server are zero: they only mean "go ahead".
type pingInfo struct {
	Addr uint64
	RKey region.STag
	Len  uint32
}

// Append appends the 16 octets of i to b.
func (i pingInfo) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, i.Addr)
	b = binary.BigEndian.AppendUint32(b, uint32(i.RKey))
	return binary.BigEndian.AppendUint32(b, i.Len)
}

// parseInfo reads a pingInfo. The error wraps errPing: b does not have 16 octets.
func parseInfo(b []byte) (pingInfo, error) {
	if len(b) != infoLen {
		return pingInfo{}, fmt.Errorf("%w: a message of %d octets, want %d", errPing, len(b), infoLen)
	}
	return pingInfo{
		Addr: binary.BigEndian.Uint64(b),
		RKey: region.STag(binary.BigEndian.Uint32(b[8:])),
		Len:  binary.BigEndian.Uint32(b[12:]),
	}, nil
}

// pingConfig returns the settings of a connection on which rping runs: IRD and ORD 1 as
// rping asks for them, messages of 16 octets, no private data.
func pingConfig(crc rdmap.CRCMode) *rdmap.Config {
	return &rdmap.Config{Startup: rdmap.Startup{CRC: crc, IRD: 1, ORD: 1, Plain: true}, Receives: rdmap.Receives{Size: infoLen, Count: 4}}
}
