package judge

import (
	"encoding/binary"
	"slices"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// commitMachine judges the session of a commit log (docs/commitlog-format.md). Without the answer that
// opened it the ring is unknown, and most things cannot be judged.
type commitMachine struct {
	*conn
	info   *decode.CommitInfo
	answer *commitlog.Answer

	edge    uint64 // after the last record written
	seq     uint64 // of the next record; 0: unknown
	head    uint64 // that the consumer has told
	tail    uint64 // stored last
	tailed  bool   // a tail was stored
	loose   bool   // strict: the tail is not flushed
	ends    []uint64
	dirty   []dirtyRecord // not flushed, oldest first
	reading int           // Read Requests for the head that are not answered yet
}

// dirtyRecord is the part of the ring that a record, or the header of a filler, takes, and how much of it
// was flushed.
type dirtyRecord struct {
	from, to uint64 // positions
	flushed  spans
}

// maxRecords bounds the records remembered after the tail.
const maxRecords = 1 << 12

// recordAlign is what positions are multiples of.
const recordAlign = 64

func newCommitMachine(c *conn) machine { return &commitMachine{conn: c} }

func (m *commitMachine) end() {}

func (m *commitMachine) event(ev *decode.Event) {
	if ev.Kind != decode.KindFPDU || ev.RDMAP == nil || ev.Conn.Commit == nil {
		return
	}
	m.info = ev.Conn.Commit
	if ev.Commit == nil {
		m.other(ev)
		return
	}
	switch c := ev.Commit; c.Kind {
	case decode.CommitAnswer:
		m.open(c.Answer)
	case decode.CommitWrite:
		m.within(c)
		m.strict()
		for i := range c.Records {
			m.record(&c.Records[i])
		}
	case decode.CommitFlush:
		m.within(c)
		m.persistent(ev)
		m.flush(c.Offset, c.Len)
	case decode.CommitVerify:
		m.within(c)
	case decode.CommitTail:
		m.store(ev, c.Position)
	case decode.CommitFlushTail:
		m.persistent(ev)
		m.loose = false
	case decode.CommitHead:
		m.published(c.Position)
	case decode.CommitReadHead:
		m.reading++
	case decode.CommitOther, decode.CommitAsk, decode.CommitDone:
	}
}

// other judges a frame that has no meaning to the log: it must not touch the tail word or the head.
func (m *commitMachine) other(ev *decode.Event) {
	d := ev.DDP
	switch {
	case ev.RDMAP.Op == verbs.OpReadResponse && ev.Dir != m.info.Producer && m.reading > 0:
		if m.reading--; len(d.Payload) == 8 {
			m.published(binary.BigEndian.Uint64(d.Payload))
		}
	case ev.RDMAP.Op == verbs.OpWrite && ev.Dir == m.info.Producer && len(d.Payload) > 0 && (d.STag == m.info.Tail || d.STag == m.info.Head):
		m.accuse("COMMIT-015", "RDMA Write to %v", d.STag)
	}
}

// open judges the answer that opens a session.
func (m *commitMachine) open(a *commitlog.Answer) {
	*m = commitMachine{conn: m.conn, info: m.info}
	_, badSize := commitlog.MemorySize(a.Capacity)
	switch {
	case badSize != nil:
		m.violate("COMMIT-001", "capacity %d", a.Capacity)
	case a.Mode != commitlog.Strict && a.Mode != commitlog.WAL || a.Hash != commitlog.CRC32C:
		m.violate("COMMIT-001", "mode %d, hash %d", a.Mode, a.Hash)
	case a.Head%recordAlign != 0 || a.Tail%recordAlign != 0 || a.Tail < a.Head || a.Tail-a.Head > a.Capacity:
		m.violate("COMMIT-001", "head %d, tail %d, capacity %d", a.Head, a.Tail, a.Capacity)
	case a.NextSeq == 0 || a.Epoch == 0:
		m.violate("COMMIT-001", "next record %d, epoch %d", a.NextSeq, a.Epoch)
	case a.LastEpoch >= a.Epoch, a.NextSeq > 1 && a.LastEpoch == 0:
		m.violate("COMMIT-001", "next record %d of epoch %d, the one before of epoch %d", a.NextSeq, a.Epoch, a.LastEpoch)
	default:
		copied := *a
		m.answer = &copied
		m.edge, m.seq, m.head, m.tail, m.tailed = a.Tail, a.NextSeq, a.Head, a.Tail, true
	}
}

// blind reports whether something unknown may have been sent.
func (m *commitMachine) blind() bool { return m.late || m.doubt[0] || m.doubt[1] }

// within judges whether octets lie in the ring.
func (m *commitMachine) within(c *decode.Commit) {
	if a := m.answer; a != nil && (c.Offset > a.Capacity || c.Len > a.Capacity-c.Offset) {
		m.accuse("COMMIT-008", "%v of %d octets at %d, the ring has %d", c.Kind, c.Len, c.Offset, a.Capacity)
	}
}

// strict judges whether the tail was flushed before the next record was written.
func (m *commitMachine) strict() {
	if m.loose && !m.blind() {
		m.accuse("COMMIT-013", "the tail %d was not flushed", m.tail)
	}
	m.loose = false
}

// persistent judges whether a flush is for persistence.
func (m *commitMachine) persistent(ev *decode.Event) {
	x := ev.Message.Extension
	if m.answer != nil && m.answer.Persistent && x.Len > 0 && x.Flags&verbs.FlushPersistent == 0 {
		m.accuse("COMMIT-014", "flags %#x", uint8(x.Flags))
	}
}

// recordHead precedes the payload of a record, octets.
const recordHead = 28

// record judges a record, or a filler, that was written.
func (m *commitMachine) record(r *decode.CommitRecord) {
	if !m.blind() {
		m.recordFault(r)
	}
	if !r.Filler {
		m.seq = r.Seq + 1
	}
	a := m.answer
	if a == nil {
		return
	}
	from := m.edge + (r.Offset+a.Capacity-m.at(m.edge))%a.Capacity // should be edge
	size, used := recordSize(r), recordSize(r)
	if r.Filler {
		size, used = uint64(r.Len), recordAlign
	}
	m.edge = from + size
	if m.edge-m.head > a.Capacity && !m.blind() {
		m.accuse("COMMIT-009", "record %d ends at %d, the ring is released only up to %d", r.Seq, m.edge, m.head)
	}
	if len(m.dirty) < maxRecords && len(m.ends) < maxRecords {
		m.dirty = append(m.dirty, dirtyRecord{from: from, to: from + used})
		m.ends = append(m.ends, m.edge)
	}
}

// recordFault finds the first thing wrong with a record.
func (m *commitMachine) recordFault(r *decode.CommitRecord) {
	if m.seq != 0 && r.Seq != m.seq {
		m.accuse("COMMIT-003", "record %d, the next one is %d", r.Seq, m.seq)
		return
	}
	a := m.answer
	if a == nil {
		return
	}
	switch at := m.edge % a.Capacity; {
	case r.Offset != at:
		m.accuse("COMMIT-002", "record %d at %d, the one before it ends at %d", r.Seq, r.Offset, at)
	case r.Epoch != a.Epoch:
		m.accuse("COMMIT-004", "record %d of epoch %d, the session has %d", r.Seq, r.Epoch, a.Epoch)
	case r.Filler && uint64(r.Len) != a.Capacity-r.Offset:
		m.accuse("COMMIT-007", "filler of %d octets at %d of %d", r.Len, r.Offset, a.Capacity)
	case !r.Filler && (int64(r.Len) > int64(commitlog.PayloadLimit(a.Capacity)) || r.Offset+recordSize(r) > a.Capacity):
		m.accuse("COMMIT-006", "record of %d octets at %d of %d", r.Len, r.Offset, a.Capacity)
	case r.Salted && !r.SumOK:
		m.accuse("COMMIT-005", "record %d", r.Seq)
	}
}

// recordSize returns what a record takes of the ring.
func recordSize(r *decode.CommitRecord) uint64 {
	return (recordHead + uint64(r.Len) + recordAlign - 1) &^ (recordAlign - 1)
}

// flush records a flush of ring octets. A record does not cross the end of the ring, so its octets are
// contiguous there.
func (m *commitMachine) flush(off, n uint64) {
	if m.answer == nil {
		return
	}
	m.dirty = slices.DeleteFunc(m.dirty, func(d dirtyRecord) bool { return off <= m.at(d.from) && m.at(d.from)+d.to-d.from <= off+n })
	for i := range m.dirty {
		d := &m.dirty[i]
		at := m.at(d.from)
		if from, to := max(off, at), min(off+n, at+d.to-d.from); from < to {
			d.flushed.add(from-at, to-at)
		}
	}
}

// at returns where in the ring a position is.
func (m *commitMachine) at(pos uint64) uint64 { return pos % m.answer.Capacity }

// store judges a store of the tail.
func (m *commitMachine) store(ev *decode.Event, tail uint64) {
	if ev.Message.Extension.TO != 0 {
		m.accuse("COMMIT-015", "Atomic Write at offset %d", ev.Message.Extension.TO)
	}
	m.strict()
	if tail%recordAlign != 0 || m.tailed && tail <= m.tail {
		m.accuse("COMMIT-010", "tail %d, was %d", tail, m.tail)
	} else if m.answer != nil && !m.blind() {
		m.covered(tail)
	}
	m.tail, m.tailed = tail, true
	m.loose = m.answer != nil && m.answer.Mode == commitlog.Strict
	m.ends = slices.DeleteFunc(m.ends, func(end uint64) bool { return end <= tail })
	m.dirty = slices.DeleteFunc(m.dirty, func(d dirtyRecord) bool { return d.from < tail })
}

// covered judges whether the tail is the end of a record, and everything before it is flushed.
func (m *commitMachine) covered(tail uint64) {
	if !slices.Contains(m.ends, tail) {
		m.accuse("COMMIT-011", "tail %d, records end at %v", tail, m.ends[:min(len(m.ends), 4)])
		return
	}
	for _, d := range m.dirty {
		if d.from < tail && !d.flushed.cover(0, d.to-d.from) {
			m.accuse("COMMIT-012", "tail %d, the record at %d is not flushed", tail, d.from)
			return
		}
	}
}

// published judges a head that the consumer has published.
func (m *commitMachine) published(head uint64) {
	if head%recordAlign != 0 || head < m.head || m.tailed && head > m.tail && !m.blind() {
		m.accuse("COMMIT-016", "head %d, was %d, the tail is %d", head, m.head, m.tail)
	}
	m.head = max(m.head, head)
}
