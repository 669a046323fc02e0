package commitlog

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/stag-rdma/stag/rdmap/verbs"
)

// ram is memory without durability.
type ram []byte

func (r ram) Load(p []byte, off int) error {
	if off+len(p) > len(r) {
		return errors.New("out of bounds")
	}
	copy(p, r[off:])
	return nil
}

func (r ram) do(ops []step) {
	for _, op := range ops {
		if op.Ranges == nil {
			copy(r[op.Off:], op.Data)
		}
	}
}

func (r ram) tail() uint64 { return binary.BigEndian.Uint64(r[tailOff:]) }

// newLog makes a log with records of the given sizes, through the machines.
func newLog(t *testing.T, mode Mode, sizes ...int) ram {
	t.Helper()
	r := make(ram, ringOff+1024)
	ops, err := creation(header{Mode: mode, Capacity: 1024, ID: [16]byte{7}})
	noErr(t, err)
	r.do(ops)
	c := r.open(t)
	ops, a, err := c.Fenced(r.tail(), [16]byte{})
	noErr(t, err)
	r.do(ops)
	p := newSender(limits{1, 1 << 20}, false)
	if _, err := p.Open(a); err != nil {
		t.Fatal(err)
	}
	for i, n := range sizes {
		e := &entry{Payload: make([]byte, n)}
		e.Payload[0] = byte(i + 1)
		noErr(t, p.Add(e, false))
	}
	if b := p.Next(); b != nil {
		for _, op := range b.Ops {
			switch op.Op {
			case verbs.OpWrite:
				copy(r[ringOff+op.TO:], op.Body)
			case verbs.OpAtomicWriteRequest:
				copy(r[tailOff:], op.Body)
			}
		}
	}
	return r
}

func (r ram) open(t *testing.T) *consumer {
	t.Helper()
	st, err := recoverLog(r, len(r), nil)
	noErr(t, err)
	c := newConsumer(r, st)
	r.do(c.Start())
	return c
}

func TestRefusals(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(r ram) ram
		want   error
	}{
		"zeros":            {func(r ram) ram { return make(ram, len(r)) }, ErrMagic},
		"short":            {func(r ram) ram { return r[:len(r)-64] }, ErrSize},
		"long":             {func(r ram) ram { return append(r, 0) }, ErrSize},
		"tiny":             {func(r ram) ram { return r[:100] }, ErrSize},
		"another version":  {func(r ram) ram { r[11] = 1; return r }, ErrVersion},
		"version of B":     {func(r ram) ram { r[4096+11] = 9; return r }, ErrVersion},
		"both headers bad": {func(r ram) ram { r[20] ^= 1; r[4096+20] ^= 1; return r }, ErrChecksum},
		"both heads bad": {func(r ram) ram {
			r[headOff] ^= 1
			r[headOff+headSlotGap] ^= 1
			return r
		}, ErrChecksum},
		"tail unaligned": {func(r ram) ram { r[tailOff+7] = 1; return r }, ErrValue},
		"tail too far":   {func(r ram) ram { r[tailOff+5] = 1; return r }, ErrValue},
	} {
		r := tt.change(newLog(t, WAL, 10))
		if _, err := recoverLog(r, len(r), nil); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// One of two is enough, and the newer one counts.
	r := newLog(t, WAL, 10)
	r[4096+64] ^= 1
	if st, err := recoverLog(r, len(r), nil); err != nil || st.Header.Epoch != 0 || st.Header.Generation != 0 {
		t.Errorf("%+v %v", st, err)
	}
}

// Records that were there when the last session began, and are not, are not passed over: the
// tail word has no checksum.
func TestMissing(t *testing.T) {
	for _, mode := range []Mode{Strict, WAL} {
		r := newLog(t, mode, 10, 10, 10)
		ops, _, err := r.open(t).Fenced(r.tail(), [16]byte{})
		noErr(t, err)
		r.do(ops)
		r[tailOff+7] = 64
		st, err := recoverLog(r, len(r), nil)
		if err != nil || st.Poison == nil || *st.Poison != (PoisonError{Pos: 64, Seq: 2, Reason: missing}) {
			t.Fatal(mode, st, err)
		}
		c := r.open(t)
		if rec, err := c.Next(r.tail()); err != nil || rec == nil || rec.Seq != 1 {
			t.Error(mode, rec, err)
		}
		if _, _, err := c.Fenced(r.tail(), [16]byte{}); err == nil {
			t.Error(mode, "a session begins on a log that has lost records")
		}
	}
}

// A poisoned record is reported with position and reason; what lies before it is read,
// nothing behind it, and nothing can be appended.
func TestPoison(t *testing.T) {
	r := newLog(t, WAL, 10, 100, 30)
	r[ringOff+64+50] ^= 1
	st, err := recoverLog(r, len(r), nil)
	if err != nil || st.Poison == nil || *st.Poison != (PoisonError{Pos: 64, Seq: 2, Reason: badChecksum}) {
		t.Fatal(st, err)
	}
	c := r.open(t)
	if rec, err := c.Next(r.tail()); err != nil || rec == nil || rec.Seq != 1 || rec.Payload[0] != 1 {
		t.Fatal(rec, err)
	}
	for range 2 {
		rec, err := c.Next(r.tail())
		if p, ok := errors.AsType[*PoisonError](err); !ok || p.Seq != 2 || rec != nil {
			t.Fatal(rec, err)
		}
	}
	if _, _, err := c.Fenced(r.tail(), [16]byte{}); !errors.Is(err, error(c.poison)) {
		t.Error("a session on a poisoned log:", err)
	}
	// The same damage behind the durable tail is where the log ends.
	copy(r[tailOff:], make([]byte, 8))
	if st, err := recoverLog(r, len(r), nil); err != nil || st.Poison != nil || st.NextSeq != 2 || st.Tail != 64 {
		t.Error(st, err)
	}
}

