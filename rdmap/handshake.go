package rdmap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// aLongTimeAgo is a deadline that has passed.
var aLongTimeAgo = time.Unix(1, 0)

// Handshake runs the MPA startup (RFC 5044 Section 7.1, RFC 6581). It must succeed before
// anything is posted. It runs once; later calls return the first result. An error closes the
// connection: *RejectError if the peer refused; *ConnError if the stream failed, the peer's frame
// was malformed (it then wraps *mpa.FormatError) or the time was over. If it wraps ErrOlderPeer,
// another attempt may succeed.
func (c *Conn) Handshake(ctx context.Context) error {
	c.hsMu.Lock()
	defer c.hsMu.Unlock()
	if c.hsDone {
		return c.hsErr
	}
	c.hsDone = true
	c.hsErr = c.handshake(ctx)
	if c.hsErr != nil {
		c.end(c.hsErr, c.hsLinger)
	}
	return c.hsErr
}

// begun waits for a Handshake that another goroutine runs. The Handshake of the peer may succeed
// first, and a caller that has seen that need not wait for ours itself. If there is none, begun returns
// ErrNoHandshake. For its outcome see role.over and Err.
func (c *Conn) begun() error {
	if c.up.Load() {
		return nil
	}
	c.hsMu.Lock()
	defer c.hsMu.Unlock()
	if !c.hsDone && c.Err() == nil {
		return verbs.ErrNoHandshake
	}
	return nil
}

func (c *Conn) handshake(ctx context.Context) error {
	if err := c.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.startupTimeout())
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = c.nc.SetDeadline(aLongTimeAgo) })
	var neg *mpa.Negotiation
	var err error
	if c.initiator {
		neg, err = c.initiate()
	} else {
		neg, err = c.respond()
	}
	if !stop() && ctx.Err() != nil && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return c.startupError(ctx, err)
	}
	_ = c.nc.SetDeadline(time.Time{})
	c.cfg.BufferedInput, c.cfg.PrivateData = nil, nil
	return c.establish(neg)
}

func (c *Conn) startupTimeout() time.Duration {
	switch {
	case c.cfg.HandshakeTimeout > 0:
		return c.cfg.HandshakeTimeout
	case c.initiator:
		return DefaultReplyTimeout
	}
	return DefaultRequestTimeout
}

// startupError returns err as Handshake documents it.
func (c *Conn) startupError(ctx context.Context, err error) error {
	if rej, ok := errors.AsType[*mpa.RejectError](err); ok {
		e := &verbs.RejectError{PrivateData: rej.Reply.PrivateData, IRD: -1, ORD: -1}
		if rej.Reply.Enhanced {
			e.IRD, e.ORD = int(rej.Reply.Word.IRD), int(rej.Reply.Word.ORD)
		}
		return e
	}
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = errors.Join(ctx.Err(), err)
	}
	return &verbs.ConnError{Op: "handshake", Err: err}
}

func (c *Conn) mpaConfig() *mpa.Config {
	cfg := &mpa.Config{
		Rev: uint8(c.cfg.Revision), MaxRev: uint8(c.cfg.Revision), NoCRC: c.cfg.CRC == CRCOff || c.cfg.CRC == CRCPeer && !c.initiator,
		Markers: true, WantMarkers: c.cfg.Markers, // RFC 5044 Section 4.3: a sender MUST be able to
		IRD: uint16(c.cfg.IRD), ORD: uint16(c.cfg.ORD),
		PeerToPeer: c.cfg.PeerToPeer, RTR: c.cfg.RTR,
	}
	if cfg.RTR == 0 && c.initiator {
		cfg.RTR = mpa.RTRWrite | mpa.RTRRead
	}
	if c.initiator && c.cfg.ORD == 0 {
		if cfg.RTR &^= mpa.RTRRead; cfg.RTR == 0 { // a Read would need an outbound slot
			cfg.RTR = mpa.RTRWrite
		}
	}
	return cfg
}

