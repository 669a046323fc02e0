package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// variant is a way to replay a script.
type variant struct {
	recorded bool // the peer sends the octets of the capture, including the startup
	rev      int
	crc      bool
	in, out  bool // markers towards the engine, from it
}

func (v variant) String() string {
	if v.recorded {
		return "as recorded"
	}
	return fmt.Sprintf("rev %d, crc %v, markers %v %v", v.rev, v.crc, v.in, v.out)
}

// variants are the capture's own octets, and all options of MPA.
func variants() []variant {
	all := []variant{{recorded: true, rev: 2}}
	for bits := range 16 {
		all = append(all, variant{false, 1 + bits&1, bits&2 != 0, bits&4 != 0, bits&8 != 0})
	}
	return all
}

// replay is one run: the engine takes the place of one end of a recorded connection, a
// peer that of the other.
type replay struct {
	*script
	t      *testing.T
	v      variant
	side   decode.Dir // the engine's
	engine *rdmap.Conn
	peer   *rdmaptest.Peer
	got    chan verbs.Message
	mems   map[*life]*memory
	latest map[ddp.STag]*memory // by the recorded number
	sinks  map[*saying]*sink    // of the engine's Read Requests
	msn    [ddp.NumQueues]uint32
}

// memory is a region of the engine and what it should hold.
type memory struct {
	reg       region.Region
	mem, want []byte
	base      uint64
}

// sink is where a Read of the engine goes.
type sink struct {
	memory
	done rdmap.Waiter
}

// TestReplay takes the captures of Linux talking to Linux, puts our engine in the place
// of either end, and lets the other say what it said: its very octets, but for the STags
// that are the engine's to choose, and once more with every option of MPA that the
// captures lack. The engine has to take all of it, and has to say what Linux said,
// message by message.
func TestReplay(t *testing.T) {
	files := must(filepath.Glob("testdata/pcaps/*.pcap"))(t)
	for _, file := range files {
		scripts := readScripts(t, file)
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			played := 0
			for _, s := range scripts {
				if s.skip != "" {
					t.Logf("connection %d is not replayed: %s", s.id, s.skip)
					continue
				}
				s.play(t)
				played++
			}
			if want := replayable[filepath.Base(file)]; played != want {
				t.Errorf("%d connections replayed, want %d", played, want)
			}
		})
	}
}

// replayable says how many connections of each capture can be replayed: those in which
// nobody breaks a rule or is told so.
var replayable = map[string]int{
	"a-rping.pcap": 5, "b-nfs3-ops.pcap": 1, "b-nfs3-read1m.pcap": 1, "b-nfs3-write1m.pcap": 1,
	"c-nfs41.pcap": 1, "c-nfs42-xattr.pcap": 1, "d-mpa-bad.pcap": 14, "d-terminate.pcap": 2,
	"e-perftest.pcap": 8, "f-nfs3-crc-ops.pcap": 1, "f-nfs3-p2p-ops.pcap": 1, "g-mpareply.pcap": 25,
}

func (s *script) play(t *testing.T) {
	octets := 0
	for _, m := range s.said {
		octets += len(m.data)
	}
	for i, v := range variants() {
		if octets > 1<<20 && i%5 != 0 {
			continue // of the longest, four variants, between them with every option
		}
		for _, side := range []decode.Dir{s.initiator, 1 - s.initiator} {
			if side != s.initiator && s.rtr == nil && s.said[0].from == side {
				continue // our responder waits for the initiator's first FPDU, RFC 5044 Section 7.1.2
			}
			if v.rev == 1 && s.readsAhead(side) {
				continue // nobody has said how many it may: our engine asks one at a time
			}
			r := &replay{script: s, t: t, v: v, side: side, got: make(chan verbs.Message, 100)}
			r.run()
			if t.Failed() {
				t.Fatalf("connection %d, %v, the engine is the initiator: %v", s.id, v, side == s.initiator)
			}
		}
	}
}

// readsAhead reports whether an end sends a Read Request before the last one is answered.
func (s *script) readsAhead(side decode.Dir) bool {
	open := make(map[*saying]bool)
	for _, m := range s.said {
		delete(open, m)
		if m.from == side && m.read != nil && m.answer != nil {
			if len(open) > 0 {
				return true
			}
			open[m.answer] = true
		}
	}
	return false
}

// HandleRecv implements rdmap.Handler.
func (r *replay) HandleRecv(c *rdmap.Conn, m *verbs.Message) {
	cp := *m
	cp.Data = bytes.Clone(m.Data)
	c.PostRecv(1)
	r.got <- cp
}

// HandleClose implements rdmap.Handler.
func (r *replay) HandleClose(*rdmap.Conn, error) { close(r.got) }

func (r *replay) check(err error, what string, m *saying) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf("%s connection %d, %v, engine is %v: %s %v: %v (engine: %v)", r.file, r.id, r.v, r.side, what, m.op, err, r.engine.Err())
	}
}

