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
	Tests   int           // stop after this many tests; 0: never
	Timeout time.Duration // limit of one test; 0: one minute
	// Report is called at the end of each test; may be nil.
	Report func(Result)
}

// Result is the end of one test.
type Result struct {
	Remote net.Addr
	State  rdmap.ConnectionState // of the second connection
	// What the client did on that connection.
	Sends         uint64 // answered
	Written, Read uint64 // octets, by RDMA Write and RDMA Read
	Err           error  // nil: the client ended the test, and did what it had announced
}

// Serve accepts connections of l, and closes l, until Tests have ended, ctx is over or l fails. It returns
// nil, or the error of l. The end of ctx ends the connections and is not an error.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	in := accepting(l)
	defer in.close()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	var next *rdmap.Conn // came in place of a test's second connection, and is not one
	for n := 0; s.Tests == 0 || n < s.Tests; n++ {
		if next == nil {
			nc, ok := <-in.conns
			if !ok {
				if ctx.Err() != nil && errors.Is(in.err, net.ErrClosed) {
					return nil
				}
				return in.err
			}
			next = rdmap.Server(nc, config(s.CRC, 0))
		}
		x := &session{crc: s.CRC, in: in, control: next}
		r := s.serve(ctx, x)
		next = x.next
		if s.Report != nil {
			s.Report(r)
		}
	}
	if next != nil {
		next.Abort(nil)
	}
	return nil
}

// serve runs one test.
func (s *Server) serve(ctx context.Context, x *session) Result {
	limit := s.Timeout
	if limit == 0 {
		limit = time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer x.close()
	err := x.run(ctx)
	r := Result{Remote: x.control.RemoteAddr(), Err: err}
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
	in            *incoming
	control, data *rdmap.Conn
	next          *rdmap.Conn // the first connection of another client
	rkey          region.STag
	greeted       bool // the conversation before the second connection is over
	met           bool // the client has sent something after it
	dests         int  // Dests other than zeros
	results       int  // messages of 8 octets
	over          bool // the last message has come
	echoes        sync.WaitGroup
	size, count   uint64
}

func (x *session) close() {
	for _, c := range []*rdmap.Conn{x.control, x.data} {
		if c != nil {
			_ = c.Close() // the client's end says how it ended
		}
	}
	x.echoes.Wait()
}

// run answers the control connection up to the last message, then waits for the end of the other connection,
// by which all its octets have arrived.
func (x *session) run(ctx context.Context) error {
	if err := x.control.Handshake(ctx); err != nil {
		return err
	}
	for !x.over {
		m, err := x.control.Recv(ctx)
		if err != nil {
			return x.left(err)
		}
		if x.data != nil && !x.met {
			x.met = true
			x.echoes.Go(func() { echo(ctx, x.data) })
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

// left returns the error of a test whose control connection has ended early. If the client has sent nothing
// there since the second connection came, that connection is not its own, but the first one of the next
// client.
func (x *session) left(err error) error {
	if !x.met && x.data != nil && x.control.Err() != nil {
		x.next, x.data = x.data, nil
	}
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// answer returns the answer to one message. Most messages are answered by themselves.
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
	x.over = x.results > 0 || x.dests > SendLat.exchanges() // other tests have results by then
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

// accept takes the second connection and makes its buffer. A client that leaves instead
// ends the test.
func (x *session) accept(ctx context.Context) error {
	select {
	case nc, ok := <-x.in.conns:
		if !ok {
			return x.in.err
		}
		x.data = rdmap.Server(nc, config(x.crc, depth))
	case <-x.control.Done():
		return x.left(x.control.Err())
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := x.data.Handshake(ctx); err != nil {
		return err
	}
	// perftest uses the size of two messages, and at least a page.
	r, err := x.data.Register(make([]byte, 2*MaxSize), region.RemoteRead|region.RemoteWrite)
	if err != nil {
		return err
	}
	x.rkey = r.STag()
	return nil
}

// echo answers every Send with one of the same size, until c ends.
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
