package commitlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// groups limits the groups of appends. Two may be unanswered; appends made meanwhile go out as one group, with one flush.
var groups = limits{InFlight: 2, Batch: 256 << 10}

// ProducerOptions has the settings of a Producer. Nil and zero fields mean the defaults. NewProducer
// copies them.
type ProducerOptions struct {
	// Silence is how long appends may wait without a sign of life from the consumer: an answer, free
	// room, or the next session. Then the session and all appends end, within a quarter of that time more. The
	// consumer may just be slow: choose a time in which every disk flush ends. If zero or negative, appends wait for ever.
	Silence time.Duration
	// Verify makes the consumer's engine compare each group with its hash, after the flush and
	// before the group becomes part of the log. A mismatch ends the connection.
	Verify bool
}

// link is the way to the log of a session.
type link interface {
	// post sends a batch, and completes it once when its last operation has been answered.
	// An error ends the session.
	post(f *flight) error
	// blocked is called when there is no room.
	blocked()
	// probe is called from time to time while there is no room, and asks for a sign of life.
	probe()
	// silent is called when there was none. The session is over.
	silent()
}

// Producer appends to the log of a consumer. It lives longer than its connections: when
// one ends, appends wait for the next session.
type Producer struct {
	mu        sync.Mutex
	m         *sender
	link      link          // of the open session; nil: none
	level     Level         // of the session
	changed   chan struct{} // closed and replaced when link changes
	posting   bool          // somebody is in pump
	gathering bool          // the goroutine that has begun a group lets others join
	gathers   uint64        // number of gatherings so far
	expected  int           // appends that the next group is likely to have
	err       error         // why the producer has ended; nil: it has not
	silence   silence
	answers   chan offer // the last answer that has come over a connection
}

// offer is an answer and the connection that it came over.
type offer struct {
	c *rdmap.Conn
	a *Answer
}

var _ rdmap.Handler = (*Producer)(nil)

// NewProducer returns a producer without a session. Appends wait until Open or Attach.
func NewProducer(o *ProducerOptions) *Producer {
	if o == nil {
		o = new(ProducerOptions)
	}
	return &Producer{
		silence: silence{limit: o.Silence}, m: newSender(groups, o.Verify),
		changed: make(chan struct{}), answers: make(chan offer, 1),
	}
}

// Place returns how far the last session is; zeros before the first one. A program that has restarted knows by Next
// and LastEpoch which of its records have survived, and reads them with [Log.Read].
func (p *Producer) Place() Place {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.m.place
}

// Config returns the configuration of a connection for p: a copy of cfg, or the defaults if cfg
// is nil, with the extensions that a log needs. Its Handler is p, because the consumer announces
// free room by Immediate Data.
func (p *Producer) Config(cfg *rdmap.Config) *rdmap.Config {
	c := extended(cfg)
	c.Handler = p
	return c
}

// Open begins a session over c with the answer of Log.Advertise. c must have been made with
// p.Config. Open settles the appends that an earlier session left unanswered: those that have
// survived according to the answer return, and the others are sent again, in order.
//
// If another producer has appended since the last session of p, Open returns ErrLostRecords:
// whether unanswered appends of p have survived below its records cannot be known. Close p,
// read the log, and go on with a new Producer.
//
// Errors: ErrNoExtension, ErrBadAnswer, ErrNotVerifiable, ErrLostRecords, ErrClosed. Then there is no session.
func (p *Producer) Open(c *rdmap.Conn, a *Answer) error {
	if c.ConnectionState().Extensions&verbs.ExtCommit == 0 {
		return ErrNoExtension
	}
	return p.open(&remote{
		p: p, c: c, head: region.STag(a.HeadSTag), told: c.ConnectionState().Extensions&verbs.Ext7306 != 0,
	}, a)
}

func (p *Producer) open(l link, a *Answer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.err
	}
	p.m.Lost()
	over, err := p.m.Open(a)
	if err != nil {
		p.setLink(nil)
		return err
	}
	p.level = Placed
	if a.Persistent {
		p.level = Persistent
	}
	p.setLink(l)
	p.finish(over)
	p.pump(false)
	return nil
}

