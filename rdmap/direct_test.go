package rdmap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/internal/reading"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// The octets of a payload that is read straight into its place, and of payload that make such a read long enough.
const (
	directMin  = 16 << 10
	directLong = 128 << 10
)

// noise provides the payloads of segments, each beginning at another octet.
var noise = func() []byte {
	b := make([]byte, 70000)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}()

// ofSTag matches the parts of an error that depend on the STag.
var ofSTag = regexp.MustCompile(`stag=[0-9a-f]+|(got|want) 0x[0-9a-f]+`)

// directRig is a connection without I/O that has Reads in flight. What is fed to it is read straight
// into its place if possible, or never.
type directRig struct {
	*Conn
	log   strings.Builder
	mem   []byte
	reads []verbs.WR
	done  []counted
	aimed int // octets that were read straight into their place
	most  int // of them in one read
}

// HandleRecv notes the message, and loses the reading role.
func (g *directRig) HandleRecv(_ *Conn, m *verbs.Message) {
	fmt.Fprintf(&g.log, "%q ", m.Data)
	g.takeovers.Add(1)
	g.upcalls.Add(1)
	g.st = g.st.Split()
}

// HandleClose implements Handler.
func (*directRig) HandleClose(*Conn, error) {}

// handled parses what is staged. Messages that are kept are noted.
func (g *directRig) handled() error {
	err := g.parse()
	for g.inbox.q.Len() > 0 {
		m := g.inbox.q.Pop()
		fmt.Fprintf(&g.log, "%q ", m.Data)
		g.cfg.Receives.Pool.mem.Put(m.mem)
	}
	return err
}

func newDirectRig(t *testing.T, crc, keep bool, sizes ...int) *directRig {
	return directRigOn(t, crc, keep, func(b []byte) region.Memory { return region.Bytes(b) }, sizes...)
}

// directRigOn returns a directRig whose sinks are made by mem.
func directRigOn(t *testing.T, crc, keep bool, mem func([]byte) region.Memory, sizes ...int) *directRig {
	a, b := net.Pipe()
	t.Cleanup(func() { a.Close(); b.Close() })
	g := &directRig{done: make([]counted, len(sizes))}
	cfg := &Config{Receives: Receives{Pool: NewPool(64 << 20)}}
	if !keep {
		cfg.Handler = g
	}
	g.Conn = Client(a, cfg)
	g.partial.on.Store(true) // no ticker
	g.rcv.Deframer.CRC = crc
	g.snd.MULPDU, g.snd.ORD = engine.StagMULPDU, len(sizes)
	total := 0
	for _, n := range sizes {
		total += n
	}
	g.mem = make([]byte, total+2*directMin)
	reg, err := g.table.RegisterMemory(mem(g.mem), region.Options{Access: region.ReadSink, Base: 1000})
	if err != nil {
		t.Fatal(err)
	}
	to := uint64(1000)
	for i, n := range sizes {
		g.reads = append(g.reads, verbs.WR{Op: verbs.OpReadRequest, Sink: reg.STag(), SinkTO: to, Len: uint32(n), Done: &g.done[i]})
		g.snd.Post(&g.reads[i])
		to += uint64(n)
	}
	for g.snd.Take(&g.wk) {
		if err := g.wk.Build(engine.StagMULPDU, crc, nil); err != nil {
			t.Fatal(err)
		}
		g.due = g.snd.Wrote(&g.wk, false, g.due)
	}
	return g
}

// feed reads at most n octets of wire, and handles them.
func (g *directRig) feed(wire []byte, n int, aim bool) (int, error) {
	if g.st == nil {
		g.st = buf.NewStaging(buf.Big)
	}
	if aim && g.st.R < g.st.W {
		if vec := g.rcv.Places(g.st); vec != nil {
			got := 0
			for _, p := range vec {
				got += copy(p, wire[got:n])
			}
			if got == 0 {
				g.rcv.Missed()
				return 0, nil
			}
			g.rcv.Landed(g.st, got)
			g.aimed += got
			g.most = max(g.most, got)
			return got, g.handled()
		}
	}
	st, buf := g.st.Room(g.rcv.Deframer.Need(g.st.Pending()))
	g.st = st
	n = copy(buf, wire[:n])
	st.W += n
	return n, g.handled()
}

