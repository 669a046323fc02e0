package commitlog

import (
	"errors"
	"slices"
	"testing"
)

// provenRing returns a log of one epoch, in wal mode, whose tail word was never flushed, as a crash of
// a busy log leaves it. Record i, counted from 1, says that the records up to known[i-1] were
// acknowledged; each takes 64 octets.
func provenRing(t *testing.T, known ...int) ram {
	t.Helper()
	r := newLog(t, WAL)
	c := r.open(t)
	ops, a, err := c.Fenced(0, [16]byte{})
	noErr(t, err)
	r.do(ops)
	b := r[ringOff:][:0]
	for i, n := range known {
		b = appendRecord(b, a.Salt, a.Epoch, uint64(i+1), uint64(n)*align, []byte("record"))
	}
	return r
}

// A record that was acknowledged is damaged: recovery says so if a later record proves it, and takes
// it for the end of the log if none does. No octet of the record can change without notice.
func TestProof(t *testing.T) {
	for _, tt := range []struct {
		name    string
		known   []int
		damaged int // number of the record
		poison  bool
	}{
		{"the first, many later", []int{0, 0, 1, 3}, 1, true},
		{"one in the middle", []int{0, 1, 2, 3}, 2, true},
		{"its successor knows only those before", []int{0, 0, 1}, 2, false},
		{"nobody knows anything", []int{0, 0, 0, 0}, 1, false},
		{"the last has no successor", []int{0, 1, 2}, 3, false},
	} {
		for octet := range recordHeaderLen + len("record") {
			r := provenRing(t, tt.known...)
			r[ringOff+(tt.damaged-1)*align+octet] ^= 0x20
			st, err := recoverLog(r, len(r), nil)
			noErr(t, err)
			want := uint64(tt.damaged-1) * align
			switch {
			case tt.poison && (st.Poison == nil || st.Poison.Pos != want || st.Poison.Reason != damaged):
				t.Errorf("%s: octet %d: %+v", tt.name, octet, st.Poison)
			case !tt.poison && (st.Poison != nil || st.Tail != want):
				t.Errorf("%s: octet %d: %+v, tail %d", tt.name, octet, st.Poison, st.Tail)
			}
		}
	}
}

// A damaged log gets no further session: numbers are not used again.
func TestProofEndsLog(t *testing.T) {
	r := provenRing(t, 0, 1, 2)
	r[ringOff+recordHeaderLen] ^= 1
	_, _, err := r.open(t).Fenced(0, [16]byte{})
	if p, ok := errors.AsType[*PoisonError](err); !ok || p.Seq != 1 || p.Reason != damaged {
		t.Error(err)
	}
}

// Overlapping records, each of which would cost a checksum of half the ring, do not make Open slow.
func TestProofBudget(t *testing.T) {
	const capacity = 1 << 20
	r := make(ram, ringOff+capacity)
	h := header{Mode: WAL, Capacity: capacity, Epoch: 1, First: 1}
	h.Append(r[:0])
	headSlot{Seq: 1}.Append(r[headOff:][:0], &h.ID)
	for at := align; at < capacity/2; at += align {
		rec := appendRecord(nil, 0, 1, 1000, 0, nil)
		rec[1], rec[2] = 7, 0xff // a payload of nearly half the ring
		copy(r[ringOff+at:], rec)
	}
	counted := &countingSource{ram: r}
	st, err := recoverLog(counted, len(r), nil)
	if err != nil || st.Poison == nil || counted.octets > 8*capacity {
		t.Error(st, err, counted.octets)
	}
}

type countingSource struct {
	ram
	octets int
}

func (c *countingSource) Load(p []byte, off int) error {
	c.octets += len(p)
	return c.ram.Load(p, off)
}

// The newer header is damaged, and the records of its epoch lie behind the durable tail: they are not taken for the end of
// the log, and Salvage finds them.
func TestProofHeader(t *testing.T) {
	r := provenRing(t, 0, 1)
	c := r.open(t)
	ops, a, err := c.Fenced(2*align, [16]byte{1})
	noErr(t, err)
	r.do(ops)
	b := appendRecord(r[ringOff:][:2*align], a.Salt, a.Epoch, 3, 2*align, []byte("third"))
	appendRecord(b, a.Salt, a.Epoch, 4, 2*align, []byte("fourth"))
	for off := range headerLen {
		bad := slices.Clone(r)
		bad[blockSize+off] ^= 1 // generation 3
		if off >= 8 && off < 12 {
			continue // of another version
		}
		st, err := recoverLog(bad, len(bad), nil)
		if err != nil || st.Header.Epoch != 2 || st.Poison == nil || st.Poison.Seq != 3 {
			t.Fatalf("octet %d: %+v %v", off, st, err)
		}
		n := 0
		st, err = salvageLog(bad, len(bad), func(*Record, bool) error { n++; return nil })
		if err != nil || n != 4 || st.NextSeq != 5 || st.Poison != nil {
			t.Fatalf("octet %d: %d records, %+v %v", off, n, st, err)
		}
		ops, err := mending(st)
		noErr(t, err)
		bad.do(ops)
		st, err = recoverLog(bad, len(bad), nil)
		if h := &st.Header; err != nil || st.Poison != nil || st.NextSeq != 5 || h.Epoch != 4 || h.First != 5 || h.Before != 3 || h.Generation != 3 {
			t.Fatalf("octet %d: %+v %v", off, st, err)
		}
	}
}
