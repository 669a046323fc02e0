package ddp_test

import (
	"slices"

	"github.com/stag-rdma/stag/rdmap/ddp"
)

// fakeQueue is a Queue with a new buffer for each message, surrounded by guard octets.
type fakeQueue struct {
	posted, size int
	inPlace      bool // deliver whole messages where they lie
	stall        bool
	short        bool // break the contract: a buffer smaller than Size
	opened       [][]byte
}

func (q *fakeQueue) Posted() int { return q.posted }
func (q *fakeQueue) Size() int   { return q.size }

func (q *fakeQueue) Open(s *ddp.Segment) ([]byte, bool) {
	if q.stall {
		return nil, false
	}
	q.posted--
	if q.inPlace && s.Last {
		return nil, true
	}
	n := q.size
	if q.short {
		n = 1
	}
	b := make([]byte, n)
	q.opened = append(q.opened, b)
	return b, true
}

// fakeSinks is a Sinks over a map, with pins counted.
type fakeSinks struct {
	mem    map[ddp.STag][]byte
	fault  map[ddp.STag]ddp.Violation
	pins   int
	calls  int
	cheat  int // return that many octets more than requested
	placed int
}

func (f *fakeSinks) Sink(s *ddp.Segment, n int) ([]byte, ddp.Violation) {
	f.calls++
	if v := f.fault[s.STag]; v != ddp.OK {
		return nil, v
	}
	m, ok := f.mem[s.STag]
	switch {
	case !ok:
		return nil, ddp.InvalidSTag
	case s.TO+uint64(n)-1 < s.TO:
		return nil, ddp.TOWrap
	case s.TO+uint64(n) > uint64(len(m)) || s.TO+uint64(n) < s.TO:
		return nil, ddp.BaseBounds
	}
	f.pins++
	return m[s.TO : s.TO+uint64(n+f.cheat)], ddp.OK
}

func (f *fakeSinks) Placed(*ddp.Segment) { f.pins--; f.placed++ }

// rig is a Receiver with four queues and some memory.
type rig struct {
	*ddp.Receiver
	cfg    ddp.Config
	q      [ddp.NumQueues]*fakeQueue
	sinks  *fakeSinks
	byHand bool

	// What has come so far.
	next             [ddp.NumQueues]uint32 // MSN
	tagged, untagged openMessage
}

// openMessage is a message of which the last segment has not come.
type openMessage struct {
	open   bool
	first  ddp.Segment
	placed uint64
}

func newRig() *rig {
	g := &rig{sinks: &fakeSinks{
		mem:   map[ddp.STag][]byte{0x11223344: make([]byte, 64), 0x55: make([]byte, 32)},
		fault: map[ddp.STag]ddp.Violation{0x66: ddp.NotAssociated, 0x77: ddp.InvalidSTag},
	}}
	g.cfg.Sinks = g.sinks
	for i := range g.q {
		g.q[i] = &fakeQueue{posted: 4, size: 64}
		g.cfg.Queues[i] = g.q[i]
		g.next[i] = ddp.FirstMSN
	}
	g.begin()
	return g
}

// begin makes a Receiver of the Config.
func (g *rig) begin() { g.Receiver = ddp.NewReceiver(g.cfg) }

// setNext makes msn that of the next message of a queue.
func (g *rig) setNext(qn int, msn uint32) {
	g.next[qn] = msn
	g.SetNext(qn, msn)
}

// note keeps what a segment that was placed has changed.
func (g *rig) note(s ddp.Segment, ev ddp.Event) {
	m := &g.untagged
	if s.Tagged {
		m = &g.tagged
	}
	// A Terminate, on queue 2, may come inside another message.
	if !m.open || !s.Tagged && s.QN != m.first.QN {
		m.open, m.first = true, s
		if !s.Tagged {
			g.next[s.QN]++
		}
	}
	m.open, m.placed = !ev.Delivered, ev.Length
}

// receive passes one ULPDU to the machine, without RDMAP's checks. Of the ULPDUs that continue or
// repeat a message, the caller places every other one.
func (g *rig) receive(u []byte) (ddp.Event, error) {
	var s ddp.Segment
	s.Parse(u)
	ev, err := g.pass(s, u)
	if err == nil {
		g.note(s, ev)
	}
	return ev, err
}

func (g *rig) pass(s ddp.Segment, u []byte) (ddp.Event, error) {
	g.byHand = !g.byHand
	if g.byHand && g.Continues(u) {
		n := len(u) - ddp.TaggedLen
		if dst, v := g.sinks.Sink(&s, n); v == ddp.OK {
			copy(dst, u[ddp.TaggedLen:])
			g.sinks.Placed(&s)
			g.Continue(n)
			return ddp.Event{Tagged: true, Placed: n, Length: g.tagged.placed + uint64(n)}, nil
		}
	}
	if g.byHand && g.Repeats(u) {
		q, n := g.q[s.QN], len(u)-ddp.UntaggedLen
		if q.posted > 0 && n <= q.size {
			q.posted--
			g.Repeat(n)
			return ddp.Event{Placed: n, Length: uint64(n), Delivered: true, Data: u[ddp.UntaggedLen:]}, nil
		}
	}
	h, err := g.Header(u, len(u))
	if err != nil {
		return ddp.Event{}, err
	}
	return g.Place(u[h.HeaderLen():])
}

// seg builds a ULPDU.
func seg(s ddp.Segment, payload string) []byte { return append(s.Append(nil), payload...) }

// memory returns a copy of all memory that could have been written.
func (g *rig) memory() [][]byte {
	var all [][]byte
	for _, s := range []ddp.STag{0x11223344, 0x55} {
		all = append(all, slices.Clone(g.sinks.mem[s]))
	}
	for _, q := range g.q {
		for _, b := range q.opened {
			all = append(all, slices.Clone(b))
		}
	}
	return all
}
