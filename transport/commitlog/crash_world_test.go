package commitlog_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// world is a producer and a consumer, the machines without the layer above them, and a
// wire whose every message is a step of the script: what the layer of goroutines may
// do in any order, in an order that repeats.
type world struct {
	x    *pmemtest.Trial
	mem  *commitlog.Memory
	cons *commitlog.Consumer
	prod *commitlog.Sender
	link *link

	adds     []*commitlog.Entry
	payloads map[*commitlog.Entry]string
	heads    []uint64 // published, not yet arrived
	taken    uint64   // sequence number of the last record handed out
	made     int
	eager    bool // a published head is used at once
	segment  int  // octets placed at once
	lazyTail uint64
	err      error
}

// link is one connection. Writes are placed when they arrive, all else queues and is
// executed one at a time, each in two steps: it finds the memory, then it acts.
type link struct {
	wire             []message
	queue            []message
	running          *message
	answers          []*commitlog.Batch
	revoked, dead    bool
	mem              [2]region.Guarded // by STag: the ring, the tail word
	corruptNextWrite bool
}

// message is an operation on its way; batch is set on the last one of a batch.
type message struct {
	op    verbs.WR
	batch *commitlog.Batch
}

type worldOptions struct {
	mode     commitlog.Mode
	capacity uint64
	verify   bool
	inFlight int
	batch    int
	eager    bool
	segment  int    // if 0, 96, which does not end with lines
	lazyTail uint64 // if 0, that of a log
}

var testID = [16]byte{'l', 'o', 'g'}

// newWorld creates a log on zeros.
func newWorld(x *pmemtest.Trial, o worldOptions) (*world, error) {
	w := &world{x: x, payloads: make(map[*commitlog.Entry]string), eager: o.eager}
	w.limits(&o)
	if err := w.attach(); err != nil {
		return nil, err
	}
	steps, err := commitlog.Creation(commitlog.Header{
		Mode: o.mode, Capacity: o.capacity, ID: testID, Key: [16]byte{'k'},
	})
	if err != nil {
		return nil, err
	}
	if err := w.do(steps); err != nil {
		return nil, err
	}
	return w, w.recover()
}

func (w *world) limits(o *worldOptions) {
	if o.inFlight == 0 {
		o.inFlight = 2
	}
	if o.batch == 0 {
		o.batch = 1 << 20
	}
	if o.segment == 0 {
		o.segment = 96
	}
	w.segment, w.lazyTail = o.segment, o.lazyTail
	w.prod = commitlog.NewSender(commitlog.Limits{InFlight: o.inFlight, Batch: o.batch}, o.verify)
}

func (w *world) attach() (err error) {
	w.mem, err = commitlog.NewMemory(w.x.Mem)
	if err == nil && w.lazyTail > 0 {
		w.mem.LazyTail = w.lazyTail
	}
	return err
}

// recover makes a consumer of what the memory holds.
func (w *world) recover() error {
	st, err := commitlog.RecoverLog(w.mem, w.mem.Size(), nil)
	if err != nil {
		return err
	}
	w.cons = commitlog.NewConsumer(w.mem, st)
	w.taken = st.Head.Seq - 1
	return w.do(w.cons.Start())
}

// do executes steps of the consumer. The producer may read a published head at once.
func (w *world) do(steps []commitlog.Step) error {
	for i := range steps {
		if err := w.mem.Step(&steps[i]); err != nil {
			return err
		}
		w.x.Step()
		if steps[i].Off != commitlog.PublishedOff || w.link == nil || w.link.revoked {
			continue
		}
		w.heads = append(w.heads, binary.BigEndian.Uint64(steps[i].Data))
		if w.eager {
			if err := w.settle(); err != nil {
				return err
			}
		}
		w.x.Step()
	}
	return nil
}

// open fences the old session and opens a new one. Whatever the old link still carries
// keeps arriving.
func (w *world) open() error {
	old := w.link
	if old != nil {
		old.revoked = true
	}
	w.x.Step()
	w.end()
	w.x.Step()
	steps, a, err := w.cons.Fenced(w.mem.Tail(), [16]byte{})
	if err != nil {
		return err
	}
	if err := w.do(steps); err != nil {
		return err
	}
	a.Persistent, a.TailSTag = true, 1 // as Log says of such memory
	w.x.Gone(a.NextSeq)
	w.prod.Lost()
	w.link = &link{mem: [2]region.Guarded{guarded(w.mem.Ring(a.Mode)), guarded(w.mem.TailWord())}}
	w.heads = nil
	over, err := w.prod.Open(a)
	w.over(over)
	if err == nil && old != nil {
		err = w.drainOld(old)
	}
	return err
}

// drainOld lets everything arrive that was on its way when the session ended.
func (w *world) drainOld(old *link) error {
	now := w.link
	w.link = old
	defer func() { w.link = now }()
	w.end()
	for len(old.wire) > 0 && !old.dead {
		w.deliver()
	}
	for len(old.queue) > 0 && !old.dead {
		w.begin()
		w.end()
	}
	return w.err
}

func guarded(m region.Memory) region.Guarded {
	g, _ := m.(region.Guarded)
	return g
}

// add queues n appends of the given payload sizes.
func (w *world) add(sizes ...int) {
	for _, n := range sizes {
		w.made++
		p := fmt.Sprintf("%d:", w.made)
		for len(p) < n {
			p += string(rune('a' + w.made%26))
		}
		e := &commitlog.Entry{Payload: []byte(p[:n])}
		w.payloads[e] = p[:n]
		w.adds = append(w.adds, e)
		if err := w.prod.Add(e, false); err != nil {
			w.err = err
		}
	}
}

