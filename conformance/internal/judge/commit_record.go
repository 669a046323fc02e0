package judge

import (
	"slices"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/transport/commitlog"
)

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
