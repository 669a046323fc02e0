package drive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"go.uber.org/zap"
)

// aLongTimeAgo is a deadline that has passed.
var aLongTimeAgo = time.Unix(1, 0)

// startup runs the MPA startup once. What it has negotiated is published by params.
type startup struct {
	once   sync.Once
	err    error // valid after once
	params atomic.Pointer[engine.Params]
}

// Params returns the result of a startup that has succeeded, otherwise nil. It must not be changed.
func (d *Driver) Params() *engine.Params { return d.start.params.Load() }

// Handshake runs the startup, unless refused is not nil: the reason why there is to be none. It runs once, and later
// calls return the first result.
func (d *Driver) Handshake(ctx context.Context, refused error) error {
	d.start.once.Do(func() {
		told, err := false, refused
		if err == nil {
			told, err = d.handshake(ctx)
		}
		if err != nil {
			d.start.err = err
			d.End(err, told)
		}
	})
	return d.start.err
}

// begun waits for a Handshake that another goroutine runs. The Handshake of the peer may succeed
// first, and a caller that has seen that need not wait for ours itself. If there is none, begun returns
// ErrNoHandshake. For its outcome see Wait.
func (d *Driver) begun() error {
	switch d.snd.State() {
	case engine.StateNew:
		return verbs.ErrNoHandshake
	case engine.StateStarting:
		d.start.once.Do(func() {}) // returns when the one that runs has
	default:
	}
	return nil
}

// handshake is Handshake. told: the peer was sent the reason of the error, which should arrive.
func (d *Driver) handshake(ctx context.Context) (told bool, err error) {
	d.mu.Lock()
	err = d.snd.StartUp()
	d.mu.Unlock()
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = d.nc.SetDeadline(aLongTimeAgo) })
	p, told, err := d.exchange()
	if !stop() && ctx.Err() != nil && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return told, startupError(ctx, err)
	}
	_ = d.nc.SetDeadline(time.Time{})
	d.cfg.Startup, d.cfg.Buffered = engine.StartupConfig{}, nil // they are borrowed
	return false, d.establish(p)
}

// startupError returns err as rdmap.Conn.Handshake documents it.
func startupError(ctx context.Context, err error) error {
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
func (d *Driver) exchange() (p *engine.Params, told bool, err error) {
	s, request, err := engine.NewStartup(d.cfg.Startup)
	if err != nil {
		return nil, false, err
	}
	if len(request) > 0 {
		if _, err := d.nc.Write(request); err != nil {
			return nil, false, err
		}
	}
	got, reply, err := d.startupFrame(s)
	if err != nil && s.Older(got) && d.hungUp(err) {
		return nil, false, fmt.Errorf("%w: %w", verbs.ErrOlderPeer, err)
	}
	if len(reply) > 0 {
		told = err != nil
		_, werr := d.nc.Write(reply)
		err = errors.Join(err, werr)
	}
	if err != nil {
		return nil, told, err
	}
	return s.Params(d.link.EMSS()), false, nil
}

// hungUp reports whether the stream ended because the peer closed it: with FIN, or with RST if it left
// a part of the Request unread.
func (d *Driver) hungUp(err error) bool {
	return d.Err() == nil && !errors.Is(err, os.ErrDeadlineExceeded) &&
		!errors.Is(err, net.ErrClosed) && !errors.Is(err, io.ErrClosedPipe) // by our own side
}

// startupFrame reads until s has got its frame. It returns what has been read, and the reply.
func (d *Driver) startupFrame(s *engine.Startup) (got, reply []byte, err error) {
	got = append(make([]byte, 0, 1024), d.cfg.Buffered...)
	for {
		if len(got) > 0 {
			if done, reply, err := s.Input(got); err != nil || done {
				return got, reply, err
			}
		}
		if len(got) == cap(got) {
			return got, nil, io.ErrShortBuffer // cannot happen: a frame has at most 532 octets
		}
		n, err := d.nc.Read(got[len(got):cap(got)])
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
func (d *Driver) establish(p *engine.Params) error {
	d.mu.Lock()
	if d.ended() {
		defer d.mu.Unlock()
		return d.snd.Err()
	}
	d.keepsAlive = p.Initiator && !p.Stag && !d.cfg.NoKeepalive // another stag needs none
	d.start.params.Store(p)
	p.Start(&d.snd, d.rcv, &d.wk)
	d.mu.Unlock()
	d.flushIfReady(IfBlind) // the ready-to-receive message
	d.cfg.Logger.Debug("established", zap.Bool("crc", p.CRC), zap.Int("mulpdu", p.MULPDU),
		zap.Int("ird", p.IRD), zap.Int("ord", p.ORD), zap.Bool("stag", p.Stag))
	d.called()
	return nil
}