// run feeds all of wire in pieces of at most the given length, and returns a description of the result.
func (g *directRig) run(wire []byte, piece int, aim bool) string {
	var err error
	rnd := rand.New(rand.NewPCG(1, uint64(piece)))
	for len(wire) > 0 && err == nil {
		n := min(len(wire), piece)
		if aim && piece <= buf.Big {
			n = rnd.IntN(n + 1)
		}
		n, err = g.feed(wire, n, aim)
		for errors.Is(err, reading.ErrLostRole) { // go on as the successor
			err = g.handled()
		}
		wire = wire[n:]
	}
	log := g.log.String()
	for i := range g.done {
		log += fmt.Sprint(g.done[i].n, " ")
	}
	if err != nil {
		return ofSTag.ReplaceAllString(fmt.Sprintf("%s%v; %+v", log, err, g.rcv.In), "…")
	}
	rest := 0
	if g.st != nil {
		rest = g.st.W - g.st.R
		g.st.Release()
		g.st = nil
	}
	return fmt.Sprintf("%s%d octets left, %+v, %08x", log, rest, g.rcv.In, mpa.UpdateCRC(0, g.mem))
}

// responses builds the Read Responses that rig g waits for.
func (g *directRig) responses(maxPayload int, change func(i int, s *ddp.Segment), insert func(i int) []byte) (wire []byte) {
	i := 0
	for _, rd := range g.reads {
		for off := 0; off == 0 || off < int(rd.Len); off += maxPayload {
			s := ddp.Segment{Tagged: true, Control: 0x40 | uint8(verbs.OpReadResponse), STag: ddp.STag(rd.Sink), TO: rd.SinkTO + uint64(off)}
			n := min(maxPayload, int(rd.Len)-off)
			s.Last = off+n == int(rd.Len)
			if change != nil {
				change(i, &s)
			}
			u := append(s.Append(nil), noise[i:i+n]...)
			if insert != nil {
				wire = append(wire, insert(i)...)
			}
			wire = mpa.AppendFPDU(wire, u, g.rcv.Deframer.CRC)
			i++
		}
	}
	return wire
}

