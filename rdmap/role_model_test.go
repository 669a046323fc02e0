package rdmap_test

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/internal/reading"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

var roleRuns = flag.Int("role.runs", 60, "runs of TestRoleModel for each link")

// roleWorld is a connection whose reading role passes from one goroutine to another, its peer, and what must be true when
// everything is at rest.
type roleWorld struct {
	t    *testing.T
	rng  *rand.Rand
	x, y *rdmap.Conn
	h    *roleHandler
	log  []string

	calls  map[uint64]*roleCall // those that have not returned, as far as the model knows
	last   uint64
	asked  *peerLog
	served sync.WaitGroup
	sent   int // unsolicited messages that x must see
	serve  bool
}

// roleCall is a running call.
type roleCall struct {
	ctx    *countedContext
	cancel context.CancelFunc
	done   chan error
	due    bool // it was answered, cancelled or completed: it must return
}

// countedContext counts how often the goroutine that waits with it checks it.
type countedContext struct {
	context.Context
	looks atomic.Int64
}

func (c *countedContext) Err() error {
	c.looks.Add(1)
	return c.Context.Err()
}

// roleHandler is a calls handler that also counts unsolicited messages, and stays in the upcall of some of them.
type roleHandler struct {
	Calls
	strange atomic.Int64
	inside  atomic.Int64 // upcalls that have handed off the role and still run
}

func (h *roleHandler) HandleRecv(c *rdmap.Conn, m *verbs.Message) {
	switch binary.BigEndian.Uint64(m.Data) {
	case 0:
		c.PostRecv(1)
		h.strange.Add(1)
	case 1:
		c.PostRecv(1)
		if c.HandOff() {
			h.inside.Add(1)
			time.Sleep(5 * time.Millisecond)
			h.inside.Add(-1)
		}
		h.strange.Add(1)
	default:
		h.Calls.HandleRecv(c, m)
	}
}

// peerLog is the peer's handler. It answers when the test tells it to.
type peerLog struct {
	mu  sync.Mutex
	ids []uint64
}

func (h *peerLog) HandleRecv(c *rdmap.Conn, m *verbs.Message) {
	c.PostRecv(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ids = append(h.ids, binary.BigEndian.Uint64(m.Data))
}

func (h *peerLog) HandleClose(*rdmap.Conn, error) {}

// take returns one of the calls that are not yet answered, at random.
func (h *peerLog) take(rng *rand.Rand) (id uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.ids) == 0 {
		return 0, false
	}
	i := rng.IntN(len(h.ids))
	id = h.ids[i]
	h.ids = slices.Delete(h.ids, i, i+1)
	return id, true
}

// remove removes id, if it is there.
func (h *peerLog) remove(id uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.ids, id)
	if i < 0 {
		return false
	}
	h.ids = slices.Delete(h.ids, i, i+1)
	return true
}

// TestRoleModel: calls, answers out of order, cancellations, completions by others, unsolicited messages, upcalls that
// hand off, Serve and every kind of end, in any order and at once. Whenever everything is at rest, every call with a
// result has returned, only one goroutine reads, and everything that the peer has sent has been received; the end is
// noticed within 100 ms.
func TestRoleModel(t *testing.T) {
	for _, scheme := range []string{"epoll", "parked"} {
		t.Run(scheme, func(t *testing.T) {
			seed := rand.Uint64()
			for run := range *roleRuns {
				w := &roleWorld{rng: rand.New(rand.NewPCG(seed, uint64(run)))}
				synctest.Test(t, func(t *testing.T) {
					w.run(t, scheme)
					if t.Failed() {
						t.Fatalf("seed %d, run %d: %v", seed, run, w.log)
					}
				})
			}
		})
	}
}

