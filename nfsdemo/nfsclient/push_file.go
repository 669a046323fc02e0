package nfsclient

import (
	"context"
	"fmt"
	"sync"

	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
	"go.uber.org/zap"
)

// PushFile is a file on which this client holds a lease, and to which it writes by push. It is safe
// for concurrent use; writes take effect in the order of the log. Until Close nobody else changes the
// file. A WRITE or SETATTR, also by this client, ends the lease.
type PushFile struct {
	p       *pusher
	c       *Client
	n       *Node
	session *push.Session
	lease   uint64
	max     int // octets of data in a record
	bufs    *freeList

	mu     sync.Mutex
	busy   int           // appends in flight
	closed bool          // no new append may begin
	idle   chan struct{} // closed when closed and not busy
	gone   bool          // RETURN is not needed, or in flight
	pushed bool          // something was acknowledged
	level  commitlog.Level
	doubt  error // an append was given up: its record may still reach the log
}

// OpenPush opens a file to write to it by push. The file may grow by the given number of octets; the
// server reserves room for them, as far as it can.
//
// Errors: ErrNoPush and the reason, if the server does not support push or there is no Config.Push; a
// pushfile.Status if the server refuses this file now; those of the connection. WriteFrom may still
// work, or says what is wrong with the file.
func (c *Client) OpenPush(ctx context.Context, n *Node, octets uint64) (*PushFile, error) {
	s, err := c.push.open(ctx)
	if err != nil {
		return nil, pathErr("push", n.Path, err)
	}
	p := c.push
	p.opens()
	res, err := p.grant(ctx, s, n.FH, octets)
	if err == nil && (res.Lease == 0 || res.Max == 0) {
		err = ErrBadReply
	}
	if err != nil {
		p.opened(nil)
		return nil, pathErr("push", n.Path, err)
	}
	f := &PushFile{
		p: p, c: c, n: n, session: s, lease: res.Lease, max: int(min(res.Max, uint32(p.cfg.Record))),
		idle: make(chan struct{}),
	}
	f.bufs = newFreeList(pushfile.RecordHead+f.max, p.cfg.InFlight)
	if !p.opened(f) {
		return nil, pathErr("push", n.Path, errOpenTwice)
	}
	return f, nil
}

var errOpenTwice = fmt.Errorf("%w: this client has the file open by push already, or is giving it back", ErrNoPush)

// opens is called before an OPEN. The server answers with the lease that this client has on the file,
// if it has one; when the answer arrives, the lease may have been returned.
func (p *pusher) opens() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opening++
}

// opened is called after an OPEN, with the file or nil. It reports whether the file may be written:
// if the lease is over, the server would condemn the log.
func (p *pusher) opened(f *PushFile) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	ok := f != nil && p.files[f.lease] == nil && !p.over[f.lease]
	if ok {
		p.files[f.lease] = f
	}
	if p.opening--; p.opening == 0 {
		clear(p.over)
	}
	return ok
}

// Rung says how records are appended to the log.
func (f *PushFile) Rung() push.Rung { return f.session.Rung() }

// WriteAt writes data, which it borrows, at off, in as many records as necessary. It returns how many
// octets from the start of data were acknowledged, and how durable they are. Concurrent calls share
// their flushes.
//
// Errors: ErrRecalled if the lease is over; those of [push.Session.Append]. After any of them,
// octets that were not acknowledged may still reach the file, until Close has returned nil; a WRITE
// of the same octets does no harm.
func (f *PushFile) WriteAt(ctx context.Context, data []byte, off int64) (int, commitlog.Level, error) {
	buf := f.bufs.get()
	defer f.bufs.put(buf)
	var level commitlog.Level
	done := 0
	for done < len(data) {
		n := copy(buf[pushfile.RecordHead:], data[done:])
		l, err := f.append(ctx, buf, n, off+int64(done))
		if err != nil {
			return done, level, pathErr("push", f.n.Path, err)
		}
		done, level = done+n, l
	}
	return done, level, nil
}

// append appends a record of n octets, which follow the space for the record's head in buf.
func (f *PushFile) append(ctx context.Context, buf []byte, n int, off int64) (commitlog.Level, error) {
	if err := f.begin(); err != nil {
		return 0, err
	}
	r := pushfile.Record{Lease: f.lease, Offset: uint64(off)}
	r.Append(buf[:0])
	res, err := f.session.Append(ctx, buf[:pushfile.RecordHead+n])
	f.end(res.Level, err)
	return res.Level, err
}

