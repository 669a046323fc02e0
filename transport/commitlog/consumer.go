package commitlog

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/stag-rdma/stag/rdmap/region"
)

// step is a step of the consumer: it stores Data at Off, or makes Ranges durable. The steps of a list are executed one after
// the other; the first one that fails ends the log.
type step struct {
	Off    int
	Data   []byte
	Ranges []region.Range
}

func persist(rs ...region.Range) step { return step{Ranges: rs} }

func storeWord(off int, v uint64) step {
	return step{Off: off, Data: binary.BigEndian.AppendUint64(nil, v)}
}

// creation returns the operations that make a new log in memory that holds durable zeros. The magic
// comes last: after a crash before it there is no log instead of a damaged one.
func creation(h header) ([]step, error) {
	if err := h.Check(h.Slot()); err != nil {
		return nil, err
	}
	b := h.Append(nil)
	head := headSlot{Seq: 1}
	return []step{
		{Off: headOff, Data: head.Append(nil, &h.ID)},
		{Off: headOff + headSlotGap, Data: head.Append(nil, &h.ID)},
		{Off: h.Slot() + 8, Data: b[8:]},
		persist(region.Range{Off: headOff, N: headLen}, region.Range{Off: headOff + headSlotGap, N: headLen}, region.Range{Off: h.Slot() + 8, N: headerLen - 8}),
		{Off: h.Slot(), Data: b[:8]},
		persist(region.Range{Off: h.Slot(), N: 8}),
	}, nil
}

// Errors of the consumer.
var (
	// ErrNotHandedOut: Release of a record that Next has not returned.
	ErrNotHandedOut = errors.New("commitlog: Next has not returned this record (release only records that it has returned)")
	// ErrEpochs: the log has been opened 2^32-1 times.
	ErrEpochs = errors.New("commitlog: no epoch is left (create a new log)")
)

// consumer is the side that owns the memory.
type consumer struct {
	hdr     header
	r       *reader
	head    headSlot // durable
	slot    int      // the slot of head
	at      cursor   // after the last record that Next has returned
	tail    uint64   // records before it may be returned
	settled uint64   // the durable tail that recovery found
	ends    []uint64 // where each returned record ends, by sequence number from head.Seq on
	poison  *PoisonError
}

// newConsumer continues where recoverLog has ended. Call Start first.
func newConsumer(src source, st *state) *consumer {
	c := &consumer{
		hdr: st.Header, head: st.Head, slot: st.Slot, at: cursor{pos: st.Head.Pos, seq: st.Head.Seq},
		tail: st.Tail, settled: st.Durable, poison: st.Poison,
	}
	c.r = newReader(src, &c.hdr)
	return c
}

// Start returns what must be done before a record is returned: the records that recovery has found
// after the durable tail are made durable, and then the tail. Otherwise recovery in a later epoch,
// which does not trust records of this one beyond the tail, would lose them.
func (c *consumer) Start() []step {
	var ops []step
	if c.tail > c.settled {
		ops = append(ops, persist(c.ring(c.settled, c.tail)...))
	}
	return append(ops, storeWord(tailOff, c.tail), persist(region.Range{Off: tailOff, N: 8}))
}

// ring returns the pieces of the ring from position lo to hi.
func (c *consumer) ring(lo, hi uint64) []region.Range {
	lo = max(lo, c.head.Pos)
	off, n := ringAt(lo, c.hdr.Capacity), hi-lo
	first := min(n, toEnd(lo, c.hdr.Capacity))
	rs := []region.Range{{Off: ringOff + int(off), N: int(first)}}
	if n > first {
		rs = append(rs, region.Range{Off: ringOff, N: int(n - first)})
	}
	return rs
}

// Fenced is called with the tail word once nobody of the old session can move it anymore. It returns what must be done before the new
// session, which belongs to instance, may touch the memory, and where that begins. The tail is written before the epoch,
// because after the epoch no record of an earlier one counts beyond the tail. Next does not use
// this tail: it is not durable yet.
func (c *consumer) Fenced(tail uint64, instance [16]byte) ([]step, *Answer, error) {
	if c.hdr.Epoch == math.MaxUint32 {
		return nil, nil, ErrEpochs
	}
	end := c.at
	if c.poison == nil && !c.possible(tail) {
		c.poison = &PoisonError{Pos: c.at.pos, Seq: c.at.seq, Reason: beyondTail}
	}
	if c.poison == nil {
		why, err := c.r.walk(&end, tail, 0, func(*Record) error { return nil })
		if err != nil {
			return nil, nil, err
		}
		if why != valid {
			c.poison = &PoisonError{Pos: end.pos, Seq: end.seq, Reason: why}
		}
	}
	if c.poison != nil {
		return nil, nil, c.poison
	}
	last := c.hdr.LastEpoch(end.seq)
	c.hdr.Begin(end.seq, instance)
	ops := []step{
		storeWord(tailOff, tail), persist(region.Range{Off: tailOff, N: 8}),
		{Off: c.hdr.Slot(), Data: c.hdr.Append(nil)},
		persist(region.Range{Off: c.hdr.Slot(), N: headerLen}),
		storeWord(publishedOff, c.head.Pos),
	}
	return ops, &Answer{
		ID: c.hdr.ID, Epoch: c.hdr.Epoch, Salt: c.hdr.Salt(c.hdr.Epoch), Capacity: c.hdr.Capacity,
		Mode: c.hdr.Mode, Hash: CRC32C, Head: c.head.Pos, Tail: end.pos, NextSeq: end.seq, LastEpoch: last,
	}, nil
}

