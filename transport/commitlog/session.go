package commitlog

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// flushLimit is how long a flush may keep a connection from being read.
const flushLimit = 2 * time.Millisecond

// Config returns the configuration of a consumer's connections: a copy of cfg, or the defaults if
// cfg is nil, with the extensions that a log needs. (For producers see Producer.Config.) If cfg
// has neither Handler nor HandlerLimit, HandlerLimit becomes 2 ms, so that the goroutine in Serve
// carries out flushes itself.
func Config(cfg *rdmap.Config) *rdmap.Config {
	c := extended(cfg)
	if c.Handler == nil && c.Reading.HandlerLimit == 0 {
		c.Reading.HandlerLimit = flushLimit
	}
	return c
}

// extended returns cfg with the extensions that both sides need.
func extended(cfg *rdmap.Config) *rdmap.Config {
	var c rdmap.Config
	if cfg != nil {
		c = *cfg
	}
	c.Startup.Extensions |= verbs.ExtCommit | verbs.Ext7306
	return &c
}

// Advertise opens a session for the producer at the other end of c, and returns the answer, which
// the producer must be told: Prepare and Attach in one. The end of c does not end the Log. Its errors are theirs.
func (l *Log) Advertise(ctx context.Context, c *rdmap.Conn) (*Answer, error) {
	if c.ConnectionState().Extensions&verbs.ExtCommit == 0 {
		return nil, ErrNoExtension // before the previous session ends
	}
	s, err := l.Prepare(ctx, Instance{})
	if err != nil {
		return nil, err
	}
	return s.Attach(c)
}

// revoke invalidates the STags of the session, that of the tail first. err, if not nil, is that of the memory. The caller
// holds l.state.
func (l *Log) revoke(err error) {
	for _, r := range l.regs {
		r.Revoke()
	}
	if l.loc != nil {
		l.loc.revoke(err)
	}
	l.conn = nil
}

// quiesce waits until nobody of the session touches the memory. The caller holds l.order.
func (l *Log) quiesce(ctx context.Context) error {
	l.state.Lock()
	regs, loc := l.regs, l.loc
	l.state.Unlock()
	for _, r := range regs {
		if err := r.Invalidate(ctx); err != nil {
			return err
		}
	}
	if loc != nil {
		return loc.drain(ctx)
	}
	return nil
}

// publish tells the producer the durable head: by Immediate Data if the connection supports it;
// otherwise the producer reads it. The message may get lost with the connection.
func (l *Log) publish(head uint64) {
	l.state.Lock()
	c, loc := l.conn, l.loc
	l.state.Unlock()
	switch {
	case loc != nil:
		loc.published(head)
	case c != nil && c.ConnectionState().Extensions&verbs.Ext7306 != 0:
		// An error ends the connection, and with it the session.
		_ = c.Post([]verbs.WR{{Op: verbs.OpImmediate, Head: binary.BigEndian.AppendUint64(nil, head)}})
	}
}

// Serve opens a session for the producer at the other end of c, sends it the answer, for which
// Producer.Attach waits, and serves c until it ends. It returns why c ended.
func (l *Log) Serve(ctx context.Context, c *rdmap.Conn) error {
	a, err := l.Advertise(ctx, c)
	if err != nil {
		return err
	}
	if err := c.Post([]verbs.WR{{Op: verbs.OpSend, Head: a.Append(nil)}}); err != nil {
		return err
	}
	return c.Serve()
}

// ErrNoExtension: the connection has no Flush and Atomic Write.
var ErrNoExtension = errors.New("commitlog: the connection lacks the commit extension (set verbs.ExtCommit on both sides)")

// ErrFenced: another session has begun since, or this one already has its producer.
var ErrFenced = errors.New("commitlog: the session is over, or already has its producer (begin another one)")

// Prepared is a session that has begun before its producer has connected: the producer gets the
// answer in one way, such as an RPC, and then appends in another. It is safe for concurrent use.
// Either Attach or Local succeeds, once.
type Prepared struct {
	l    *Log
	a    Answer
	used bool // order is held
}

// Instance names the producer of a session: random octets that whoever decides about sessions compares
// with [Log.Instance]. Zeros name nobody.
type Instance = [16]byte

