package perftest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/rdmap"
)

// ErrData is wrapped by the error of Dial if a Read brought octets other than those written.
var ErrData = errors.New("perftest: other data came back")

// ErrOptions is wrapped by the error of Dial for Options out of range.
var ErrOptions = errors.New("perftest: test, size or count out of range")

// Options say what a client does.
type Options struct {
	Test  Test
	Size  int // octets of a message, 1 to MaxSize
	Count int // messages
	CRC   rdmap.CRCMode
}

// Dial runs one test against the perftest server at addr. The state is that of the connection on which the
// test ran. Before read_bw the client fills the server's buffer, and every Read must bring back the same
// octets (perftest grants both rights on iWARP). Errors are those of the network and the engine, or wrap
// ErrProtocol, ErrData or ErrOptions.
func Dial(ctx context.Context, addr string, opt *Options) (rdmap.ConnectionState, error) {
	if opt.Test > SendLat || opt.Size < 1 || opt.Size > MaxSize || opt.Count < 1 {
		return rdmap.ConnectionState{}, fmt.Errorf("%w: %v, size %d, count %d", ErrOptions, opt.Test, opt.Size, opt.Count)
	}
	c := client{Options: *opt, addr: addr}
	defer c.abort() // what was closed in order stays so
	err := c.run(ctx)
	if err != nil {
		return rdmap.ConnectionState{}, err
	}
	_ = c.control.Close() // with the server's end of the stream
	return c.data.ConnectionState(), nil
}

// linger is how long the client waits for the server's end of the control connection.
const linger = time.Second

// client is one run.
type client struct {
	Options
	addr          string
	control, data *rdmap.Conn
	mine, theirs  Dest
}

func (c *client) run(ctx context.Context) (err error) {
	if c.control, err = c.connect(ctx, 0); err != nil {
		return err
	}
	if err := c.greet(ctx); err != nil {
		return err
	}
	reads := 0
	if c.Test == ReadBW {
		reads = depth
	}
	if c.data, err = c.connectAgain(ctx, reads); err != nil {
		return err
	}
	c.mine = Dest{OutReads: uint32(max(1, c.data.ConnectionState().ORD)), QPN: 1}
	if err := c.meet(ctx); err != nil {
		return err
	}
	if err := c.test(ctx); err != nil {
		return fmt.Errorf("%v: %w", c.Test, err)
	}
	// A Write is complete when TCP has it (RFC 5040 Section 5.5), and the server leaves when we say goodbye:
	// the end of the stream, for which Close waits, shows that everything has arrived.
	if err := c.data.Close(); err != nil {
		return err
	}
	if err := c.part(ctx); err != nil {
		return err
	}
	// The server may still be busy with its last answer when we have it, so it closes first.
	ctx, cancel := context.WithTimeout(ctx, linger)
	defer cancel()
	_, _ = c.control.Recv(ctx)
	return nil
}

func (c *client) connect(ctx context.Context, reads int) (*rdmap.Conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return nil, err
	}
	conn := rdmap.Client(nc, config(c.CRC, reads))
	if err := conn.Handshake(ctx); err != nil {
		return nil, err
	}
	return conn, nil
}

// patience is how long, and how often, the client tries to connect a second time: perftest's server begins
// to listen again only after the last message of the first connection.
const patience, pause = 5 * time.Second, 50 * time.Millisecond

func (c *client) connectAgain(ctx context.Context, reads int) (*rdmap.Conn, error) {
	for end := time.Now().Add(patience); ; {
		conn, err := c.connect(ctx, reads)
		if err == nil || ctx.Err() != nil || time.Now().After(end) {
			return conn, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

func (c *client) abort() {
	for _, conn := range []*rdmap.Conn{c.control, c.data} {
		if conn != nil {
			conn.Abort(nil)
		}
	}
}

// ask exchanges one message on the control connection. A server that closes after its last answer may do so
// before our Send returns: an answer that has arrived counts.
func (c *client) ask(ctx context.Context, p []byte) ([]byte, error) {
	sent := c.control.Send(ctx, p)
	m, err := c.control.Recv(ctx)
	if err != nil {
		return nil, cmp.Or(sent, err)
	}
	if len(m.Data) != len(p) {
		return nil, fmt.Errorf("%w: an answer of %d octets to %d", ErrProtocol, len(m.Data), len(p))
	}
	return m.Data, nil
}

// greet is the conversation before the second connection.
func (c *client) greet(ctx context.Context) error {
	for _, p := range [][]byte{
		append([]byte("6.06"), make([]byte, 12)...), // perftest 4.5
		binary.BigEndian.AppendUint32(nil, 4096),    // octets of a page
		binary.BigEndian.AppendUint32(nil, 64),      // octets of a cache line
		{'3', 0},                                    // MTU 1024, of InfiniBand
		make([]byte, DestLen),
	} {
		if _, err := c.ask(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// meet is the conversation between the second connection and the test.
func (c *client) meet(ctx context.Context) error {
	if _, err := c.ask(ctx, make([]byte, DestLen)); err != nil {
		return err
	}
	for range c.Test.exchanges() {
		p, err := c.ask(ctx, c.mine.Append(nil))
		if err != nil {
			return err
		}
		if c.theirs, err = ParseDest(p); err != nil {
			return err
		}
	}
	return nil
}

// part is the conversation after the test.
func (c *client) part(ctx context.Context) error {
	if _, err := c.ask(ctx, c.mine.Append(nil)); err != nil || c.Test == SendLat {
		return err
	}
	for _, n := range []int{c.Size, c.Count, 0, 0, 0} { // the rest would be rates
		if _, err := c.ask(ctx, binary.BigEndian.AppendUint64(nil, uint64(n))); err != nil {
			return err
		}
	}
	_, err := c.ask(ctx, c.mine.Append(nil))
	return err
}

func (c *client) test(ctx context.Context) error {
	p := make([]byte, c.Size)
	for i := range p {
		p[i] = byte(i + i>>8)
	}
	switch c.Test {
	case SendLat:
		return c.sends(ctx, p)
	case ReadBW:
		if err := c.data.Write(ctx, p, c.theirs.RKey, c.theirs.VAddr); err != nil {
			return err
		}
		return c.reads(ctx, p)
	case WriteBW:
	}
	for range c.Count {
		if err := c.data.Write(ctx, p, c.theirs.RKey, c.theirs.VAddr); err != nil {
			return err
		}
	}
	return nil
}

// sends sends p and waits for as many octets, again and again.
func (c *client) sends(ctx context.Context, p []byte) error {
	for range c.Count {
		if err := c.data.Send(ctx, p); err != nil {
			return err
		}
		m, err := c.data.Recv(ctx)
		if err != nil {
			return err
		}
		if len(m.Data) != len(p) {
			return fmt.Errorf("%w: %d octets for %d", ErrProtocol, len(m.Data), len(p))
		}
	}
	return nil
}

// inFlight is the number of Reads that the client keeps in flight, if it may.
const inFlight = 4

// reads makes the requested number of Reads; every one must bring want.
func (c *client) reads(ctx context.Context, want []byte) error {
	var wg sync.WaitGroup
	var begun atomic.Int64
	errs := make([]error, min(inFlight, c.data.ConnectionState().ORD))
	for i := range errs {
		wg.Go(func() {
			sink := make([]byte, len(want))
			for begun.Add(1) <= int64(c.Count) && errs[i] == nil {
				clear(sink)
				if errs[i] = c.data.Read(ctx, sink, c.theirs.RKey, c.theirs.VAddr); errs[i] == nil && !bytes.Equal(sink, want) {
					errs[i] = ErrData
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