func (w *roleWorld) run(t *testing.T, scheme string) {
	w.t, w.calls = t, make(map[uint64]*roleCall)
	w.h = &roleHandler{Calls: Calls{Pending: make(map[uint64]*rdmap.Waiter)}}
	w.asked = new(peerLog)
	a, b := rdmaptest.Pipe()
	if scheme == "epoll" {
		wire := newRoleWire(t, a)
		w.x = rdmap.Client(wire, &rdmap.Config{Handler: w.h})
		w.x.SetLink(newRoleLink(wire))
	} else {
		w.x = rdmap.Client(a, &rdmap.Config{Handler: w.h})
	}
	w.y = rdmap.Server(b, &rdmap.Config{Handler: w.asked})
	hs := make(chan error, 1)
	go func() { hs <- w.y.Handshake(Background) }()
	noErr(t, w.x.Handshake(Background))
	noErr(t, <-hs)
	w.served.Go(func() { _ = w.y.Serve() })
	if w.rng.IntN(2) == 0 { // the responder may not speak first
		w.call()
	}
	for i := 0; i < 40 && !t.Failed(); i++ {
		w.step()
		if w.rng.IntN(3) > 0 {
			w.settle()
		}
	}
	w.settle()
	w.end()
}

func (w *roleWorld) logf(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

// step does one thing.
func (w *roleWorld) step() {
	switch k := w.rng.IntN(20); {
	case k < 6:
		for range 1 + w.rng.IntN(3) {
			w.call()
		}
	case k < 11:
		if id, ok := w.asked.take(w.rng); ok {
			w.answer(id)
		}
	case k < 13:
		if id, c := w.any(); c != nil {
			w.logf("cancel %d", id)
			c.due = true
			c.cancel()
		}
	case k < 14:
		if id, c := w.any(); c != nil {
			w.complete(id, c)
		}
	case k < 15:
		w.bothGo()
	case k < 17:
		w.unasked(uint64(w.rng.IntN(2)))
	case k < 18 && !w.serve && w.rng.IntN(4) == 0:
		w.logf("serve")
		w.serve = true
		w.served.Go(func() { _ = w.x.Serve() })
	default:
		d := []time.Duration{time.Millisecond, rdmap.TickEvery, rdmap.TickEvery + 1, 3 * rdmap.TickEvery}[w.rng.IntN(4)]
		w.logf("sleep %v", d)
		time.Sleep(d)
	}
}

func (w *roleWorld) call() {
	w.last++
	id := 1 + w.last
	ctx, cancel := context.WithCancel(Background)
	c := &roleCall{ctx: &countedContext{Context: ctx}, cancel: cancel, done: make(chan error, 1)}
	w.calls[id] = c
	w.logf("call %d", id)
	size := w.rng.IntN(600)
	go func() { c.done <- w.h.Call(c.ctx, w.x, id, size) }()
}

// any returns a random call that need not return yet.
func (w *roleWorld) any() (uint64, *roleCall) {
	var ids []uint64
	for id, c := range w.calls {
		if !c.due {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return 0, nil
	}
	slices.Sort(ids)
	id := ids[w.rng.IntN(len(ids))]
	return id, w.calls[id]
}

func (w *roleWorld) answer(id uint64) {
	w.logf("answer %d", id)
	if c := w.calls[id]; c != nil {
		c.due = true
	}
	w.send(id)
}

func (w *roleWorld) send(id uint64) {
	msg := make([]byte, 8+w.rng.IntN(600))
	binary.BigEndian.PutUint64(msg, id)
	if err := w.y.Post([]verbs.WR{{Op: verbs.OpSend, Head: msg}}); err != nil {
		w.t.Error(err)
	}
}

// unasked sends a message that no call waits for, once the peer may send.
func (w *roleWorld) unasked(kind uint64) {
	if w.y.Stats().FPDUsIn == 0 {
		return
	}
	w.logf("unasked %d", kind)
	w.sent++
	w.send(kind)
}

// complete completes a call without any input.
func (w *roleWorld) complete(id uint64, c *roleCall) {
	w.h.Mu.Lock()
	waiter := w.h.Pending[id]
	delete(w.h.Pending, id)
	w.h.Mu.Unlock()
	if waiter == nil {
		return // it has not begun, or is just being answered
	}
	w.logf("complete %d", id)
	c.due = true
	waiter.Complete(rdmaptest.ErrTest)
}

// bothGo makes the leader and the waiter that it will wake leave at the same time: the next waiter must not be
// forgotten.
func (w *roleWorld) bothGo() {
	r := w.x.Role()
	r.Mu.Lock()
	defer r.Mu.Unlock()
	var leader, next uint64
	var leads *rdmap.Waiter
	w.h.Mu.Lock()
	for id, waiter := range w.h.Pending {
		switch {
		case waiter == r.First():
			next = id
		case waiter.Reads():
			leader, leads = id, waiter
		}
	}
	w.h.Mu.Unlock()
	c := w.calls[next]
	if leads == nil || c == nil || c.due || !w.asked.remove(leader) {
		return
	}
	w.answer(leader)
	for i := 0; !leads.Done() && i < 1e6; i++ {
		runtime.Gosched()
	}
	spin() // it reaches the lock of the role
	c.due = true
	c.cancel()
	w.logf("cancel %d at the same time", next)
	spin()
}

func spin() {
	for range 50 {
		runtime.Gosched()
	}
}

// settle waits until everything is at rest, and checks what must be true then.
func (w *roleWorld) settle() {
	synctest.Wait()
	if late := w.collect(); int64(len(late)) > w.h.inside.Load() { // the leader may be in an upcall
		w.t.Errorf("calls %v wait for ever: %s", late, readerText(w.x))
	}
	for w.h.inside.Load() > 0 {
		time.Sleep(time.Millisecond)
		synctest.Wait()
	}
	if late := w.collect(); len(late) > 0 {
		w.t.Errorf("calls %v wait for ever, and no upcall runs: %s", late, readerText(w.x))
	}
	if w.rng.IntN(4) == 0 {
		w.oneWakes()
	}
	if got := int(w.h.strange.Load()); got != w.sent {
		time.Sleep(2*rdmap.TickEvery + 10*time.Millisecond) // two ticks, and the upcall
		synctest.Wait()
		if got := int(w.h.strange.Load()); got != w.sent {
			w.t.Errorf("%d of %d unsolicited messages were received: %s", got, w.sent, readerText(w.x))
		}
	}
}

// collect removes the calls that have returned, and returns those of the others that should have.
func (w *roleWorld) collect() (late []uint64) {
	for id, c := range w.calls {
		select {
		case err := <-c.done:
			if !c.due {
				w.t.Errorf("call %d returned %v although nobody has answered", id, err)
			}
			c.cancel()
			delete(w.calls, id)
		default:
			if c.due {
				late = append(late, id)
			}
		}
	}
	return late
}

// oneWakes answers one call of many: only its own goroutine, the one that read the answer and the one that reads next may
// have been woken.
func (w *roleWorld) oneWakes() {
	id, ok := w.asked.take(w.rng)
	if !ok || w.calls[id] == nil || len(w.calls) < 4 || w.t.Failed() {
		if ok {
			w.answer(id)
			synctest.Wait()
		}
		return
	}
	before := make(map[uint64]int64)
	for id, c := range w.calls {
		before[id] = c.ctx.looks.Load()
	}
	w.answer(id)
	synctest.Wait()
	woken := 0
	for id, c := range w.calls {
		if c.ctx.looks.Load() != before[id] {
			woken++
		}
	}
	if woken > 3 {
		w.t.Errorf("one answer woke %d of %d", woken, len(w.calls))
	}
}

func readerText(c *rdmap.Conn) string {
	r := c.Role()
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return fmt.Sprintf("reader %d, active %v, queue %v", r.State(), r.Active(), r.First() != nil)
}

// end ends the connection in one of several ways. All waiters return, and no goroutine is left, which synctest checks.
func (w *roleWorld) end() {
	ends := []func(){
		func() { go w.y.Close() },
		func() { w.y.Terminate(verbs.TermCode{}, nil) },
		func() { w.y.Abort(nil) },
		func() { go w.x.Close() },
		func() { w.x.Abort(nil) },
	}
	k := w.rng.IntN(len(ends))
	w.logf("end %d", k)
	ends[k]()
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
	if !w.h.Closed.Load() {
		w.t.Errorf("the end was not noticed within 100 ms: %s", readerText(w.x))
		w.x.Abort(nil)
	}
	for id, c := range w.calls {
		select {
		case <-c.done:
		case <-time.After(10 * time.Second):
			w.t.Errorf("call %d did not end with the connection", id)
		}
		c.cancel()
	}
	w.y.Abort(nil)
	<-w.x.Done()
	<-w.y.Done()
	w.served.Wait()
}

// roleWire is a link like tcpLink, but without a kernel: with reads that need not wait, and a one-shot watch for input or
// the end. It is for use in a synctest bubble, and fails the test if two goroutines read at the same time.
type roleWire struct {
	net.Conn // below: a Pipe
	t        *testing.T

	mu       sync.Mutex
	in       []byte
	err      error // how the input ends
	deadline time.Time
	changed  chan struct{} // closed at every change
	known    bool          // registered: watch was called
	watched  func()        // nil if not armed
	hup      bool          // armed only for the end
	ready    func()

	reading atomic.Int32
}

// newRoleWire returns a roleWire that reads everything from the connection below.
func newRoleWire(t *testing.T, below net.Conn) *roleWire {
	w := &roleWire{Conn: below, t: t, changed: make(chan struct{})}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := below.Read(buf)
			w.change(func() { w.in, w.err = append(w.in, buf[:n]...), err })
			if err != nil {
				return
			}
		}
	}()
	return w
}

