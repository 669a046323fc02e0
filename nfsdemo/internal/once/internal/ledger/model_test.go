package ledger

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stag-rdma/stag/internal/callid"
)

// world is a server with a ledger, its log, its clients and its files, one step at a time.
// The log keeps its order; a crash leaves what was flushed and, of the rest, any beginning.
type world struct {
	t   *testing.T
	r   *rand.Rand
	l   *Ledger
	lim Limits
	now int64

	log     [][]byte
	head    int // released
	passed  int // looked at by the sweeper, head <= passed
	flushed int
	flights []*flight
	calls   []*call
}

// call is a call that must run once.
type call struct {
	key      Key
	executed int
	acked    []byte // the reply that has left; nil: none
	busy     bool   // a transmission is being worked on
}

// flight is a transmission that the server works on.
type flight struct {
	c     *call
	e     *Entry
	phase int
	seen  int // flushed beyond this
}

func newWorld(t *testing.T, seed uint64, lim Limits) *world {
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 1)), lim: lim, now: 1e9}
	w.l = New(lim)
	return w
}

func (w *world) append(b []byte) int {
	w.log = append(w.log, bytes.Clone(b))
	return len(w.log)
}

// arrive is a new call or a repeated one.
func (w *world) arrive() {
	var c *call
	if n := len(w.calls); n > 0 && w.r.IntN(3) == 0 {
		c = w.calls[max(0, n-1-w.r.IntN(4))]
	} else {
		c = &call{key: Key{Call: callid.Call{Client: callid.Client{Addr: "a"}, XID: uint32(n)}}}
		w.calls = append(w.calls, c)
	}
	e, first := w.l.Begin(c.key, w.now)
	switch {
	case first && c.busy:
		w.t.Fatalf("call %d is running, but counts as new", c.key.XID)
	case first:
		c.busy = true
		w.flights = append(w.flights, &flight{c: c, e: e})
	case e.Done():
		w.check(c, e.Result())
	case !c.busy:
		w.t.Fatalf("call %d is not running, but does not count as new", c.key.XID)
	}
}

// check: the reply is the one that has left, if one has.
func (w *world) check(c *call, reply []byte) {
	if c.acked != nil && !bytes.Equal(c.acked, reply) {
		w.t.Fatalf("call %d is answered with %q, but before with %q", c.key.XID, reply, c.acked)
	}
	c.acked = bytes.Clone(reply)
}

// work continues with one transmission.
func (w *world) work() {
	if len(w.flights) == 0 {
		return
	}
	i := w.r.IntN(len(w.flights))
	f := w.flights[i]
	switch f.phase {
	case 0:
		b := w.l.Intend(f.e, make([]byte, w.r.IntN(100)), []byte("state"), w.now)
		if b == nil {
			return
		}
		f.seen = w.append(b)
	case 1:
		if w.flushed < f.seen {
			return
		}
		if w.r.IntN(8) == 0 { // refused by the service
			w.append(w.l.Void(f.e))
			w.finish(i)
			return
		}
		w.execute(f.c)
	case 2:
		f.seen = w.append(w.l.Reply(f.e, w.result(f.c), w.now))
	case 3:
		if w.flushed < f.seen {
			return
		}
		w.l.Done(f.e, w.now)
		w.check(f.c, f.e.Result())
		w.finish(i)
		return
	}
	f.phase++
}

func (w *world) execute(c *call) {
	if c.executed++; c.executed > 1 {
		w.t.Fatalf("%d is executed again", c.key.XID)
	}
}

// result is the result of the first execution; a second one would have another.
func (w *world) result(c *call) []byte { return fmt.Appendf(nil, "%d: %d", c.key.XID, c.executed) }

func (w *world) finish(i int) {
	w.flights[i].c.busy = false
	w.flights = append(w.flights[:i], w.flights[i+1:]...)
}

// sweep looks at some records, and releases them when all that was written again is durable.
func (w *world) sweep() {
	for w.passed < w.flushed && w.l.space.passed < w.lim.Capacity/16 && w.r.IntN(8) > 0 {
		b, fate := w.l.Pass(w.log[w.passed], w.now)
		if fate == Wait {
			break
		}
		if fate == Copy {
			w.append(b)
		}
		w.passed++
	}
	if w.r.IntN(2) == 0 {
		w.flushed = len(w.log)
		w.head = w.passed
		w.l.Released()
	}
}

