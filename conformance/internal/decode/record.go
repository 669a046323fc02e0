package decode

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/stag-rdma/stag/transport/commitlog"
)

// recordParser finds the records in the RDMA Writes into the ring of a commit log
// (docs/commitlog-format.md, "Record"). It keeps nothing of their payload.
type recordParser struct {
	epoch  uint32
	salt   uint64
	salted bool // epoch and salt are known

	open bool   // next is known, and a record is in progress or begins there
	next uint64 // ring offset of the octet that continues it
	head [recordHead]byte
	have int // octets of head
	body int // octets of the payload still to come
	pad  int // octets of the roundup still to come
	sum  uint32
	cur  CommitRecord

	done []CommitRecord // of the current segment
}

const (
	recordHead  = 28
	recordAlign = 64
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// begin says that a session has been opened.
func (p *recordParser) begin(a *commitlog.Answer) {
	*p = recordParser{epoch: a.Epoch, salt: a.Salt, salted: true, done: p.done[:0]}
}

// write takes a segment of an RDMA Write and returns the records it completes. A segment that does not
// continue the one before it begins a record, if a record can begin there.
func (p *recordParser) write(ev *Event) []CommitRecord {
	p.done = p.done[:0]
	b, at := ev.DDP.Payload, ev.DDP.TO
	if !p.open || at != p.next {
		p.open, p.have, p.body, p.pad = at%recordAlign == 0, 0, 0, 0
	}
	p.next = at + uint64(len(b))
	for p.open && len(b) > 0 {
		b = b[p.take(b, at+uint64(len(ev.DDP.Payload)-len(b)), ev.First):]
	}
	return p.done
}

// take takes octets at offset at and returns how many.
func (p *recordParser) take(b []byte, at uint64, frame int) int {
	switch {
	case p.have < recordHead:
		if p.have == 0 {
			p.cur = CommitRecord{Offset: at, First: frame}
		}
		n := copy(p.head[p.have:], b)
		if p.have += n; p.have == recordHead {
			p.header()
			p.complete()
		}
		return n
	case p.body > 0:
		n := min(p.body, len(b))
		p.sum = crc32.Update(p.sum, castagnoli, b[:n])
		if p.body -= n; p.body == 0 {
			p.complete()
		}
		return n
	default:
		n := min(p.pad, len(b))
		if p.pad -= n; p.pad == 0 {
			p.have = 0
		}
		return n
	}
}

// header reads the head of a record.
func (p *recordParser) header() {
	be := binary.BigEndian
	word := be.Uint32(p.head[:])
	r := &p.cur
	r.Epoch, r.Seq = be.Uint32(p.head[4:]), be.Uint64(p.head[8:])
	r.Filler = word>>31 != 0
	r.Len = word &^ (1 << 31)
	p.body = 0
	if !r.Filler {
		p.body = int(r.Len)
	}
	p.pad = -(recordHead + p.body) & (recordAlign - 1)
	salted := append(be.AppendUint64(nil, p.salt), p.head[4:16]...)
	salted = append(salted, p.head[:4]...)
	p.sum = crc32.Checksum(append(salted, p.head[16:24]...), castagnoli)
}

// complete notes a record whose payload is all there.
func (p *recordParser) complete() {
	if p.body > 0 {
		return
	}
	p.cur.Salted = p.salted && p.cur.Epoch == p.epoch
	p.cur.SumOK = p.cur.Salted && p.sum == binary.BigEndian.Uint32(p.head[24:])
	p.done = append(p.done, p.cur)
	if p.pad == 0 {
		p.have = 0
	}
}
