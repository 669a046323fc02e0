package ddp

import "slices"

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

func (q *fakeQueue) Open(s *Segment) ([]byte, bool) {
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
	mem    map[STag][]byte
	fault  map[STag]Violation
	pins   int
	calls  int
	cheat  int // return that many octets more than requested
	placed int
}

func (f *fakeSinks) Sink(s *Segment, n int) ([]byte, Violation) {
	f.calls++
	if v := f.fault[s.STag]; v != OK {
		return nil, v
	}
	m, ok := f.mem[s.STag]
	switch {
	case !ok:
		return nil, InvalidSTag
	case s.TO+uint64(n)-1 < s.TO:
		return nil, TOWrap
	case s.TO+uint64(n) > uint64(len(m)) || s.TO+uint64(n) < s.TO:
		return nil, BaseBounds
	}
	f.pins++
	return m[s.TO : s.TO+uint64(n+f.cheat)], OK
}

func (f *fakeSinks) Placed(*Segment) { f.pins--; f.placed++ }

// rig is a Receiver with four queues and some memory.
type rig struct {
	*Receiver
	q      [NumQueues]*fakeQueue
	sinks  *fakeSinks
	byHand bool
}

func newRig() *rig {
	g := &rig{sinks: &fakeSinks{
		mem:   map[STag][]byte{0x11223344: make([]byte, 64), 0x55: make([]byte, 32)},
		fault: map[STag]Violation{0x66: NotAssociated, 0x77: InvalidSTag},
	}}
	cfg := Config{Sinks: g.sinks}
	for i := range g.q {
		g.q[i] = &fakeQueue{posted: 4, size: 64}
		cfg.Queues[i] = g.q[i]
	}
	g.Receiver = NewReceiver(cfg)
	return g
}

// receive passes one ULPDU to the machine, without RDMAP's checks. Of the ULPDUs that continue or
// repeat a message, the caller places every other one.
func (g *rig) receive(u []byte) (Event, error) {
	g.byHand = !g.byHand
	if g.byHand && g.Continues(u) {
		var s Segment
		s.Parse(u)
		n := len(u) - TaggedLen
		if dst, v := g.sinks.Sink(&s, n); v == OK {
			copy(dst, u[TaggedLen:])
			g.sinks.Placed(&s)
			g.Continue(n)
			return Event{Tagged: true, Placed: n, Length: g.tagged.placed}, nil
		}
	}
	if g.byHand && g.Repeats(u) {
		q, n := g.q[g.seg.QN], len(u)-UntaggedLen
		if q.posted > 0 && n <= q.size {
			q.posted--
			g.Repeat(n)
			return Event{Placed: n, Length: uint64(n), Delivered: true, Data: u[UntaggedLen:]}, nil
		}
	}
	s, err := g.Header(u, len(u))
	if err != nil {
		return Event{}, err
	}
	return g.Place(u[s.HeaderLen():])
}

// seg builds a ULPDU.
func seg(s Segment, payload string) []byte { return append(s.Append(nil), payload...) }

// memory returns a copy of all memory that could have been written.
func (g *rig) memory() [][]byte {
	var all [][]byte
	for _, s := range []STag{0x11223344, 0x55} {
		all = append(all, slices.Clone(g.sinks.mem[s]))
	}
	for _, q := range g.q {
		for _, b := range q.opened {
			all = append(all, slices.Clone(b))
		}
	}
	return all
}