// observe takes the current tail word. A word that no honest producer writes counts as a poisoned
// record at the last tail.
func (c *consumer) observe(tail uint64) {
	if c.poison != nil || tail == c.tail {
		return
	}
	if !c.possible(tail) {
		c.poison = &PoisonError{Pos: c.at.pos, Seq: c.at.seq, Reason: beyondTail}
		return
	}
	c.tail = tail
}

// possible reports whether an honest producer can have moved the tail here.
func (c *consumer) possible(tail uint64) bool {
	return tail >= c.tail && tail%align == 0 && tail-c.head.Pos <= c.hdr.Capacity
}

// Next returns the next record, nil if there is none yet. tail is how far recovery would find records after a crash
// now: in wal mode the tail word, in strict mode the last flushed tail. Errors: *PoisonError, and those of the source.
func (c *consumer) Next(tail uint64) (*Record, error) {
	c.observe(tail)
	for c.at.pos < c.tail {
		rec, why, err := c.r.next(&c.at, c.tail, 0)
		switch {
		case err != nil:
			return nil, err
		case why != valid:
			c.poison = &PoisonError{Pos: c.at.pos, Seq: c.at.seq, Reason: why}
			return nil, c.poison
		case rec != nil:
			c.ends = append(c.ends, c.at.pos)
			return rec, nil
		}
	}
	if c.poison != nil {
		return nil, c.poison
	}
	return nil, nil
}

// Release tells c that the effects of all records up to seq are durable. It returns the operations
// that release their room: first the head is made durable, then the producer is told. Releasing a
// record again does nothing.
func (c *consumer) Release(seq uint64) ([]step, error) {
	if seq < c.head.Seq {
		return nil, nil
	}
	n := seq - c.head.Seq + 1
	if n > uint64(len(c.ends)) {
		return nil, ErrNotHandedOut
	}
	c.head = headSlot{Pos: c.ends[n-1], Seq: seq + 1}
	c.ends = append(c.ends[:0], c.ends[n:]...)
	c.slot ^= 1
	off := headOff + c.slot*headSlotGap
	ops := []step{
		{Off: off, Data: c.head.Append(nil, &c.hdr.ID)},
		persist(region.Range{Off: off, N: headLen}),
		storeWord(publishedOff, c.head.Pos),
	}
	return ops, nil
}

// keptRecords is what a consumer knows about the records that it keeps.
type keptRecords struct {
	Header header
	Head   headSlot     // the oldest one
	Tail   uint64       // all records before it may be returned
	Poison *PoisonError // the one at Tail; nil: none
}

// Kept returns the records that may be read, whether or not Next has returned them. tail is that of Next.
func (c *consumer) Kept(tail uint64) keptRecords {
	c.observe(tail)
	return keptRecords{Header: c.hdr, Head: c.head, Tail: c.tail, Poison: c.poison}
}

// view reads records by number, besides Next. Records have no index: it remembers where some begin.
type view struct {
	src   source
	marks []cursor // in order
}

// mostMarks limits the places that a View remembers: enough for some readers that each continue where
// they have stopped, and to find any record without walking through the whole ring.
const mostMarks = 128

// newView returns a View of the ring in src.
func newView(src source) *view { return &view{src: src} }

// Read returns the records of k from number from on (0: from the oldest one), with at most octets of the
// ring, but at least one; nothing if there is none yet. What k keeps must not be overwritten meanwhile.
// Errors: *PoisonError, those of the source.
func (v *view) Read(k *keptRecords, from, octets uint64) ([]*Record, error) {
	v.marks = slices.DeleteFunc(v.marks, func(m cursor) bool { return m.pos < k.Head.Pos })
	at := cursor{pos: k.Head.Pos, seq: k.Head.Seq}
	for _, m := range v.marks {
		if m.seq <= from {
			at = m
		}
	}
	r := newReader(v.src, &k.Header)
	var found []*Record
	begin := at.pos
	for at.pos < k.Tail {
		rec, why, err := r.next(&at, k.Tail, 0)
		switch {
		case err != nil:
			return nil, err
		case why != valid && len(found) > 0:
			return found, nil
		case why != valid:
			return nil, &PoisonError{Pos: at.pos, Seq: at.seq, Reason: why}
		case rec != nil && rec.Seq >= from:
			if len(found) > 0 && at.pos-found[0].Pos > octets {
				return found, nil
			}
			found = append(found, rec)
		}
		if far := k.Header.Capacity / mostMarks; at.pos-begin > far || at.pos == k.Tail || len(found) > 0 && at.pos-found[0].Pos >= octets {
			v.mark(at)
			begin = at.pos
		}
	}
	if len(found) == 0 && k.Poison != nil {
		return nil, k.Poison
	}
	return found, nil
}

// mark remembers a place.
func (v *view) mark(at cursor) {
	i, found := slices.BinarySearchFunc(v.marks, at.pos, func(m cursor, pos uint64) int {
		return int(int64(m.pos - pos))
	})
	if found {
		return
	}
	v.marks = slices.Insert(v.marks, i, at)
	if len(v.marks) < mostMarks {
		return
	}
	kept := v.marks[:0]
	for i, m := range v.marks { // every second one, and the last, where readers wait for more
		if i%2 == 0 || i == mostMarks-1 {
			kept = append(kept, m)
		}
	}
	v.marks = kept
}
