package rpcrdma_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/credits"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// end is one end of a connection with both directions: two machines and one ring of
// receives.
type end struct {
	q      *rpcrdma.Requester
	p      *rpcrdma.Responder
	client bool
	posted int                // receives in the ring
	in     [][]byte           // Sends on their way here, in order
	served []*rpcrdma.Inbound // calls taken and not answered
	waits  map[uint32]*rpcrdma.Call
}

// backModel is a connection with both directions under random load.
type backModel struct {
	t        *testing.T
	rnd      *rand.Rand
	ends     [2]*end // client, server
	answered [2]int
	refused  int
}

func newBackModel(t *testing.T, seed uint64) *backModel {
	m := &backModel{t: t, rnd: rand.New(rand.NewPCG(seed, 3))}
	fwd, back := 1+m.rnd.Uint32N(12), 1+m.rnd.Uint32N(12)
	ends := func(client bool, asks, grants uint32) *end {
		return &end{
			client: client, waits: map[uint32]*rpcrdma.Call{},
			q: made(rpcrdma.NewRequester(rpcrdma.RequesterConfig{Credits: asks, NoChunks: true, Bidirectional: true})),
			p: made(rpcrdma.NewResponder(rpcrdma.ResponderConfig{Credits: grants, NoChunks: true, Bidirectional: true})),
		}
	}
	c, s := ends(true, fwd, 1+m.rnd.Uint32N(12)), ends(false, back, 1+m.rnd.Uint32N(12))
	m.ends = [2]*end{c, s}
	c.posted = int(fwd) + credits.Slack // for replies, as transport's client does
	m.post(c)
	m.post(s)
	return m
}

// post puts up the receives that the responder of an end needs.
func (m *backModel) post(e *end) {
	n := e.p.Credits().Need()
	e.posted += n
	e.p.Credits().Posted(n)
}

// call begins a call at end i, if it has a credit. XIDs come from a space so small that
// those of the two directions meet all the time.
func (m *backModel) call(i int) {
	e := m.ends[i]
	xid := m.rnd.Uint32N(32)
	if e.waits[xid] != nil {
		return
	}
	c := &rpcrdma.Call{XID: xid, Prog: 100003, Vers: 3, Message: chunks.Message{Head: rpcCall(xid, uint32(i))}}
	if m.rnd.IntN(5) == 0 { // the peer answers with ERR_CHUNK
		c.Message.Head = rpcCall(xid+1, uint32(i))
	}
	if e.q.Plan(c) != nil || e.q.Begin(c) != nil {
		return
	}
	if !e.client { // RFC 8167 Section 4.3.2: a receive for each backward call it sends
		e.p.Credits().Expect(1)
		m.post(e)
	}
	e.waits[xid] = c
	send, _, err := e.q.AppendCall(nil, c)
	if err != nil {
		m.t.Fatal(err)
	}
	m.ends[1-i].in = append(m.ends[1-i].in, send)
}

// deliver hands the next Send to end i.
func (m *backModel) deliver(i int) {
	e := m.ends[i]
	if len(e.in) == 0 {
		return
	}
	send := e.in[0]
	e.in = e.in[1:]
	if e.posted == 0 {
		m.t.Fatal("a Send finds no receive: the connection is lost")
	}
	e.posted--
	if rpcrdma.ForRequester(send, e.client) {
		m.reply(i, e, send)
		return
	}
	in := new(rpcrdma.Inbound)
	v := e.p.Receive(send, in)
	m.post(e)
	if v != rpcrdma.Dispatch && v != rpcrdma.Answer {
		m.t.Fatalf("%v: %v", v, in.Err)
	}
	if v == rpcrdma.Dispatch && in.RPC.Proc != uint32(1-i) {
		m.t.Fatalf("a call of end %d came to end %d", in.RPC.Proc, i)
	}
	e.served = append(e.served, in)
}