func (r *replay) run() {
	a, b := rdmaptest.Pipe()
	rec := &rdmaptest.Record{Conn: b}
	r.start(a, rec)
	r.mems, r.latest, r.sinks = make(map[*life]*memory), make(map[ddp.STag]*memory), make(map[*saying]*sink)
	go r.engine.Serve()
	for _, m := range r.said {
		if m.from == r.side {
			r.act(m)
		} else {
			r.feed(m)
		}
	}
	_ = rec.CloseWrite()
	<-r.engine.Done()
	for _, m := range r.mems {
		r.compare(m)
	}
	if rest, err := r.peer.Next(); err != io.EOF {
		r.t.Errorf("after the end of the script: %x, %v", rest, err)
	}
	_ = rec.Close()
	r.again(rec.Events())
}

// act makes the engine say what its place in the script says.
func (r *replay) act(m *saying) {
	switch {
	case m.op.IsSend():
		r.post(m, verbs.WR{Op: m.op, Body: m.data, STag: region.STag(m.stag)})
		s, p := r.expect(m)
		if !bytes.Equal(p, m.data) || m.op.Invalidates() && ddp.STag(s.ULP) != m.stag {
			r.t.Fatalf("the engine sent %v %x, want %x", &s, p, m.data)
		}
	case m.op == verbs.OpWrite:
		r.post(m, verbs.WR{Op: m.op, Body: m.data, STag: region.STag(m.stag), TO: m.to})
		s, p := r.expect(m)
		if !bytes.Equal(p, m.data) || s.STag != m.stag || s.TO != m.to {
			r.t.Fatalf("the engine wrote %v and %d octets, want %d", &s, len(p), len(m.data))
		}
	case m.op == verbs.OpReadRequest && m.answer != nil:
		r.read(m)
	}
}

func (r *replay) post(m *saying, wr verbs.WR) {
	r.check(r.engine.Post([]verbs.WR{wr}), "posting", m)
}

// read makes the engine read; the answer comes later in the script.
func (r *replay) read(m *saying) {
	k := &sink{memory: r.register(int(m.read.Size), m.read.SinkTO, region.ReadSink)}
	k.done.Reset()
	r.sinks[m.answer] = k
	r.post(m, verbs.WR{
		Op: m.op, STag: region.STag(m.read.SourceSTag), TO: m.read.SourceTO, Len: m.read.Size,
		Sink: k.reg.STag(), SinkTO: m.read.SinkTO, Done: &k.done,
	})
	_, p := r.expect(m)
	want := bytes.Clone(m.data)
	binary.BigEndian.PutUint32(want, uint32(k.reg.STag()))
	if !bytes.Equal(p, want) {
		r.t.Fatalf("the engine requested %x, want %x", p, want)
	}
}

// feed lets the peer say what the script says.
func (r *replay) feed(m *saying) {
	switch {
	case m.op.IsSend():
		r.feedSend(m)
	case m.op == verbs.OpWrite:
		mem := r.memory(m.life)
		r.say(m, mem)
		if mem != nil {
			copy(mem.want[m.to-mem.base:], m.data)
		}
	case m.op == verbs.OpReadRequest && m.answer != nil:
		mem := r.memory(m.life)
		if mem != nil {
			copy(mem.mem[m.read.SourceTO-mem.base:], m.answer.data)
			copy(mem.want[m.read.SourceTO-mem.base:], m.answer.data)
		}
		r.say(m, mem)
		s, p := r.expect(m.answer)
		if !bytes.Equal(p, m.answer.data) || s.STag != m.read.SinkSTag || s.TO != m.read.SinkTO {
			r.t.Fatalf("the engine answered %v and %d octets, want %d", &s, len(p), len(m.answer.data))
		}
	case m.op == verbs.OpReadResponse:
		k := r.sinks[m]
		r.say(m, &k.memory)
		r.check(r.engine.Wait(r.t.Context(), &k.done), "answered", m)
		copy(k.want, m.data)
		r.compare(&k.memory)
		r.check(k.reg.Invalidate(r.t.Context()), "invalidating", m)
	}
}

// feedSend: what was written before a Send is there when the Send is.
func (r *replay) feedSend(m *saying) {
	mem := r.latest[m.stag]
	if m.op.Invalidates() {
		if mem == nil {
			mem = r.memory(m.life)
		}
		if mem == nil { // nothing touched it
			x := r.register(1, 0, region.RemoteInvalidate)
			mem = &x
		}
	}
	r.say(m, mem)
	got, ok := <-r.got
	if !ok {
		r.check(r.engine.Err(), "the engine ended at", m)
	}
	if got.Op != m.op || got.Solicited != m.op.Solicited() || !bytes.Equal(got.Data, m.data) {
		r.t.Fatalf("delivered %v %x, want %v %x", got.Op, got.Data, m.op, m.data)
	}
	for _, w := range r.latest {
		r.compare(w)
	}
	if m.op.Invalidates() {
		if got.Invalidated != mem.reg.STag() || mem.reg.Valid() {
			r.t.Fatalf("invalidated %v, want %v, valid: %v", got.Invalidated, mem.reg.STag(), mem.reg.Valid())
		}
		delete(r.latest, m.stag)
	}
}