// TestDirect: reading Read Responses straight into their place has the same result as reading them the
// ordinary way, however the octets arrive, and whatever else arrives.
func TestDirect(t *testing.T) {
	const full = engine.StagMULPDU - ddp.TaggedLen
	sizes := []int{21*full + 1234, 3 * full, 200 << 10, 17, 2*full + 1}
	at := 9 // after what one read brings to the staging; more than that follows
	hello := mpa.AppendFPDU(nil, append((&ddp.Segment{Last: true, Control: 0x40 | uint8(verbs.OpSend), MSN: 1}).Append(nil), "hello"...), true)
	for name, c := range map[string]struct {
		max    int
		change func(i int, s *ddp.Segment)
		insert func(i int) []byte
		spoil  func(wire []byte)
		direct bool // a long read must be
		hole   bool // some octets of the sink are never sent
		lost   bool // without CRC what follows is random
	}{
		"all of it":        {max: full, direct: true},
		"shorter segments": {max: 20000, direct: true},
		"shortest":         {max: 1428},
		"a Send within": {max: full, insert: func(i int) []byte {
			if i == at {
				return hello
			}
			return nil
		}},
		"goes back": {max: full, hole: true, change: func(i int, s *ddp.Segment) {
			if i == at {
				s.TO -= 8
			}
		}},
		"ends early": {max: full, change: func(i int, s *ddp.Segment) {
			if i == at {
				s.Last = true
			}
		}},
		"leaves the Read": {max: full, change: func(i int, s *ddp.Segment) {
			if i == at {
				s.TO += 13 * full
			}
		}},
		"another STag": {max: full, change: func(i int, s *ddp.Segment) {
			if i == at {
				s.STag ^= 0x80
			}
		}},
		"another opcode": {max: full, change: func(i int, s *ddp.Segment) {
			if i == at {
				s.Control = 0x40 | uint8(verbs.OpWrite)
			}
		}},
		"bad CRC":           {max: full, spoil: func(w []byte) { w[4*mpa.FPDULen(engine.StagMULPDU)-1] ^= 1 }},
		"bad payload":       {max: full, spoil: func(w []byte) { w[3*mpa.FPDULen(engine.StagMULPDU)+4000] ^= 1 }},
		"another length":    {max: full, lost: true, spoil: func(w []byte) { w[3*mpa.FPDULen(engine.StagMULPDU)+1] ^= 4 }},
		"too long a length": {max: full, lost: true, spoil: func(w []byte) { w[3*mpa.FPDULen(engine.StagMULPDU)] = 0xff }},
	} {
		for _, crc := range []bool{true, false} {
			run := func(piece int, aim bool) (log string, g *directRig) {
				g = newDirectRig(t, crc, true, sizes...)
				wire := g.responses(c.max, c.change, c.insert)
				if c.spoil != nil {
					c.spoil(wire)
				}
				log = g.run(wire, piece, aim)
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if err := g.table.Close(ctx); err != nil {
					t.Errorf("%s, pieces of %d: %v", name, piece, err)
				}
				return log, g
			}
			all, _ := run(buf.Big, false)
			for _, piece := range []int{2 << 20, buf.Big, buf.Big - 1, buf.Big - 2, buf.Big - 3, 200000, 60000, 5000} {
				want := all
				got, g := run(piece, true)
				if c.hole { // what the peer leaves out may be anything it has sent
					got, want = got[:len(got)-8], want[:len(want)-8]
				}
				if got != want && (crc || !c.lost) {
					t.Errorf("%s, CRC %v, pieces of %d:\n%s\nnot direct\n%s", name, crc, piece, got, want)
				}
				if c.direct && piece == buf.Big && g.aimed < directLong {
					t.Errorf("%s: %d octets direct", name, g.aimed)
				}
				if piece > buf.Big && g.most <= buf.Big && c.direct {
					t.Errorf("%s: %d octets in one read at most", name, g.most)
				}
			}
		}
	}
}

// TestDirectTakenOver: octets that were read straight into a place where they do not belong are all
// handled, even if an upcall loses the role while more of them are pending than a staging has room for.
func TestDirectTakenOver(t *testing.T) {
	const full = engine.StagMULPDU - ddp.TaggedLen
	msn := uint32(0)
	hello := func(i int) []byte {
		if i != 2 && i != 5 {
			return nil
		}
		msn++
		s := ddp.Segment{Last: true, Control: 0x40 | uint8(verbs.OpSend), MSN: msn}
		return mpa.AppendFPDU(nil, fmt.Append(s.Append(nil), "hello ", i), true)
	}
	run := func(aim bool) (string, int) {
		g := newDirectRig(t, true, false, 21*full+1234, 1000)
		msn = 0
		wire := g.responses(full, nil, hello)
		if _, err := g.feed(wire, engine.ShortRead, aim); err != nil { // a header, so that the next read is direct
			t.Fatal(err)
		}
		return g.run(wire[engine.ShortRead:], 2<<20, aim), g.most
	}
	want, _ := run(false)
	got, most := run(true)
	if got != want || !strings.HasPrefix(got, `"hello 2" "hello 5" 1 1 0 octets left`) {
		t.Errorf("%s\nnot direct\n%s", got, want)
	}
	if most <= buf.Big+3*full {
		t.Errorf("%d octets in one read at most", most)
	}
}