// Attach waits for the answer that Log.Serve sends over c, and opens the session. The consumer
// may not send first (RFC 5044 Section 7.1.2), so Attach asks with an empty Send.
func (p *Producer) Attach(ctx context.Context, c *rdmap.Conn) error {
	if err := c.Post([]verbs.WR{{Op: verbs.OpSend}}); err != nil {
		return err
	}
	for {
		select {
		case o := <-p.answers:
			if o.c == c {
				return p.Open(c, o.a)
			}
		case <-c.Done():
			return c.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// setLink changes the session and wakes those who wait for that. The caller holds p.mu.
func (p *Producer) setLink(l link) {
	p.link = l
	close(p.changed)
	p.changed = make(chan struct{})
}

// lost ends the session over l, if it is the current one. The caller holds p.mu.
func (p *Producer) lost(l link) {
	if p.link != l {
		return
	}
	// Whoever posts may see that the memory has failed before failBy says so: then no other session will come, for
	// which appends would wait.
	if s, ok := l.(*local); ok && s.failed() != nil {
		p.fail(s.failed())
		return
	}
	p.m.Lost()
	p.setLink(nil)
}

// gather is pump for an append that has just come. After a group was answered, those that were
// woken are likely to append again. gather waits for them, so that they make one group again,
// instead of one with the first of them and one with the others. The last of them posts it, because
// the first may have to wait for a processor. The caller holds p.mu, which gather releases
// meanwhile.
func (p *Producer) gather(stays bool) {
	whole := len(p.m.queue) >= p.expected
	switch {
	case p.gathering && !whole:
	case p.posting || whole:
		p.gathering = false
		p.pump(stays)
	default:
		n := p.letOthers()
		p.mu.Unlock()
		p.letIn(n)
	}
}

// letOthers begins a gathering and returns its number. The caller holds p.mu.
func (p *Producer) letOthers() uint64 {
	p.gathering = true
	p.gathers++
	return p.gathers
}

// letIn is pump after others had their turn, unless one of them has called pump. It locks p.mu.
func (p *Producer) letIn(n uint64) {
	runtime.Gosched()
	p.mu.Lock()
	if p.gathering && p.gathers == n {
		p.gathering = false
		p.pump(false)
	}
}

// pump posts what may be posted. Only one goroutine does so at a time, so that groups are sent in
// order. stays says that the caller has just appended and waits until that is over. The caller holds p.mu, which
// pump releases meanwhile.
func (p *Producer) pump(stays bool) {
	if p.posting || p.gathering {
		return
	}
	p.posting = true
	defer func() { p.posting = false }()
	for l := p.link; l != nil; l = p.link {
		alone := stays && len(p.m.queue) == 1
		b := p.m.Next()
		if b == nil {
			break
		}
		p.expected = 0
		f, ok := b.Tag.(*flight)
		if !ok {
			f = &flight{p: p, b: b}
			b.Tag = f
		}
		f.l, f.here, stays = l, alone, false
		p.mu.Unlock()
		err := l.post(f)
		p.mu.Lock()
		if err != nil {
			p.lost(l)
		}
	}
	if p.m.Blocked() && p.link != nil {
		p.link.blocked()
	}
}

// flight is a batch in flight. A batch that is reused keeps its flight.
type flight struct {
	p    *Producer
	l    link
	b    *batch
	here bool // it is one append, and the goroutine that posts it waits for it
}

// Complete implements verbs.Completer: the last operation has been answered.
func (f *flight) Complete(err error) {
	p := f.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link != f.l {
		return
	}
	if err != nil {
		p.lost(f.l)
		return
	}
	p.silence.life++
	over := p.m.Done(f.b)
	p.expected = len(p.m.queue) + len(over)
	p.finish(over)
	if len(over) > 0 && len(p.m.queue) > 0 && !p.posting {
		// This may be the goroutine of an append that is over, which will append again: the
		// next group waits until it has had its turn too.
		n := p.letOthers()
		go func() {
			p.letIn(n)
			p.mu.Unlock()
		}()
		return
	}
	p.pump(false)
}

// finish wakes those whose appends are over. The caller holds p.mu.
func (p *Producer) finish(over []*entry) {
	for _, e := range over {
		if w, ok := e.Tag.(*Pending); ok { // somebody waits for it
			w.level = p.level
			w.over()
		}
	}
}

// publishedBy sets the durable head of the session over l.
func (p *Producer) publishedBy(l link, head uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link == l {
		p.published(head)
	}
}

// published sets the durable head. The caller holds p.mu.
func (p *Producer) published(head uint64) {
	p.silence.life++
	p.m.Published(head)
	p.pump(false)
}

// end is called when the session over l has ended.
func (p *Producer) end(l link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost(l)
}

// HandleRecv implements rdmap.Handler. It receives the consumer's head, which comes as Immediate Data, or
// its answer.
func (p *Producer) HandleRecv(c *rdmap.Conn, m *verbs.Message) {
	c.PostRecv(1)
	switch m.Op {
	case verbs.OpImmediate, verbs.OpImmediateSE:
		p.mu.Lock()
		if r, ok := p.link.(*remote); ok && r.c == c && len(m.Data) == 8 {
			p.published(binary.BigEndian.Uint64(m.Data))
		}
		p.mu.Unlock()
	default:
		if a, err := ParseAnswer(m.Data); err == nil {
			select {
			case <-p.answers: // from a connection that nobody has attached
			default:
			}
			p.answers <- offer{c, a}
		}
	}
}

// HandleClose implements rdmap.Handler: the session is over.
func (p *Producer) HandleClose(c *rdmap.Conn, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := p.link.(*remote); ok && r.c == c {
		p.lost(r)
	}
}

// Close ends all appends with ErrClosed. Those in progress may be in the log. The connection is
// not closed.
func (p *Producer) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail(ErrClosed)
}

// fail ends the producer and all its appends. The caller holds p.mu.
func (p *Producer) fail(err error) {
	if p.err != nil {
		return
	}
	p.err = err
	p.silence.stop()
	over := p.m.Fail(err)
	p.setLink(nil)
	p.finish(over)
}

// failBy ends the producer if its session is over l: there will be no other one.
func (p *Producer) failBy(l link, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link == l {
		p.fail(err)
	}
}

// Errors of appends.
var (
	// ErrSilent: the consumer has given no sign of life for ProducerOptions.Silence.
	ErrSilent = errors.New("commitlog: no sign of life from the consumer")
	// ErrInDoubt: the context of an append ended, or the consumer was silent, while it was in progress. Its
	// record may be in the log now or later.
	ErrInDoubt = errors.New("commitlog: append given up, its record may be in the log")
)

// Level says how durable an append is.
type Level uint8

// The levels.
const (
	// Placed: the record is visible at the consumer, but is lost with its process, because the
	// memory of the log is not persistent.
	Placed Level = 1
	// Persistent: recovery finds the record.
	Persistent Level = 2
)

// String returns "placed" or "persistent".
func (l Level) String() string {
	if l == Persistent {
		return "persistent"
	}
	return "placed"
}

// Result is the result of an append.
type Result struct {
	Seq   uint64 // the number of the record
	Level Level  // how durable it is
}

// Pending is an append in progress.
type Pending struct {
	p     *Producer
	a     entry
	level Level
	w     rdmap.Waiter
	ch    chan struct{} // one slot, filled when the append is over
}

// Append appends a record and returns when it is part of the log. Appends of several goroutines
// share flushes. Append borrows payload until it returns.
//
// While there is no session, Append waits for one. If ctx ends first, the error is that of ctx. If the
// record may have been sent, the error also wraps ErrInDoubt; otherwise the record will never be sent. The same
// holds for ErrSilent, if ProducerOptions.Silence is set. Other errors: ErrTooLarge, ErrClosed.
func (p *Producer) Append(ctx context.Context, payload []byte) (Result, error) {
	return p.append(ctx, payload, false)
}

// TryAppend is Append, with ErrFull at once as from TryBegin.
func (p *Producer) TryAppend(ctx context.Context, payload []byte) (Result, error) {
	return p.append(ctx, payload, true)
}

func (p *Producer) append(ctx context.Context, payload []byte, now bool) (Result, error) {
	e, _ := pendings.Get().(*Pending)
	// A caller that may give up must not be the one that carries out the append.
	if err := e.begin(p, payload, now, ctx.Done() == nil); err != nil {
		return Result{}, err
	}
	r, err := e.Wait(ctx)
	if r.Seq != 0 { // it is over, and nobody else refers to it anymore
		pendings.Put(e)
	}
	return r, err
}

var pendings = sync.Pool{New: func() any { return &Pending{ch: make(chan struct{}, 1)} }}

// Begin starts an append; call Wait on the result. Appends that one goroutine begins one after the other
// are in the log in that order. Begin borrows payload until Wait returns. Errors: ErrTooLarge, ErrClosed.
func (p *Producer) Begin(payload []byte) (*Pending, error) {
	return p.newPending(payload, false)
}

// TryBegin is Begin for callers that the consumer may wait for before it releases records. If there is no
// room for the record after all records begun before it, it is not appended and the error is ErrFull.
// Before the first session TryBegin is the same as Begin.
func (p *Producer) TryBegin(payload []byte) (*Pending, error) {
	return p.newPending(payload, true)
}

// Released tells p the durable head, as Prepared.Head returns it: a release may be on its way to p still. A head
// that is impossible, or older than the one that p knows, changes nothing.
func (p *Producer) Released(head uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.published(head)
}

func (p *Producer) newPending(payload []byte, now bool) (*Pending, error) {
	e := &Pending{ch: make(chan struct{}, 1)}
	if err := e.begin(p, payload, now, false); err != nil {
		return nil, err
	}
	return e, nil
}

// begin queues payload; with now, only if there is room for it. stays says that the caller will
// wait until the append is over, whatever happens.
func (e *Pending) begin(p *Producer, payload []byte, now, stays bool) error {
	select {
	case <-e.ch:
	default:
	}
	e.w.Reset()
	e.p, e.a = p, entry{Payload: payload, Tag: e}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.err
	}
	if err := p.m.Add(&e.a, now); err != nil {
		if errors.Is(err, ErrFull) && p.link != nil {
			p.link.blocked()
		}
		return err
	}
	p.silence.begin(p)
	p.gather(stays)
	return nil
}

// over wakes the goroutine that waits.
func (e *Pending) over() {
	e.w.Complete(nil)
	e.ch <- struct{}{}
}

// Wait waits for the append, and returns what Producer.Append returns. Call it once.
func (e *Pending) Wait(ctx context.Context) (Result, error) {
	p := e.p
	for {
		p.mu.Lock()
		if e.a.Over {
			p.mu.Unlock()
			return Result{Seq: e.a.Seq, Level: e.level}, e.a.Err
		}
		if ctx.Err() != nil {
			defer p.mu.Unlock()
			if p.m.Abandon(&e.a) {
				return Result{}, ctx.Err()
			}
			return Result{}, fmt.Errorf("%w: %w", ErrInDoubt, ctx.Err())
		}
		l, changed := p.link, p.changed
		p.mu.Unlock()
		if r, ok := l.(*remote); ok && r.c.Wait(ctx, &e.w) == nil { // the caller may become the goroutine that reads the socket
			continue
		}
		select {
		case <-e.ch:
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// silence notices that a consumer gives no sign of life while appends wait for it. It counts ticks and not time: a
// process that was stopped itself must not give up when it goes on.
type silence struct {
	limit time.Duration // 0: none
	life  uint64        // signs of life so far
	seen  uint64        // life at the last tick
	ticks int           // without one
	timer *time.Timer   // nil: nobody waits
}

// silenceTicks is how often to look in one limit.
const silenceTicks = 4

// begin is called when an append begins.
func (s *silence) begin(p *Producer) {
	if s.limit <= 0 || s.timer != nil {
		return
	}
	s.seen, s.ticks = s.life, 0
	s.timer = time.AfterFunc(s.limit/silenceTicks, p.look)
}

func (s *silence) stop() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}

// look runs while appends wait.
func (p *Producer) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.silence
	switch {
	case s.timer == nil: // stopped
		return
	case !p.m.Waiting(): // for a whole tick, or nearly: the next append starts again
		s.timer = nil
		return
	case s.life != s.seen:
		s.seen, s.ticks = s.life, 0
	case s.ticks+1 < silenceTicks:
		s.ticks++
		if p.link != nil && p.m.Blocked() {
			p.link.probe()
		}
	default:
		p.giveUp()
		return
	}
	s.timer.Reset(s.limit / silenceTicks)
}

// giveUp ends all appends and the session. The caller holds p.mu.
func (p *Producer) giveUp() {
	p.silence.timer = nil
	err := fmt.Errorf("%w for %v", ErrSilent, p.silence.limit)
	over := p.m.GiveUp(err, fmt.Errorf("%w: %w", ErrInDoubt, err))
	if l := p.link; l != nil {
		p.lost(l)
		go l.silent() // in a goroutine: it may end sessions, which takes p.mu
	}
	p.finish(over)
}