func (f *PushFile) begin() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ErrRecalled
	}
	f.busy++
	return nil
}

// end records the outcome of an append. The last append before a recall returns the lease.
func (f *PushFile) end(level commitlog.Level, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy--
	if err == nil {
		f.note(level)
	} else if f.doubt == nil {
		f.doubt = err
	}
	if f.closed && f.busy == 0 {
		f.quiet()
	}
}

// note records the level of an append; the lowest one counts. The caller holds f.mu.
func (f *PushFile) note(level commitlog.Level) {
	if !f.pushed || level < f.level {
		f.level = level
	}
	f.pushed = true
}

// quiet is called when no append is in flight and none will begin. The caller holds f.mu.
func (f *PushFile) quiet() { close(f.idle) }

// shut prevents new appends. It returns a channel that is closed when none is in flight, and whether
// the caller must call RETURN.
func (f *PushFile) shut() (idle <-chan struct{}, giveBack bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.closed = true
		if f.busy == 0 {
			f.quiet()
		}
	}
	giveBack = !f.gone
	f.gone = true
	return f.idle, giveBack
}

// recall returns the lease: at once, or, if appends are in flight, after they were acknowledged; then
// the answer is that the file is busy.
func (f *PushFile) recall() pushfile.Status {
	idle, giveBack := f.shut()
	select {
	case <-idle:
		if giveBack && f.sure() {
			f.forget()
			return pushfile.StatusOK
		}
	default:
	}
	if giveBack {
		f.p.start(func() {
			select {
			case <-idle:
				_ = f.giveBack(f.p.ctx) // the server fences clients that do not return a lease
			case <-f.p.ctx.Done():
			}
		})
	}
	return pushfile.StatusBusy
}

// sure reports whether no record can arrive anymore.
func (f *PushFile) sure() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.doubt == nil
}

// giveBack returns the lease. No append may be in flight. As long as a record that was given up may
// still arrive, giveBack does nothing: the server fences the log when the lease is wanted.
func (f *PushFile) giveBack(ctx context.Context) error {
	if !f.sure() {
		f.forget()
		return f.session.Err()
	}
	err := f.p.giveBack(ctx, f.session, f.lease)
	if err != nil {
		f.p.log.Info("nfsclient: file not returned", zap.String("path", f.n.Path), zap.Error(err))
	}
	if err != nil && ctx.Err() != nil && f.p.ctx.Err() == nil {
		f.p.start(func() { _ = f.giveBack(f.p.ctx) }) // the RETURN may still arrive: until then nobody opens the file
		return err
	}
	f.forget()
	return err
}

// forget is called when the lease is over.
func (f *PushFile) forget() {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	if f.p.files[f.lease] == f {
		delete(f.p.files, f.lease)
		if f.p.opening > 0 {
			f.p.over[f.lease] = true
		}
	}
}

// Close waits for appends in flight, asks with COMMIT whether the server could write everything it has
// acknowledged to the file, and returns the lease. An *ApplyError says that it could not: the octets
// stay in the log, and the server tries again.
func (f *PushFile) Close(ctx context.Context) error {
	idle, giveBack := f.shut()
	select {
	case <-idle:
	case <-ctx.Done():
		return pathErr("push", f.n.Path, context.Cause(ctx))
	}
	var err error
	if f.pushed {
		err = f.applied(ctx)
	}
	if giveBack {
		if rerr := f.giveBack(ctx); err == nil && f.session.Err() == nil {
			err = rerr
		}
	}
	return pathErr("push", f.n.Path, err)
}

// applied asks whether everything that was acknowledged is in the file.
func (f *PushFile) applied(ctx context.Context) error {
	_, err := f.c.commit(ctx, f.n)
	if err == nil {
		return nil
	}
	st, serr := f.p.status(ctx, f.session)
	if serr != nil || st.Error == 0 {
		return err
	}
	return &ApplyError{State: st, err: err}
}

// ApplyError reports that an acknowledged record, of this file or another one, cannot be written to
// its file now. It is not lost: the server keeps it in the log and tries again.
type ApplyError struct {
	State pushfile.State
	err   error // of COMMIT
}

// Error says which record, and why.
func (e *ApplyError) Error() string {
	return fmt.Sprintf("%v: record %d of the push log waits at the server (%s)", e.err, e.State.Record, e.State.Text)
}

// Unwrap returns the error of COMMIT, which has few statuses (RFC 1813 Section 3.3.21), and the error
// of the record.
func (e *ApplyError) Unwrap() []error { return []error{e.err, e.State.Error} }