// pushed returns the FPDUs of a Write of n octets at off, in segments of at most payload octets. ends: the last one says
// that it is.
func (g *directRig) pushed(stag region.STag, off, n, payload, from int, ends bool) (wire []byte) {
	for at := 0; at == 0 || at < n; at += payload {
		k := min(payload, n-at)
		s := ddp.Segment{Tagged: true, Last: ends && at+k == n, Control: 0x40 | uint8(verbs.OpWrite), STag: ddp.STag(stag), TO: uint64(off + at)}
		from = (from + 1) % 500
		wire = mpa.AppendFPDU(wire, append(s.Append(nil), noise[from:from+k]...), g.rcv.Deframer.CRC)
	}
	return wire
}

// directSeeds is how many streams TestDirectWrites makes.
const directSeeds = 60

// TestDirectWrites: reading Writes straight into Scratch memory leaves there what reading them the ordinary way does, with
// zeros where the peer has placed nothing, however the octets arrive: Writes that fill the memory, end early, begin
// anywhere, go back, repeat, leave gaps, have Sends between them, and segments that are not what they seem.
func TestDirectWrites(t *testing.T) {
	const full = engine.StagMULPDU - ddp.TaggedLen
	aimed := 0
	for seed := range uint64(directSeeds) {
		crc := seed%3 > 0
		size := []int{1 << 20, 300_000, 100_000}[seed%3]
		build := func() (*directRig, []byte) {
			rnd := rand.New(rand.NewPCG(seed, 5))
			g := newDirectRig(t, crc, true)
			g.mem = make([]byte, size)
			reg, err := g.table.Register(g.mem, region.RemoteWrite|region.Scratch)
			if err != nil {
				t.Fatal(err)
			}
			var wire []byte
			msn := uint32(0)
			at := 0
			for range 6 + rnd.IntN(8) {
				payload := []int{full, full, 20000, 60000, 3000}[rnd.IntN(5)]
				off, n := at, size-at
				switch rnd.IntN(8) {
				case 0:
					off = rnd.IntN(size)
					n = rnd.IntN(size - off)
				case 1:
					n = rnd.IntN(n + 1) // ends early
				case 2:
					off, n = 0, rnd.IntN(size) // repeats
				case 3, 4:
					off = max(0, at-rnd.IntN(200_000)) // goes back
				}
				if seed%2 > 0 { // a good part of the memory stays empty
					n = min(n, rnd.IntN(size/6))
				}
				wire = append(wire, g.pushed(reg.STag(), off, n, payload, rnd.IntN(400), rnd.IntN(4) > 0)...)
				if at = off + n; at >= size-100 {
					at = 0
				}
				if rnd.IntN(2) == 0 {
					msn++
					g.rcv.Recvs.Add(1)
					s := ddp.Segment{Last: true, Control: 0x40 | uint8(verbs.OpSend), MSN: msn}
					wire = mpa.AppendFPDU(wire, append(s.Append(nil), noise[:rnd.IntN(3000)]...), crc)
				}
			}
			switch rnd.IntN(5) {
			case 0: // beyond the end
				wire = append(wire, g.pushed(reg.STag(), size-full, 3*full, full, 0, true)...)
			case 1: // of nobody
				wire = append(wire, g.pushed(reg.STag()^0x80, 0, 3*full, full, 0, true)...)
			case 2:
				if crc {
					wire[len(wire)-5] ^= 1
				}
			}
			return g, wire
		}
		g, wire := build()
		want := g.run(wire, buf.Big, false)
		placed := bytes.Clone(g.mem)
		for _, piece := range []int{2 << 20, buf.Big, 200_000, 70_000, 5000} {
			g, wire := build()
			got := g.run(wire, piece, true)
			aimed += g.aimed
			if got != want {
				t.Errorf("seed %d, pieces of %d:\n%s\nnot direct\n%s", seed, piece, got, want)
			}
			if strings.Contains(want, "octets left") && !bytes.Equal(g.mem, placed) {
				t.Errorf("seed %d, pieces of %d: other octets", seed, piece)
			}
			if size < directLong && g.aimed > 0 {
				t.Errorf("seed %d: %d octets direct, into %d", seed, g.aimed, size)
			}
		}
	}
	if aimed < 100<<20 {
		t.Errorf("%d octets direct", aimed)
	}
}