// crash begins another life. Settling shows what was executed.
func (w *world) crash() {
	w.log = w.log[:w.flushed+w.r.IntN(len(w.log)-w.flushed+1)]
	w.flights = nil
	for _, c := range w.calls {
		c.busy = false
	}
	v := Recover()
	for _, b := range w.log[w.head:] {
		if err := v.Add(b); err != nil {
			w.t.Fatal(err)
		}
	}
	w.passed = w.head
	w.now += int64(w.r.IntN(1e6)) // however long
	l, open := v.End(w.lim, w.now)
	w.l = l
	for _, u := range open {
		c := w.calls[u.Key.XID]
		if c.executed == 0 {
			w.append(l.Void(u.Entry))
			continue
		}
		w.append(l.Reply(u.Entry, w.result(c), w.now))
		l.Done(u.Entry, w.now)
	}
	w.flushed = len(w.log)
	for _, c := range w.calls {
		if c.acked == nil {
			continue
		}
		if e := l.calls[c.key]; e == nil || !e.Done() || !bytes.Equal(e.Result(), c.acked) {
			w.t.Fatalf("the reply to %d is lost", c.key.XID)
		}
	}
}

// sane checks that the counters match the content.
func (w *world) sane() {
	used, live, kept := 0, 0, 0
	for _, b := range w.log[w.head:] {
		used += recordSize(len(b))
	}
	for _, e := range w.l.calls {
		if e.intent != nil {
			live += recordSize(len(e.intent))
		}
		if e.phase != running {
			live += e.size
		}
		if e.phase == done {
			kept += e.size
		}
	}
	if s := w.l.space; s.used != used || s.live != live || s.kept != kept {
		w.t.Fatalf("%+v; counted: used %d, live %d, kept %d", s, used, live, kept)
	}
	if used > w.lim.Capacity {
		w.t.Fatalf("%d octets of a ring of %d", used, w.lim.Capacity)
	}
}

// TestModel crashes a busy server again and again, in random interleavings: no call is
// executed twice, no reply that has left is lost or changed, and the ring is never
// full of records that nobody needs (ADVERSARY 21, 23).
func TestModel(t *testing.T) {
	for seed := range uint64(60) {
		w := newWorld(t, seed, Limits{Entries: 1 << 20, PerAddr: 1 << 20, Time: 1 << 60, Capacity: 1 << 20, MaxReply: 64})
		for range 600 {
			w.now++
			switch k := w.r.IntN(100); {
			case k < 25:
				w.arrive()
			case k < 75:
				w.work()
			case k < 90:
				w.flushed += w.r.IntN(len(w.log) - w.flushed + 1)
			case k < 98:
				w.sweep()
			default:
				w.crash()
			}
			w.sane()
		}
		executed := 0
		for _, c := range w.calls {
			executed += c.executed
		}
		if executed < 20 {
			t.Errorf("seed %d: %d calls executed", seed, executed)
		}
	}
}

// TestModelFull is the same with a ring that is nearly always full, and a bound on replies
// that leaves out what is sent again late.
func TestModelFull(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(t, seed, Limits{Entries: 12, PerAddr: 12, Time: 1 << 60, Capacity: 32 << 10, MaxReply: 64})
		for range 2000 {
			w.now++
			switch k := w.r.IntN(100); {
			case k < 25:
				if len(w.flights) < 8 {
					w.calls = w.calls[max(0, len(w.calls)-8):] // older ones do not come again
					w.arriveNew()
				}
			case k < 75:
				w.work()
			case k < 90:
				w.flushed = len(w.log)
			case w.l.Crowded():
				w.sweep()
			}
			w.sane()
		}
		if s := w.l.Stats(); s.Evicted == 0 || s.Replies > 12 || w.head == 0 {
			t.Errorf("seed %d: %+v, released %d", seed, s, w.head)
		}
	}
}

// arriveNew is a call that has not come before.
func (w *world) arriveNew() {
	c := &call{key: Key{Call: callid.Call{Client: callid.Client{Addr: "a"}, XID: w.r.Uint32()}}, busy: true}
	w.calls = append(w.calls, c)
	e, first := w.l.Begin(c.key, w.now)
	if !first {
		w.t.Fatal("a new call is known")
	}
	w.flights = append(w.flights, &flight{c: c, e: e})
}