// reply takes an answer.
func (m *backModel) reply(i int, e *end, send []byte) {
	if e.client {
		e.posted++
	} else {
		if !e.p.Credits().ReceivedOther() {
			m.t.Fatal("an answer that the server did not expect")
		}
		m.post(e)
	}
	c, err := e.q.Receive(send)
	if c == nil || e.waits[c.XID] != c {
		m.t.Fatalf("an answer for nobody: %v", err)
	}
	delete(e.waits, c.XID)
	bad := binary.BigEndian.Uint32(c.Message.Head) != c.XID
	switch {
	case bad != (c.Result.Err != nil):
		m.t.Fatalf("%v", c.Result.Err)
	case bad:
		m.refused++
	case c.Result.Results[3] != byte(1-i):
		m.t.Fatal("the reply to a call of the other direction")
	}
	m.answered[i]++
}

// answer answers one of the calls that end i has taken.
func (m *backModel) answer(i int) {
	e := m.ends[i]
	if len(e.served) == 0 {
		return
	}
	k := m.rnd.IntN(len(e.served))
	in := e.served[k]
	e.served = append(e.served[:k], e.served[k+1:]...)
	var send []byte
	if in.Err != nil {
		send = e.p.AppendAnswer(nil, in)
	} else {
		var out rpcrdma.Reply
		reply := &chunks.Message{Head: rpcReply(in.Header.XID), Body: xdr.AppendUint32(nil, uint32(i))}
		e.p.Reply(nil, in, reply, &out)
		send = out.Head
	}
	m.ends[1-i].in = append(m.ends[1-i].in, send)
}

// check compares what may come with the receives that are posted.
func (m *backModel) check() {
	for i, e := range m.ends {
		peer := m.ends[1-i]
		if err := e.p.Credits().Check(); err != nil {
			m.t.Fatal(err)
		}
		calls := 0
		for _, send := range e.in {
			if !rpcrdma.ForRequester(send, e.client) {
				calls++
			}
		}
		if may := calls + peer.q.Available(); may > e.p.Credits().Outstanding() {
			m.t.Fatalf("end %d: %d calls may come, it counts %d", i, may, e.p.Credits().Outstanding())
		}
		if worst := len(e.in) + peer.q.Available(); worst > e.posted {
			m.t.Fatalf("end %d: %d Sends may come, %d receives", i, worst, e.posted)
		}
		if e.q.InFlight() == 0 && e.q.Available() == 0 {
			m.t.Fatalf("end %d: nothing in flight and no credit", i)
		}
	}
}

// TestBackwardModel: credits outstanding never exceed receives posted, in both directions at
// once, over colliding XIDs, refusals and changing limits; and every call is answered.
func TestBackwardModel(t *testing.T) {
	const seeds, steps = 40, 2500
	refused := 0
	for seed := range uint64(seeds) {
		m := newBackModel(t, seed)
		for range steps {
			i := m.rnd.IntN(2)
			switch k := m.rnd.IntN(100); {
			case k < 40:
				m.call(i)
			case k < 70:
				m.deliver(i)
			case k < 98:
				m.answer(i)
			default:
				m.ends[i].p.Credits().SetLimit(1 + m.rnd.Uint32N(12))
				m.post(m.ends[i])
			}
			m.check()
		}
		for i := 0; len(m.ends[0].waits)+len(m.ends[1].waits) > 0; i++ {
			if i > 10_000 {
				t.Fatal("deadlock: calls without an answer")
			}
			for i := range m.ends {
				m.deliver(i)
				m.answer(i)
			}
			m.check()
		}
		if m.answered[0] < steps/100 || m.answered[1] < steps/100 {
			t.Errorf("seed %d: %d forward and %d backward calls answered", seed, m.answered[0], m.answered[1])
		}
		refused += m.refused
	}
	if refused < seeds*steps/200 {
		t.Errorf("%d refusals", refused)
	}
}