// TestDirectPlacedBefore: a Write that ends before octets that were placed earlier, in whatever way, leaves them alone: what
// follows it is not expected there.
func TestDirectPlacedBefore(t *testing.T) {
	const full = engine.StagMULPDU - ddp.TaggedLen
	for name, c := range map[string]struct {
		payload, n int // of the earlier Write
		ends       bool
		off        int // of the later one
	}{
		"one segment":               {60_000, 60_000, true, 0},
		"segments in the staging":   {3000, 90_000, false, 3000},
		"segments into their place": {full, 10 * full, false, 8 * full},
	} {
		for piece := 50_000; piece < 700_000; piece += 7000 {
			run := func(aim bool) (string, []byte) {
				g := newDirectRig(t, true, true)
				g.mem = make([]byte, 1<<20)
				reg, err := g.table.Register(g.mem, region.RemoteWrite|region.Scratch)
				if err != nil {
					t.Fatal(err)
				}
				wire := g.pushed(reg.STag(), 0, c.n, c.payload, 0, c.ends)
				wire = append(wire, g.pushed(reg.STag(), c.off, 40_000, 20_000, 100, true)...)
				for range 3 {
					wire = append(wire, g.pushed(reg.STag(), 900_000, 30_000, 15_000, 200, true)...)
				}
				return g.run(wire, piece, aim), g.mem
			}
			want, before := run(false)
			if got, mem := run(true); got != want || !bytes.Equal(mem, before) {
				t.Errorf("%s, pieces of %d: %s, not direct %s", name, piece, got, want)
			}
		}
	}
}

// TestDirectOnlyScratch: nothing is read straight into memory on which somebody may depend at any time.
func TestDirectOnlyScratch(t *testing.T) {
	g := newDirectRig(t, true, true)
	g.mem = make([]byte, 1<<20)
	reg, err := g.table.Register(g.mem, region.RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	g.run(g.pushed(reg.STag(), 0, 1<<20, engine.StagMULPDU-ddp.TaggedLen, 0, true), 2<<20, true)
	if g.aimed > 0 {
		t.Errorf("%d octets direct", g.aimed)
	}
}

// counted counts how often it completes.
type counted struct{ n int }

func (d *counted) Complete(error) { d.n++ }

// guarded is region.Guarded memory that counts what is stored in it.
type guarded struct {
	mem    []byte
	stores int
}

func (m *guarded) Bytes() []byte                        { return m.mem }
func (m *guarded) Persist(int, int) error               { return nil }
func (m *guarded) Close() error                         { return nil }
func (m *guarded) Store(off int, p []byte) error        { m.stores++; copy(m.mem[off:], p); return nil }
func (m *guarded) Load(p []byte, off int) error         { copy(p, m.mem[off:]); return nil }
func (m *guarded) Guard(_, _ int, f func() error) error { return f() }

// TestDirectGuarded: nothing is read straight into memory that must be accessed through its methods.
func TestDirectGuarded(t *testing.T) {
	sink := new(guarded)
	g := directRigOn(t, true, true, func(b []byte) region.Memory { sink.mem = b; return sink }, 1<<20)
	mem := g.mem
	g.run(g.responses(engine.StagMULPDU-ddp.TaggedLen, nil, nil), buf.Big, true)
	if g.aimed > 0 || sink.stores == 0 || g.done[0].n != 1 || !bytes.Equal(mem[:1000], noise[:1000]) {
		t.Errorf("%d octets direct, %d stores, completed %d times", g.aimed, sink.stores, g.done[0].n)
	}
}