// Prepare ends the current session and begins another one, which belongs to instance: that is durable when Prepare
// returns nil. The queued requests of the previous session fail, and Prepare waits for a running one until ctx ends.
// In that case the error is region.ErrPinned; the previous session is over nevertheless, and Prepare may be called
// again. Other errors: *PoisonError, ErrEpochs, ErrClosed, and the first error of the memory.
func (l *Log) Prepare(ctx context.Context, instance Instance) (*Prepared, error) {
	l.order.Lock()
	defer l.order.Unlock()
	l.state.Lock()
	l.revoke(nil)
	l.state.Unlock()
	if err := l.quiesce(ctx); err != nil {
		return nil, err
	}
	// Nothing moves the tail anymore.
	l.mu.Lock()
	err := l.failed()
	var steps []step
	var a *Answer
	if err == nil {
		steps, a, err = l.cons.Fenced(l.mem.tail.Load(), instance)
	}
	l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	a.Persistent = !l.mem.volatile
	if region.Verifiable(l.mem.mem) != nil {
		a.Hash = NoHash
	}
	if err := l.mem.do(steps); err != nil {
		return nil, err
	}
	return &Prepared{l: l, a: *a}, nil
}

// Answer returns what has survived, and where the session begins. It has no STags.
func (s *Prepared) Answer() Answer { return s.a }

// Head returns the durable head. The ring before it may be overwritten.
func (s *Prepared) Head() uint64 { return s.l.mem.head.Load() }

// Attach gives the session to the producer at the other end of c, and returns the answer, which
// the producer must be told: it may write and flush the ring and the tail word, and read the published head.
// Errors: ErrNoExtension, after which another way may be tried; ErrFenced, ErrClosed, and the first error of the
// memory.
func (s *Prepared) Attach(c *rdmap.Conn) (*Answer, error) {
	if c.ConnectionState().Extensions&verbs.ExtCommit == 0 {
		return nil, ErrNoExtension
	}
	l, a := s.l, s.a
	l.order.Lock()
	defer l.order.Unlock()
	if err := s.use(); err != nil {
		return nil, err
	}
	write := region.RemoteWrite | region.FlushVisible
	if a.Persistent {
		write |= region.FlushPersistent
	}
	ring := region.Options{Access: write} // its Hash is CRC32C, if nothing else is said
	if a.Hash != NoHash {
		ring.Access |= region.Verify
	}
	l.state.Lock()
	defer l.state.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	for i, w := range []struct {
		mem  region.Memory
		o    region.Options
		stag *uint32
	}{
		{l.mem.TailWord(), region.Options{Access: write}, &a.TailSTag},
		{l.mem.Ring(a.Mode), ring, &a.RingSTag},
		{l.mem.Published(), region.Options{Access: region.RemoteRead}, &a.HeadSTag},
	} {
		r, err := c.Table().RegisterMemory(w.mem, w.o)
		if err != nil {
			l.revoke(nil)
			return nil, err
		}
		l.regs[i], *w.stag = r, uint32(r.STag())
	}
	l.conn, l.loc = c, nil
	return &a, nil
}

// Local gives the session to p, a producer in this process, which appends to the memory without a connection. If the
// memory fails, or a Verify does (ErrMismatch), the appends of p end with that error, and p is closed: there will be
// no other session. Errors: ErrFenced, ErrClosed, the first error of the memory, and those of Producer.Open.
func (s *Prepared) Local(p *Producer) error {
	l := s.l
	l.order.Lock()
	defer l.order.Unlock()
	if err := s.use(); err != nil {
		return err
	}
	a := s.a
	a.RingSTag, a.TailSTag = localRing, localTail
	loc := &local{p: p, l: l}
	loc.mem[localRing], loc.mem[localTail] = guarded(l.mem.Ring(a.Mode)), guarded(l.mem.TailWord())
	l.state.Lock()
	err := l.err
	if err == nil {
		l.loc = loc
	}
	l.state.Unlock()
	if err == nil {
		err = p.open(loc, &a)
	}
	if err == nil {
		loc.published(l.mem.head.Load()) // nobody was told about releases while the session was being opened
	}
	return err
}

// use takes the session, if it is still the last one. The caller holds l.order.
func (s *Prepared) use() error {
	if s.used || s.l.epoch() != s.a.Epoch {
		return ErrFenced
	}
	s.used = true
	return nil
}

// epoch returns the epoch of the last session.
func (l *Log) epoch() uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cons.hdr.Epoch
}