// change lets f change the wire, and wakes those who wait for that.
func (w *roleWire) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	close(w.changed)
	w.changed = make(chan struct{})
	if ready := w.watched; ready != nil && (w.err != nil || !w.hup && len(w.in) > 0) {
		w.watched = nil
		go ready()
	}
}

// next returns what has arrived.
func (w *roleWire) next(p []byte) (n int, changed <-chan struct{}, deadline time.Time, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !w.deadline.IsZero() && !time.Now().Before(w.deadline):
		err = os.ErrDeadlineExceeded
	case len(w.in) > 0:
		n = copy(p, w.in)
		w.in = w.in[n:]
	default:
		err = w.err
	}
	return n, w.changed, w.deadline, err
}

func (w *roleWire) Read(p []byte) (int, error) {
	for {
		n, changed, deadline, err := w.next(p)
		if n > 0 || err != nil {
			return n, err
		}
		var late <-chan time.Time
		if !deadline.IsZero() {
			late = time.After(time.Until(deadline))
		}
		select {
		case <-changed:
		case <-late:
		}
	}
}

func (w *roleWire) SetReadDeadline(t time.Time) error {
	w.change(func() { w.deadline = t })
	return nil
}

func (w *roleWire) SetDeadline(t time.Time) error {
	_ = w.SetReadDeadline(t)
	return w.Conn.SetWriteDeadline(t)
}

