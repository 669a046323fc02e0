package rdmap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/drive"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"go.uber.org/zap"
)

// aLongTimeAgo is a deadline that has passed.
var aLongTimeAgo = time.Unix(1, 0)

// Handshake runs the MPA startup (RFC 5044 Section 7.1, RFC 6581). It must succeed before
// anything is posted. It runs once; later calls return the first result. An error closes the
// connection: ErrConfig if a setting is out of range; *RejectError if the peer refused; *ConnError if the stream failed, the peer's frame
// was malformed (it then wraps *mpa.FormatError) or the time was over. If it wraps ErrOlderPeer,
// another attempt may succeed.
func (c *Conn) Handshake(ctx context.Context) error {
	c.startup.Do(func() {
		told, err := false, c.hsErr
		if err == nil {
			told, err = c.handshake(ctx)
		}
		if err != nil {
			c.hsErr = err
			c.end(err, told)
		}
	})
	return c.hsErr
}

// begun waits for a Handshake that another goroutine runs. The Handshake of the peer may succeed
// first, and a caller that has seen that need not wait for ours itself. If there is none, begun returns
// ErrNoHandshake. For its outcome see Wait.
func (c *Conn) begun() error {
	switch c.snd.State() {
	case engine.StateNew:
		return verbs.ErrNoHandshake
	case engine.StateStarting:
		c.startup.Do(func() {}) // returns when the one that runs has
	default:
	}
	return nil
}

// handshake is Handshake. told: the peer was sent the reason of the error, which should arrive.
func (c *Conn) handshake(ctx context.Context) (told bool, err error) {
	c.mu.Lock()
	err = c.snd.StartUp()
	c.mu.Unlock()
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.startupTimeout())
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = c.nc.SetDeadline(aLongTimeAgo) })
	p, told, err := c.exchange()
	if !stop() && ctx.Err() != nil && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return told, c.startupError(ctx, err)
	}
	_ = c.nc.SetDeadline(time.Time{})
	c.cfg.Startup.BufferedInput, c.cfg.Startup.PrivateData = nil, nil
	return false, c.establish(p)
}

func (c *Conn) startupTimeout() time.Duration {
	switch {
	case c.cfg.Startup.Timeout > 0:
		return c.cfg.Startup.Timeout
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

// exchange exchanges the frames of the startup.
func (c *Conn) exchange() (p *engine.Params, told bool, err error) {
	s, request, err := engine.NewStartup(engine.StartupConfig{
		Initiator: c.initiator, PrivateData: c.cfg.Startup.PrivateData, Plain: c.cfg.Startup.Plain,
		Extensions: c.cfg.Startup.Extensions, MULPDU: c.cfg.Startup.MULPDU, Accept: c.cfg.Startup.Accept,
		MPA: mpa.Config{
			Rev: uint8(c.cfg.Startup.Revision), MaxRev: uint8(c.cfg.Startup.Revision),
			NoCRC:   c.cfg.Startup.CRC == CRCOff || c.cfg.Startup.CRC == CRCPeer && !c.initiator,
			Markers: true, WantMarkers: c.cfg.Startup.Markers, // RFC 5044 Section 4.3: a sender MUST be able to
			IRD: uint16(c.cfg.Startup.IRD), ORD: uint16(c.cfg.Startup.ORD),
			PeerToPeer: c.cfg.Startup.PeerToPeer, RTR: c.cfg.Startup.RTR,
		},
	})
	if err != nil {
		return nil, false, err
	}
	if len(request) > 0 {
		if _, err := c.nc.Write(request); err != nil {
			return nil, false, err
		}
	}
	got, reply, err := c.startupFrame(s)
	if err != nil && s.Older(got) && c.hungUp(err) {
		return nil, false, fmt.Errorf("%w: %w", verbs.ErrOlderPeer, err)
	}
	if len(reply) > 0 {
		told = err != nil
		_, werr := c.nc.Write(reply)
		err = errors.Join(err, werr)
	}
	if err != nil {
		return nil, told, err
	}
	return s.Params(c.link.EMSS()), false, nil
}

// hungUp reports whether the stream ended because the peer closed it: with FIN, or with RST if it left
// a part of the Request unread.
func (c *Conn) hungUp(err error) bool {
	return c.Err() == nil && !errors.Is(err, os.ErrDeadlineExceeded) &&
		!errors.Is(err, net.ErrClosed) && !errors.Is(err, io.ErrClosedPipe) // by our own side
}

// startupFrame reads until s has got its frame. It returns what has been read, and the reply.
func (c *Conn) startupFrame(s *engine.Startup) (got, reply []byte, err error) {
	got = append(make([]byte, 0, 1024), c.cfg.Startup.BufferedInput...)
	for {
		if len(got) > 0 {
			if done, reply, err := s.Input(got); err != nil || done {
				return got, reply, err
			}
		}
		if len(got) == cap(got) {
			return got, nil, io.ErrShortBuffer // cannot happen: a frame has at most 532 octets
		}
		n, err := c.nc.Read(got[len(got):cap(got)])
		got = got[:len(got)+n]
		if n == 0 && errors.Is(err, io.EOF) {
			return got, nil, errors.Join(io.ErrUnexpectedEOF, s.EOF(got))
		}
		if n == 0 && err != nil {
			return got, nil, err
		}
	}
}

// establish starts the engine with what was negotiated.
func (c *Conn) establish(p *engine.Params) error {
	st := ConnectionState{
		HandshakeComplete: true, Initiator: p.Initiator, CRC: p.CRC, Revision: int(p.Rev), IRD: p.IRD, ORD: p.ORD,
		SendMarkers: p.SendMarkers, RecvMarkers: p.RecvMarkers, PeerToPeer: p.PeerToPeer,
		StagPeer: p.Stag, Extensions: p.Extensions, MULPDU: p.MULPDU,
	}
	c.mu.Lock()
	if c.ended() {
		defer c.mu.Unlock()
		return c.snd.Err()
	}
	c.state, c.peerData = st, p.PrivateData
	p.Start(&c.snd, c.rcv, &c.wk)
	c.mu.Unlock()
	c.flushIfReady(drive.IfBlind) // the ready-to-receive message
	c.log.Debug("established", zap.Bool("crc", st.CRC), zap.Int("mulpdu", st.MULPDU),
		zap.Int("ird", st.IRD), zap.Int("ord", st.ORD), zap.Bool("stag", st.StagPeer))
	c.called()
	return nil
}

// ConnectionState is the result of the startup.
type ConnectionState struct {
	// HandshakeComplete is false before Handshake has succeeded; the other
	// fields are then zero.
	HandshakeComplete bool
	Initiator         bool             // this side sent the MPA Request
	CRC               bool             // CRC32C is generated and checked
	IRD, ORD          int              // inbound and outbound request depth in force
	MULPDU            int              // largest ULPDU this side sends, octets
	StagPeer          bool             // the peer showed a stag capability block
	Extensions        verbs.Extensions // in force
	Revision          int              // MPA revision, 1 or 2
	SendMarkers       bool             // the peer asked for markers: this side sends them
	RecvMarkers       bool             // this side asked for markers: the peer sends them
	PeerToPeer        bool             // the initiator's first FPDU was a ready-to-receive message
}
