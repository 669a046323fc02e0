package nfsclient

import (
	"context"
	"fmt"
	"sync"

	"github.com/stag-rdma/stag/nfsdemo/pushfile"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
	"go.uber.org/zap"
)

// PushFile is a file on which this client holds a lease, and to which it writes by push. Its
// methods may be called by several goroutines at once; their order is that of the log.
// Until Close nobody else changes the file, and WRITE and SETATTR of this client
// end the lease too.
type PushFile struct {
	p       *pusher
	c       *Client
	n       *Node
	session *push.Session
	lease   uint64
	max     int // octets of data in a record
	bufs    *freeList

	mu     sync.Mutex
	busy   int           // appends under way
	closed bool          // no other begins
	idle   chan struct{} // closed when closed and not busy
	gone   bool          // RETURN is not needed, or under way
	pushed bool          // something was acknowledged
	level  commitlog.Level
	doubt  error // an append was given up: its record may come to be in the log
}

// OpenPush opens a file to write to it by push, which may grow by so many octets: room that
// the server sets aside, as far as it can.
//
// Errors: ErrNoPush and the reason, when the server does not have it or there is no Config.Push;
// a pushfile.Status when it refuses this file now; those of the connection. WriteFrom then
// does it still, or says what is wrong with the file.
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

// opens says that an OPEN begins. The server answers with the lease that this client has on the
// file, if it has one; by the time the answer is here it may have been given back.
func (p *pusher) opens() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opening++
}

// opened is told what came of an OPEN: a file, or nil. It reports whether the file may be written
// to: with a lease that is over, the server would condemn the log.
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

// Rung says by what the log is appended to.
func (f *PushFile) Rung() push.Rung { return f.session.Rung() }

// WriteAt writes data at off, by as many records as it takes, and returns how many octets of
// it, from the first on, have been acknowledged, and what that is worth. Data is borrowed.
// Calls of several goroutines share their flushes.
//
// Errors: ErrRecalled when the lease is over; those of [push.Session.Append]. With all of
// them what is not acknowledged may yet come to be in the file, until Close has
// returned nil; a WRITE of the same octets does no harm.
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

// append appends a record of the n octets that buf has behind the place of its head.
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

// end is told the outcome of an append. The last one before a recall gives the file back.
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

// note takes note of what was obtained: the least counts. F.mu is held.
func (f *PushFile) note(level commitlog.Level) {
	if !f.pushed || level < f.level {
		f.level = level
	}
	f.pushed = true
}

// quiet is told that nothing is under way, and nothing will be; f.mu is held.
func (f *PushFile) quiet() { close(f.idle) }

// shut lets no other append begin, and returns a channel that is closed when none is under
// way. It reports whether that is news, and whether RETURN is up to the caller.
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

// recall gives the file back: at once, or, and then the answer is that it is busy, when what
// is under way has been acknowledged.
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
				_ = f.giveBack(f.p.ctx) // the server fences who does not return
			case <-f.p.ctx.Done():
			}
		})
	}
	return pushfile.StatusBusy
}

// sure says that no record can come any more.
func (f *PushFile) sure() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.doubt == nil
}

// giveBack returns the lease, nothing being under way. While a record may come that was given
// up it does not: the server fences the log when the lease is wanted.
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
		f.p.start(func() { _ = f.giveBack(f.p.ctx) }) // that RETURN may still come: until then nobody opens the file
		return err
	}
	f.forget()
	return err
}

// forget is told that the lease is over.
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

// Close waits for what is under way, asks with COMMIT whether all that was acknowledged could
// be written to the file, and gives the file back. An *ApplyError says that it could not:
// the octets stay in the log, and the server tries again.
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

// applied asks whether what was acknowledged is in the file.
func (f *PushFile) applied(ctx context.Context) error {
	_, err := f.c.commit(ctx, f.n)
	if err == nil {
		return nil
	}
	st, serr := f.p.status(ctx, f.session)
	if serr != nil || st.Error == 0 {
		return err
	}
	return &ApplyError{State: st, Err: err}
}

// ApplyError: a record that was acknowledged, of this file or another one, cannot be written
// to its file now. It is not lost: the server has it in the log, and tries again.
type ApplyError struct {
	State pushfile.State
	Err   error // of COMMIT
}

// Error says which record, and why.
func (e *ApplyError) Error() string {
	return fmt.Sprintf("%v: record %d of the push log waits at the server (%s)", e.Err, e.State.Record, e.State.Text)
}

// Unwrap returns the error of COMMIT, which has few statuses (RFC 1813 Section 3.3.21), and
// that of the record.
func (e *ApplyError) Unwrap() []error { return []error{e.Err, e.State.Error} }
