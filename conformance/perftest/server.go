package perftest

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

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
)

// Server answers perftest clients, one after the other, as perftest does.
type Server struct {
	CRC     rdmap.CRCMode
	Tests   int           // stop after so many; 0: never
	Timeout time.Duration // limit of one test; 0: one minute
	// Report is called at the end of each test; may be nil.
	Report func(Result)
}

// Result is the end of one test.
type Result struct {
	Remote net.Addr
	State  rdmap.ConnectionState // of the second connection
	// What the client did on it.
	Sends         uint64 // answered
	Written, Read uint64 // octets, by RDMA Write and RDMA Read
	Err           error  // nil: the client ended the test, and did what it said
}

// Serve accepts connections of l, and closes l, until Tests have ended, ctx is over or
// l fails. It returns nil, or the error of l. The end of ctx ends the connections and is
// no error.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	defer l.Close()
	for n := 0; s.Tests == 0 || n < s.Tests; n++ {
		nc, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil && errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		r := s.serve(ctx, l, nc)
		if s.Report != nil {
			s.Report(r)
		}
	}
	return nil
}

// serve runs one test.
func (s *Server) serve(ctx context.Context, l net.Listener, nc net.Conn) Result {
	limit := s.Timeout
	if limit == 0 {
		limit = time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	x := &session{crc: s.CRC, l: l, control: rdmap.Server(nc, config(s.CRC, 0))}
	defer x.close()
	err := x.run(ctx)
	r := Result{Remote: nc.RemoteAddr(), Err: err}
	if x.data != nil {
		st := x.data.Stats()
		r.State, r.Sends, r.Written, r.Read = x.data.ConnectionState(), st.SendsOut, st.WriteOctetsIn, st.ReadOctetsOut
	}
	if want := x.size * x.count; r.Err == nil && x.results > 0 && r.Written != want && r.Read != want {
		r.Err = fmt.Errorf("%w: %d octets written, %d read, want %d times %d", ErrProtocol, r.Written, r.Read, x.count, x.size)
	}
	return r
}

// session is one test at the server.
type session struct {
	crc           rdmap.CRCMode
	l             net.Listener
	control, data *rdmap.Conn
	rkey          region.STag
	greeted       bool // the conversation before the second connection is over
	dests         int  // Dests that were no zeros
	results       int  // messages of 8 octets
	over          bool // the last message has come
	echoes        sync.WaitGroup
	size, count   uint64
}

func (x *session) close() {
	for _, c := range []*rdmap.Conn{x.control, x.data} {
		if c != nil {
			_ = c.Close() // with what it ended with: the client's end
		}
	}
	x.echoes.Wait()
}

// run answers the control connection up to the last message, then waits for the other
// one to end, by when all its octets are here.
func (x *session) run(ctx context.Context) error {
	if err := x.control.Handshake(ctx); err != nil {
		return err
	}
	for !x.over {
		m, err := x.control.Recv(ctx)
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		p, err := x.answer(m.Data)
		if err == nil {
			err = x.control.Send(ctx, p)
		}
		if err == nil && x.greeted && x.data == nil {
			err = x.accept(ctx)
		}
		if err != nil {
			return err
		}
	}
	return x.finish(ctx)
}

// answer returns the answer to one message. Most messages are their own.
func (x *session) answer(p []byte) ([]byte, error) {
	switch len(p) {
	case 2, 4, 16:
		return p, nil
	case 8:
		x.result(binary.BigEndian.Uint64(p))
		return p, nil
	}
	d, err := ParseDest(p)
	if err != nil || bytes.Equal(p, make([]byte, DestLen)) {
		x.greeted = true
		return p, err
	}
	x.dests++
	x.over = x.results > 0 || x.dests > SendLat.exchanges() // others have results by then
	d.RKey, d.VAddr = x.rkey, 0
	return d.Append(nil), nil
}

// result takes the messages after the test: size, count, and others.
func (x *session) result(v uint64) {
	switch x.results {
	case 0:
		x.size = v
	case 1:
		x.count = v
	}
	x.results++
}

// accept takes the second connection, makes its buffer and answers what is sent there.
func (x *session) accept(ctx context.Context) error {
	if d, ok := x.l.(interface{ SetDeadline(t time.Time) error }); ok {
		end, _ := ctx.Deadline()
		if err := d.SetDeadline(end); err != nil {
			return err
		}
		defer func() { _ = d.SetDeadline(time.Time{}) }()
	}
	nc, err := x.l.Accept()
	if err != nil {
		return err
	}
	c := rdmap.Server(nc, config(x.crc, depth))
	x.data = c
	if err := c.Handshake(ctx); err != nil {
		return err
	}
	// perftest uses as much as two messages, and a page at least.
	r, err := c.Register(make([]byte, 2*MaxSize), region.RemoteRead|region.RemoteWrite)
	if err != nil {
		return err
	}
	x.rkey = r.STag()
	x.echoes.Go(func() { echo(ctx, c) })
	return nil
}

// echo answers every Send with one of as many octets, until c ends.
func echo(ctx context.Context, c *rdmap.Conn) {
	for {
		m, err := c.Recv(ctx)
		if err != nil || c.Send(ctx, m.Data) != nil {
			return
		}
	}
}

// finish waits for the client's end of the second connection.
func (x *session) finish(ctx context.Context) error {
	select {
	case <-x.data.Done():
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := x.data.Err(); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}
