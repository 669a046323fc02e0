//go:build !386

package engine_test

import (
	"encoding/binary"
	"testing"
	"unsafe"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// carry moves what from sends to the other engine, FPDU by FPDU. Nobody can read the octets of body, so
// those in buf replace them. It returns the segments.
func carry(t testing.TB, from *halves, body []byte, to func(u []byte)) {
	t.Helper()
	var buf [1 << 17]byte
	n := 0
	for from.snd.Take(&from.wk) {
		noErr(t, from.wk.Build(from.snd.MULPDU, false, from.snd.Table))
		for _, p := range from.wk.Batch.Pieces() {
			if !inside(p, body) {
				copy(buf[n:], p)
			}
			n += len(p)
			for n >= mpa.HeaderLen {
				u := int(binary.BigEndian.Uint16(buf[:]))
				size := mpa.FPDULen(u)
				if n < size {
					break
				}
				to(buf[mpa.HeaderLen:][:u])
				n = copy(buf[:], buf[size:n])
			}
		}
		from.due = from.snd.Wrote(&from.wk, false, from.due)
	}
	engine.Fire(from.due)
	from.due = from.due[:0]
}

func inside(p, body []byte) bool {
	d := uintptr(unsafe.Pointer(unsafe.SliceData(p))) - uintptr(unsafe.Pointer(unsafe.SliceData(body)))
	return d < uintptr(len(body))
}

func accept(t testing.TB, e *halves) func(u []byte) {
	return func(u []byte) {
		if _, err := e.rcv.Input(u); err != nil {
			t.Fatal(err)
		}
	}
}

var longest = engineConfig{mulpdu: engine.StagMULPDU, nocrc: true, ord: 1, ird: 1}

// TestLongestMessages: RDMA Write, Read and Send of 2^32-1 octets. The payload is only address space, so
// the engine can have accessed it only through the guards.
func TestLongestMessages(t *testing.T) {
	t.Run("write", func(t *testing.T) {
		a, b := newEngine(longest), newEngine(longest)
		sink, reg := vastMemory(t, b.snd.Table, region.RemoteWrite)
		body := rdmaptest.Vast(t, engine.MaxMessage)
		var d rdmaptest.Done
		a.post(verbs.WR{Op: verbs.OpWrite, STag: reg.STag(), Body: body, Done: &d})
		carry(t, a, body, accept(t, b))
		open, _ := b.rcv.DDP().Open()
		if open || sink.Stored != engine.MaxMessage || sink.Bad != 0 || d.N != 1 || d.Err != nil || a.wk.Out.WriteOctets != engine.MaxMessage {
			t.Errorf("open %v, %+v, %d octets, %d out of order", open, d, sink.Stored, sink.Bad)
		}
	})
	t.Run("read", func(t *testing.T) {
		if rdmaptest.Poisoning {
			t.Skip("poisoning 4 GiB of staging takes half a minute")
		}
		a, b := newEngine(longest), newEngine(longest)
		sink, to := vastMemory(t, a.snd.Table, region.ReadSink)
		src, from := vastMemory(t, b.snd.Table, region.RemoteRead)
		var d rdmaptest.Done
		a.post(verbs.WR{Op: verbs.OpReadRequest, STag: from.STag(), Sink: to.STag(), Len: engine.MaxMessage, Done: &d})
		carry(t, a, nil, accept(t, b))
		carry(t, b, nil, accept(t, a))
		engine.Fire(a.due)
		engine.Fire(a.rcv.Due)
		if src.Loaded != engine.MaxMessage || sink.Stored != engine.MaxMessage || src.Bad+sink.Bad != 0 || d.N != 1 || d.Err != nil {
			t.Errorf("%+v, %d loaded, %d stored, %d out of order", d, src.Loaded, sink.Stored, src.Bad+sink.Bad)
		}
	})
	t.Run("send", func(t *testing.T) {
		a := newEngine(longest)
		body := rdmaptest.Vast(t, engine.MaxMessage)
		q := &onceQueue{buf: rdmaptest.Vast(t, engine.MaxMessage)}
		r := ddp.NewReceiver(ddp.Config{Queues: [ddp.NumQueues]ddp.Queue{q}})
		var d rdmaptest.Done
		var last ddp.Event
		a.post(verbs.WR{Op: verbs.OpSend, Body: body, Done: &d})
		next := unsafe.SliceData(q.buf)
		carry(t, a, body, func(u []byte) {
			if _, err := r.Header(u, len(u)); err != nil {
				t.Fatal(err)
			}
			dst, err := r.Reserve()
			if err != nil || unsafe.SliceData(dst) != next {
				t.Fatalf("%v, which does not follow the octets before it", err)
			}
			next = (*byte)(unsafe.Add(unsafe.Pointer(next), len(dst)))
			last = r.Commit(nil)
		})
		if !last.Delivered || last.Length != engine.MaxMessage || len(last.Data) != engine.MaxMessage || d.N != 1 {
			t.Errorf("%v, %d octets, %+v", last.Delivered, last.Length, d)
		}
	})
}

// onceQueue has one receive.
type onceQueue struct {
	buf  []byte
	used int
}

func (q *onceQueue) Posted() int { return 1 - q.used }

func (q *onceQueue) Size() int { return len(q.buf) }

func (q *onceQueue) Open(*ddp.Segment) ([]byte, bool) { q.used++; return q.buf, true }

// vastMemory registers 2^32-1 octets that count what is done to them.
func vastMemory(t testing.TB, tab *region.Table, access region.Access) (*counting, region.Region) {
	t.Helper()
	m := &counting{Mem: rdmaptest.Vast(t, engine.MaxMessage)}
	reg := must(tab.RegisterMemory(m, region.Options{Access: access}))(t)
	return m, reg
}

// counting is Guarded memory that counts its accesses: nobody may touch its Bytes.
type counting struct {
	Mem            []byte
	Stored, Loaded uint64
	next           int  // where the next store or load has to be
	Anywhere       bool // it need not be there
	Bad            int  // it was not
}

var _ region.Guarded = (*counting)(nil)

func (m *counting) Bytes() []byte { return m.Mem }

func (m *counting) Persist(int, int) error { return nil }

func (m *counting) Close() error { return nil }

func (m *counting) Guard(_, _ int, f func() error) error { return f() }

func (m *counting) Store(off int, p []byte) error {
	m.touch(off, len(p))
	m.Stored += uint64(len(p))
	return nil
}

func (m *counting) Load(p []byte, off int) error {
	m.touch(off, len(p))
	m.Loaded += uint64(len(p))
	return nil
}

func (m *counting) touch(off, n int) {
	if off != m.next && !m.Anywhere {
		m.Bad++
	}
	m.next = off + n
}