// send posts what the producer may send.
func (w *world) send() bool {
	b := w.prod.Next()
	if b == nil {
		return false
	}
	for i, op := range b.Ops {
		if op.Op == verbs.OpWrite {
			w.sent(op.Body)
		}
		m := message{op: op}
		if i == len(b.Ops)-1 {
			m.batch = b
		}
		w.link.wire = append(w.link.wire, m)
	}
	w.x.Step()
	return true
}

// sent notes the records of a run.
func (w *world) sent(p []byte) {
	for len(p) > 0 {
		r := commitlog.ParseRecord(p)
		if r.Filler != 0 {
			return
		}
		w.x.Sent(r.Seq, p[commitlog.RecordHeaderLen:commitlog.RecordHeaderLen+r.Len])
		p = p[r.Size():]
	}
}

// deliver lets one message arrive.
func (w *world) deliver() {
	m := w.link.wire[0]
	w.link.wire = w.link.wire[1:]
	if m.op.Op != verbs.OpWrite {
		w.link.queue = append(w.link.queue, m)
		w.x.Step()
		return
	}
	if w.link.revoked {
		w.link.dead = true // Invalid STag: Terminate
		return
	}
	data := m.op.Body
	if w.link.corruptNextWrite {
		w.link.corruptNextWrite = false
		data = append([]byte{}, data...)
		data[len(data)/2] ^= 1
	}
	for at := 0; at < len(data); at += w.segment {
		if err := w.link.mem[m.op.STag].Store(int(m.op.TO)+at, data[at:min(at+w.segment, len(data))]); err != nil {
			w.err = err
		}
	}
}

// begin looks the memory of the first queued request up.
func (w *world) begin() {
	if w.link.running != nil || len(w.link.queue) == 0 || w.link.dead {
		return
	}
	m := w.link.queue[0]
	w.link.queue = w.link.queue[1:]
	if w.link.revoked {
		w.link.dead = true
		return
	}
	w.link.running = &m
}

// end lets the running request act, and answers it.
func (w *world) end() {
	if w.link == nil || w.link.running == nil {
		return
	}
	m := w.link.running
	w.link.running = nil
	if err := w.act(&m.op); err != nil {
		w.link.dead = true
		return
	}
	if m.batch != nil {
		w.link.answers = append(w.link.answers, m.batch)
	}
	w.x.Step()
}

var errMismatch = errors.New("verify mismatch")

func (w *world) act(op *verbs.WR) error {
	mem := w.link.mem[op.STag]
	switch op.Op {
	case verbs.OpFlushRequest:
		return mem.Persist(int(op.TO), int(op.Len))
	case verbs.OpVerifyRequest:
		got := make([]byte, op.Len)
		if err := mem.Load(got, int(op.TO)); err != nil {
			return err
		}
		h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
		_, _ = h.Write(got)
		if string(h.Sum(nil)) != string(op.Body) {
			return errMismatch
		}
		return nil
	default:
		return mem.Store(0, op.Body)
	}
}

// answer lets one answer arrive at the producer.
func (w *world) answer() {
	b := w.link.answers[0]
	w.link.answers = w.link.answers[1:]
	w.over(w.prod.Done(b))
}

// over tells the checker what was acknowledged.
func (w *world) over(es []*commitlog.Entry) {
	for _, e := range es {
		if e.Err == nil {
			w.x.Acked(e.Seq, []byte(w.payloads[e]))
		}
	}
}

// take lets the consumer read up to n records, make their effects durable and release
// them. Who has seen a record has been told that it is there.
func (w *world) take(n int) (took int) {
	for ; took < n; took++ {
		tail := w.mem.Tail()
		if w.cons.Header().Mode == commitlog.Strict {
			tail = w.mem.Flushed()
		}
		rec, err := w.cons.Next(tail)
		if err != nil {
			w.err = err
		}
		if rec == nil {
			return took
		}
		w.x.Acked(rec.Seq, rec.Payload)
		w.x.Applied(rec.Seq)
		w.taken = rec.Seq
	}
	return took
}

// release gives back the room of what was taken.
func (w *world) release() {
	steps, err := w.cons.Release(w.taken)
	if err == nil {
		err = w.do(steps)
	}
	if err != nil {
		w.err = err
	}
}

// publish lets the oldest published head arrive.
func (w *world) publish() {
	if len(w.heads) > 0 {
		w.prod.Published(w.heads[0])
		w.heads = w.heads[1:]
	}
}

// settle lets everything happen that can, in the plainest order, without the consumer.
func (w *world) settle() error {
	for busy := true; busy && w.err == nil && !w.link.dead; {
		busy = w.send()
		for len(w.link.wire) > 0 {
			w.deliver()
			busy = true
		}
		for len(w.link.queue) > 0 && !w.link.dead {
			w.begin()
			w.end()
		}
		for len(w.link.answers) > 0 {
			w.answer()
		}
		for len(w.heads) > 0 {
			w.publish()
			busy = true
		}
	}
	return w.err
}

// play lets n things happen in an order drawn from r.
func (w *world) play(r *rand.Rand, n int, sizes []int) error {
	for range n {
		if w.err != nil || w.link.dead {
			return w.err
		}
		switch k := r.IntN(10); {
		case k == 0:
			w.add(sizes[r.IntN(len(sizes))])
		case k == 1:
			w.send()
		case k <= 3 && len(w.link.wire) > 0:
			w.deliver()
		case k == 4:
			w.begin()
		case k <= 6:
			w.end()
		case k == 7 && len(w.link.answers) > 0:
			w.answer()
		case k == 8:
			if w.take(1+r.IntN(2)) > 0 && r.IntN(2) == 0 {
				w.release()
			}
		case k == 9:
			w.publish()
		}
	}
	return w.err
}
