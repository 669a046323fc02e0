//go:build !386

package rdmap

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"testing"
	"unsafe"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"golang.org/x/sys/unix"
)

// vast returns n octets of address space that nobody can access.
func vast(t testing.TB, n int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, n, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		t.Skip("no address space:", err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	return b
}

// vastMemory registers 2^32-1 octets that count what is done to them.
func vastMemory(t testing.TB, tab *region.Table, access region.Access) (*counting, region.Region) {
	t.Helper()
	m := &counting{mem: vast(t, engine.MaxMessage)}
	reg, err := tab.RegisterMemory(m, region.Options{Access: access})
	if err != nil {
		t.Fatal(err)
	}
	return m, reg
}

// carry moves what from sends to the other engine, FPDU by FPDU. Nobody can read the octets of body, so
// those in buf replace them. It returns the segments.
func carry(t testing.TB, from *halves, body []byte, to func(u []byte)) {
	t.Helper()
	var buf [1 << 17]byte
	n := 0
	for from.snd.Take(&from.wk) {
		if err := from.wk.Build(from.snd.MULPDU, false, from.snd.Table); err != nil {
			t.Fatal(err)
		}
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

var longest = engineConfig{mulpdu: StagMULPDU, nocrc: true, ord: 1, ird: 1}

// TestLongestMessages: RDMA Write, Read and Send of 2^32-1 octets. The payload is only address space, so
// the engine can have accessed it only through the guards.
func TestLongestMessages(t *testing.T) {
	t.Run("write", func(t *testing.T) {
		a, b := newEngine(longest), newEngine(longest)
		sink, reg := vastMemory(t, b.snd.Table, region.RemoteWrite)
		body := vast(t, engine.MaxMessage)
		var d done
		a.post(verbs.WR{Op: verbs.OpWrite, STag: reg.STag(), Body: body, Done: &d})
		carry(t, a, body, accept(t, b))
		open, _ := b.rcv.DDP.Open()
		if open || sink.stored != engine.MaxMessage || sink.bad != 0 || d.n != 1 || d.err != nil || a.wk.Out.WriteOctets != engine.MaxMessage {
			t.Errorf("open %v, %+v, %d octets, %d out of order", open, d, sink.stored, sink.bad)
		}
	})
	t.Run("read", func(t *testing.T) {
		if poisoning {
			t.Skip("poisoning 4 GiB of staging takes half a minute")
		}
		a, b := newEngine(longest), newEngine(longest)
		sink, to := vastMemory(t, a.snd.Table, region.ReadSink)
		src, from := vastMemory(t, b.snd.Table, region.RemoteRead)
		var d done
		a.post(verbs.WR{Op: verbs.OpReadRequest, STag: from.STag(), Sink: to.STag(), Len: engine.MaxMessage, Done: &d})
		carry(t, a, nil, accept(t, b))
		carry(t, b, nil, accept(t, a))
		engine.Fire(a.due)
		engine.Fire(a.rcv.Due)
		if src.loaded != engine.MaxMessage || sink.stored != engine.MaxMessage || src.bad+sink.bad != 0 || d.n != 1 || d.err != nil {
			t.Errorf("%+v, %d loaded, %d stored, %d out of order", d, src.loaded, sink.stored, src.bad+sink.bad)
		}
	})
	t.Run("send", func(t *testing.T) {
		a := newEngine(longest)
		body := vast(t, engine.MaxMessage)
		q := &onceQueue{buf: vast(t, engine.MaxMessage)}
		r := ddp.NewReceiver(ddp.Config{Queues: [ddp.NumQueues]ddp.Queue{q}})
		var d done
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
		if !last.Delivered || last.Length != engine.MaxMessage || len(last.Data) != engine.MaxMessage || d.n != 1 {
			t.Errorf("%v, %d octets, %+v", last.Delivered, last.Length, d)
		}
	})
}

// onceQueue has one receive.
type onceQueue struct {
	buf  []byte
	used int
}

func (q *onceQueue) Posted() int                      { return 1 - q.used }
func (q *onceQueue) Size() int                        { return len(q.buf) }
func (q *onceQueue) Open(*ddp.Segment) ([]byte, bool) { q.used++; return q.buf, true }

// TestTooLong: a message that is one octet longer is refused before anything is sent.
func TestTooLong(t *testing.T) {
	p := vast(t, engine.MaxMessage+1)
	for _, wr := range []verbs.WR{
		{Op: verbs.OpSend, Body: p}, {Op: verbs.OpWrite, Body: p}, {Op: verbs.OpSendSE, Head: p}, {Op: verbs.OpWrite, Head: p[:1], Body: p[1:]},
	} {
		if err := engine.Misuse(&wr); !errors.Is(err, verbs.ErrTooLong) {
			t.Errorf("%v: %v", wr.Op, err)
		}
	}
	if err := engine.Misuse(&verbs.WR{Op: verbs.OpWrite, Head: p[:1], Body: p[2:]}); err != nil {
		t.Error(err)
	}
	a, b := wires["pipe"](t)
	x, _ := connect(t, a, b, nil, nil)
	if err := x.Read(context.Background(), p, 1, 0); !errors.Is(err, verbs.ErrTooLong) {
		t.Error(err)
	}
}

var long = flag.Bool("long", false, "move 4 GiB through sockets, which takes seconds")

// TestLongestOnWires is TestLongestMessages through everything, CRC included.
func TestLongestOnWires(t *testing.T) {
	if !*long {
		t.Skip("give -long, as make test-long does")
	}
	for _, cfg := range []*Config{nil, {CRC: CRCOff}} {
		a, b := wires["tcp"](t)
		x, y := connect(t, a, b, cfg, cfg)
		sink, to := vastMemory(t, x.Table(), region.ReadSink)
		src, from := vastMemory(t, y.Table(), region.RemoteRead)
		go y.Serve()
		err := x.do(t.Context(), &verbs.WR{Op: verbs.OpReadRequest, STag: from.STag(), Sink: to.STag(), Len: engine.MaxMessage})
		if err != nil || src.loaded != engine.MaxMessage || sink.stored != engine.MaxMessage || src.bad+sink.bad != 0 {
			t.Errorf("%v, %d loaded, %d stored, %d out of order", err, src.loaded, sink.stored, src.bad+sink.bad)
		}
		if s := x.Stats(); s.ReadOctetsIn != engine.MaxMessage || s.OctetsIn < engine.MaxMessage {
			t.Errorf("%+v", s)
		}
	}
}