// initiate sends the Request and waits for the Reply.
func (c *Conn) initiate() (*mpa.Negotiation, error) {
	cfg := c.mpaConfig()
	cfg.PrivateData = c.cfg.PrivateData
	if !c.cfg.Plain {
		cfg.PrivateData = withCapability(cfg.PrivateData, wordLen(cfg.Rev != 1), c.cfg.Extensions)
	}
	m, err := mpa.NewInitiator(cfg)
	if err != nil {
		return nil, err
	}
	if _, err := c.nc.Write(m.AppendRequest(nil)); err != nil {
		return nil, err
	}
	got, err := c.startupFrame(m.Input, m.EOF)
	if err == nil {
		return m.Result(), nil
	}
	if _, again := m.Fallback(got); again && c.hungUp(err) {
		return nil, fmt.Errorf("%w: %w", verbs.ErrOlderPeer, err)
	}
	return nil, c.lateFailure(m.Result(), err)
}

// hungUp reports whether the stream ended because the peer closed it: with FIN, or with RST if it left
// a part of the Request unread.
func (c *Conn) hungUp(err error) bool {
	return c.Err() == nil && !errors.Is(err, os.ErrDeadlineExceeded) &&
		!errors.Is(err, net.ErrClosed) && !errors.Is(err, io.ErrClosedPipe) // by our own side
}

// lateFailure sends the Terminate that RFC 6581 Section 8 asks for if an accepting Reply cannot be
// used: full operation has begun, so the initiator may send.
func (c *Conn) lateFailure(neg *mpa.Negotiation, err error) error {
	e, ok := errors.AsType[*mpa.Error](err)
	if !ok || !e.Terminate() {
		return err
	}
	var s engine.Sender
	var w engine.Work
	s.MULPDU, s.CRC = mpa.MinMULPDU, neg.CRC
	if neg.SendMarkers {
		w.StartMarking()
	}
	p := engine.ProtocolError(e, nil)
	c.hsLinger = true
	s.FailWith(p.Terminate.Append(nil), nil, p, false)
	s.Take(&w)
	_ = w.Build(s.MULPDU, s.CRC, nil)
	for _, b := range w.Batch.Pieces() {
		_, _ = c.nc.Write(b)
	}
	s.Wrote(&w, false, nil)
	return p
}

// respond waits for the Request and answers it.
func (c *Conn) respond() (*mpa.Negotiation, error) {
	m, err := mpa.NewResponder(c.mpaConfig())
	if err != nil {
		return nil, err
	}
	if _, err := c.startupFrame(m.Input, m.EOF); err != nil {
		if _, refused := errors.AsType[*mpa.RefuseError](err); refused {
			return nil, c.reject(m, nil, err)
		}
		return nil, err
	}
	req := *m.Request()
	ulp, cp, stag := splitCapability(req.PrivateData)
	stag = stag && !c.cfg.Plain
	if stag {
		req.PrivateData = ulp
	}
	var data []byte
	if c.cfg.Accept != nil {
		if data, err = c.cfg.Accept(&req); err != nil {
			return nil, c.reject(m, data, err)
		}
	}
	if stag {
		// Only a peer that sent its block gets ours.
		c.peerCap = cp
		data = withCapability(data, wordLen(req.Enhanced), c.cfg.Extensions)
	}
	reply, err := m.Accept(nil, data)
	if err != nil {
		return nil, err
	}
	if _, err := c.nc.Write(reply); err != nil {
		return nil, err
	}
	return m.Result(), nil
}

// wordLen returns how many octets of a startup frame the enhanced word takes.
func wordLen(enhanced bool) int {
	if enhanced {
		return mpa.EnhancedLen
	}
	return 0
}

func (c *Conn) reject(m *mpa.Responder, data []byte, cause error) error {
	reply, err := m.Reject(nil, data)
	if err != nil {
		return errors.Join(cause, err)
	}
	c.hsLinger = true
	_, err = c.nc.Write(reply)
	return errors.Join(cause, err)
}

// startupFrame reads until input has got its frame, and returns what has been read.
func (c *Conn) startupFrame(input func([]byte) (int, error), eof func([]byte) error) ([]byte, error) {
	buf := append(make([]byte, 0, 1024), c.cfg.BufferedInput...)
	for {
		if len(buf) > 0 {
			if n, err := input(buf); err != nil || n > 0 {
				return buf, err
			}
		}
		if len(buf) == cap(buf) {
			return buf, io.ErrShortBuffer // cannot happen: a frame has at most 532 octets
		}
		n, err := c.nc.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if n == 0 && errors.Is(err, io.EOF) {
			return buf, errors.Join(io.ErrUnexpectedEOF, eof(buf))
		}
		if n == 0 && err != nil {
			return buf, err
		}
	}
}