// A tail word that has become too low loses nothing, and no number is used again.
func TestLowTail(t *testing.T) {
	for _, mode := range []Mode{Strict, WAL} {
		for tail := uint64(0); tail < 320; tail += align {
			r := newLog(t, mode, 10, 100, 30)
			copy(r[tailOff:], binary.BigEndian.AppendUint64(nil, tail))
			if st, err := recoverLog(r, len(r), nil); err == nil && st.Poison == nil && st.NextSeq != 4 {
				t.Errorf("%v, tail %d: %+v", mode, tail, st)
			}
		}
	}
}

// A tail that no honest producer stores is poison, not a wild read.
func TestWildTail(t *testing.T) {
	for _, tail := range []uint64{1, 65, 1 << 40, math.MaxUint64 - 63, 1024 + 64} {
		r := newLog(t, WAL, 10)
		c := r.open(t)
		if rec, err := c.Next(tail); rec == nil || err != nil {
			t.Errorf("tail %d: the earlier records are gone: %v", tail, err)
		}
		_, err := c.Next(tail)
		if p, ok := errors.AsType[*PoisonError](err); !ok || p.Reason != beyondTail {
			t.Errorf("tail %d is believed: %v", tail, err)
		}
	}
	r := newLog(t, WAL, 10, 20)
	c := r.open(t)
	if _, _, err := c.Fenced(0, [16]byte{}); err == nil {
		t.Error("a session was opened although the tail went back")
	}
}

// Before the tail no record is of an epoch before that of the record in front of it, nor of
// none, however right its checksum is.
func TestEpochsDoNotFall(t *testing.T) {
	for _, tt := range []struct {
		epochs []uint32
		bad    uint64 // number of the record that is poisoned; 0: none is
	}{
		{[]uint32{1, 1, 2}, 0},
		{[]uint32{2, 2, 2}, 0},
		{[]uint32{1, 2, 1}, 3},
		{[]uint32{2, 1, 2}, 2},
		{[]uint32{0, 1, 2}, 1},
		{[]uint32{1, 2, 3}, 3},
	} {
		r := newLog(t, WAL)
		c := r.open(t)
		ops, _, err := c.Fenced(0, [16]byte{}) // epoch 2
		noErr(t, err)
		r.do(ops)
		at := r[ringOff:ringOff]
		for i, epoch := range tt.epochs {
			at = appendRecord(at, c.hdr.Salt(epoch), epoch, uint64(i+1), 0, []byte("x"))
		}
		r.do([]step{storeWord(tailOff, uint64(len(at)))})
		st, err := recoverLog(r, len(r), nil)
		noErr(t, err)
		if (st.Poison == nil) != (tt.bad == 0) || tt.bad > 0 && (st.Poison.Seq != tt.bad || st.Poison.Reason != badEpoch) {
			t.Errorf("%v: %v", tt.epochs, st.Poison)
		}
	}
}

func TestRelease(t *testing.T) {
	r := newLog(t, WAL, 10, 100, 30)
	c := r.open(t)
	if _, err := c.Release(1); !errors.Is(err, ErrNotHandedOut) {
		t.Error(err)
	}
	for range 3 {
		if _, err := c.Next(r.tail()); err != nil {
			t.Fatal(err)
		}
	}
	ops, err := c.Release(2)
	if err != nil || len(ops) != 3 || ops[1].Ranges == nil || ops[2].Off != publishedOff || binary.BigEndian.Uint64(ops[2].Data) != 192 {
		t.Fatal(ops, err)
	}
	r.do(ops)
	if again, err := c.Release(2); again != nil || err != nil {
		t.Error("released twice:", again, err)
	}
	if st, err := recoverLog(r, len(r), nil); err != nil || st.Head != (headSlot{Pos: 192, Seq: 3}) || st.NextSeq != 4 {
		t.Error(st, err)
	}
	// Nobody flushes the published head: a new session begins with the durable one.
	clear(r[publishedOff:][:8])
	ops, a, err := r.open(t).Fenced(r.tail(), [16]byte{})
	noErr(t, err)
	r.do(ops)
	if got := binary.BigEndian.Uint64(r[publishedOff:]); got != 192 || a.Head != 192 {
		t.Errorf("published %d, told %d", got, a.Head)
	}
}

func TestEpochsEnd(t *testing.T) {
	r := newLog(t, WAL)
	c := r.open(t)
	c.hdr.Epoch = math.MaxUint32
	if _, _, err := c.Fenced(0, [16]byte{}); !errors.Is(err, ErrEpochs) {
		t.Error(err)
	}
}

// failing is a Source that breaks after some loads.
type failing struct {
	ram
	left int
}

var errLoad = errors.New("load")

func (f *failing) Load(p []byte, off int) error {
	if f.left--; f.left < 0 {
		return errLoad
	}
	return f.ram.Load(p, off)
}

func TestSourceFails(t *testing.T) {
	r := newLog(t, WAL, 10, 20)
	for n := 0; ; n++ {
		_, err := recoverLog(&failing{r, n}, len(r), nil)
		if err == nil {
			if n < 8 {
				t.Error("only", n, "loads")
			}
			break
		}
		if !errors.Is(err, errLoad) {
			t.Fatal(err)
		}
	}
	stop := errors.New("stop")
	if _, err := recoverLog(r, len(r), func(*Record) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
}