func (w *roleWire) Close() error {
	w.change(func() { w.err = net.ErrClosed })
	return w.Conn.Close()
}

// roleLink is a roleWire as a rdmap.Link.
type roleLink struct {
	*rdmap.Stream
	w *roleWire
}

func newRoleLink(w *roleWire) roleLink { return roleLink{rdmap.NewStream(w), w} }

// Read implements rdmap.Link.
func (l roleLink) Read(to rdmap.Source, wait bool) (int, error) {
	if l.w.reading.Add(1) > 1 {
		l.w.t.Error("two goroutines read at the same time")
	}
	defer l.w.reading.Add(-1)
	if wait {
		return l.Stream.Read(to, true)
	}
	room, _ := to.Room(false)
	n, _, _, err := l.w.next(room[:min(len(room), 300)])
	to.Got(n)
	if n == 0 && err != nil {
		err = reading.ReadError(err)
	}
	return n, err
}

func (l roleLink) CloseWrite() bool {
	return l.w.Conn.(interface{ CloseWrite() error }).CloseWrite() == nil
}

func (l roleLink) Watch(ready func()) bool {
	l.w.change(func() { l.w.watched, l.w.ready, l.w.hup, l.w.known = ready, ready, false, true })
	return true
}

func (l roleLink) Unwatch() {
	l.w.change(func() {
		if l.w.known {
			l.w.watched, l.w.hup = l.w.ready, true
		}
	})
}

func (l roleLink) Forget() { l.w.change(func() { l.w.watched, l.w.known = nil, false }) }
