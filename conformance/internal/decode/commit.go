package decode

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// CommitKind says what a frame of a commit session does.
type CommitKind uint8

const (
	CommitOther     CommitKind = iota // nothing that the rules of the log cover
	CommitAsk                         // empty Send: the producer asks for a session
	CommitAnswer                      // Send: the session is open; Commit.Answer
	CommitWrite                       // RDMA Write into the ring; Commit.Offset, Len, Records
	CommitFlush                       // Flush Request for the ring; Commit.Offset, Len
	CommitVerify                      // Verify Request for the ring; Commit.Offset, Len
	CommitTail                        // Atomic Write Request to the tail word; Commit.Position
	CommitFlushTail                   // Flush Request for the tail word
	CommitDone                        // response to one of the four above; Commit.Request, RequestFrame
	CommitHead                        // Immediate Data: the durable head; Commit.Position
	CommitReadHead                    // Read Request for the published head
)

// String returns the kind in words: "write", "flush tail".
func (k CommitKind) String() string {
	return [...]string{
		"other", "ask", "answer", "write", "flush", "verify", "tail", "flush tail", "done", "head", "read head",
	}[k]
}

// Commit is what a frame means to a commit log (docs/commitlog-format.md).
type Commit struct {
	Kind CommitKind

	Answer *commitlog.Answer // CommitAnswer

	Offset, Len uint64         // offset and length of the octets, from the start of the ring
	Records     []CommitRecord // CommitWrite: the records whose last octets this segment brought. Lent.
	Position    uint64         // CommitTail: of the tail; CommitHead: of the head

	Request      CommitKind // CommitDone: the kind of the request; CommitOther if that was not seen
	RequestFrame int        // packet that completed the request, 0 if that was not seen
}

// CommitRecord is a record, or a filler, that was written to the ring.
type CommitRecord struct {
	Offset uint64 // in the ring
	Len    uint32 // of the payload; for a filler, the octets to the end of the ring
	Epoch  uint32
	Seq    uint64
	Filler bool
	First  int  // packet in which it began
	Salted bool // the salt of its epoch is known, so SumOK is meaningful
	SumOK  bool // the checksum is right
}

// CommitInfo is what is known about a commit session.
type CommitInfo struct {
	Answer           *commitlog.Answer // nil when it did not travel on this connection, or was not captured
	Producer         Dir               // who appends
	Ring, Tail, Head ddp.STag          // Head is 0 without an Answer
}

// commitState follows a commit session.
type commitState struct {
	records recordParser
	flushed ddp.STag        // of the last Flush Request, as long as there is no session
	pending []commitRequest // not answered, oldest first
	info    *CommitInfo
	ev      Commit
}

// commitRequest is a request that queue 3 answers.
type commitRequest struct {
	kind  CommitKind
	frame int
}

// maxPending bounds the requests that are remembered; IRD is 14 bits wide.
const maxPending = maxReads

// commit finds out what a frame means to a commit session, and whether there is one: it is recognised by the
// Answer in a Send, or by a Flush Request followed by an Atomic Write Request of 8 octets.
func (c *Conn) commit(ev *Event) {
	if c.opt.ULP != ULPAuto && c.opt.ULP != ULPCommit || c.Info.ULP == ULPRPCRDMA {
		return
	}
	s := &c.log
	s.learn(ev)
	if s.info == nil {
		return
	}
	c.Info.ULP, c.Info.Commit = ULPCommit, s.info
	s.ev = Commit{}
	if ev.Dir == s.info.Producer {
		s.fromProducer(ev)
	} else {
		s.fromConsumer(ev)
	}
	if s.ev.Kind != CommitOther {
		ev.Commit = &s.ev
	}
}

// learn recognises a session.
func (s *commitState) learn(ev *Event) {
	m := ev.Message
	if m == nil {
		return
	}
	if m.Op.IsSend() && len(m.Payload) == commitlog.AnswerLen {
		if a, err := commitlog.ParseAnswer(m.Payload); err == nil {
			s.info = &CommitInfo{a, 1 - ev.Dir, ddp.STag(a.RingSTag), ddp.STag(a.TailSTag), ddp.STag(a.HeadSTag)}
			s.pending = nil
			s.records.begin(a)
		}
		return
	}
	switch x := m.Extension; {
	case s.info != nil || x == nil:
	case m.Op == verbs.OpFlushRequest:
		s.flushed = x.STag
	case m.Op == verbs.OpAtomicWriteRequest && x.Len == 8 && s.flushed != 0 && s.flushed != x.STag:
		s.info = &CommitInfo{Producer: ev.Dir, Ring: s.flushed, Tail: x.STag}
	}
}

// fromProducer interprets a frame of the producer.
func (s *commitState) fromProducer(ev *Event) {
	e, m := &s.ev, ev.Message
	switch {
	case ev.RDMAP.Op == verbs.OpWrite && ev.DDP.STag == s.info.Ring:
		e.Kind, e.Offset, e.Len = CommitWrite, ev.DDP.TO, uint64(len(ev.DDP.Payload))
		e.Records = s.records.write(ev)
	case m == nil:
	case m.Op.IsSend() && len(m.Payload) == 0:
		e.Kind = CommitAsk
	case m.Read != nil && m.Read.SourceSTag == s.info.Head:
		e.Kind = CommitReadHead
	case m.Extension != nil:
		s.request(ev, m.Op, m.Extension)
	}
}

// request interprets a request of queue 1, and remembers it for its answer.
func (s *commitState) request(ev *Event, op verbs.Opcode, x *Extension) {
	e := &s.ev
	switch {
	case op == verbs.OpFlushRequest && x.STag == s.info.Ring:
		e.Kind, e.Offset, e.Len = CommitFlush, x.TO, uint64(x.Len)
	case op == verbs.OpFlushRequest && x.STag == s.info.Tail:
		e.Kind = CommitFlushTail
	case op == verbs.OpVerifyRequest && x.STag == s.info.Ring:
		e.Kind, e.Offset, e.Len = CommitVerify, x.TO, uint64(x.Len)
	case op == verbs.OpAtomicWriteRequest && x.STag == s.info.Tail && len(x.Data) >= 8:
		e.Kind, e.Position = CommitTail, binary.BigEndian.Uint64(x.Data)
	}
	if len(s.pending) < maxPending && op.Queue() == 1 {
		s.pending = append(s.pending, commitRequest{e.Kind, ev.Frame})
	}
}

// fromConsumer interprets a frame of the consumer.
func (s *commitState) fromConsumer(ev *Event) {
	e, m := &s.ev, ev.Message
	switch {
	case m == nil:
	case m.Op.IsSend() && s.info.Answer != nil && len(m.Payload) == commitlog.AnswerLen:
		e.Kind, e.Answer = CommitAnswer, s.info.Answer
	case (m.Op == verbs.OpImmediate || m.Op == verbs.OpImmediateSE) && len(m.Payload) == 8:
		e.Kind, e.Position = CommitHead, binary.BigEndian.Uint64(m.Payload)
	case m.QN == 3: // responses come in the order of the requests
		e.Kind = CommitDone
		if len(s.pending) > 0 {
			e.Request, e.RequestFrame = s.pending[0].kind, s.pending[0].frame
			s.pending = s.pending[1:]
		}
	}
}

// text renders what a frame means to the log.
func (m *Commit) text(b *strings.Builder) {
	if m == nil {
		return
	}
	fmt.Fprintf(b, " | log %v", m.Kind)
	switch m.Kind {
	case CommitAnswer:
		a := m.Answer
		fmt.Fprintf(b, " epoch=%d capacity=%d %v head=%d tail=%d next=%d last-epoch=%d",
			a.Epoch, a.Capacity, a.Mode, a.Head, a.Tail, a.NextSeq, a.LastEpoch)
	case CommitWrite:
		for _, r := range m.Records {
			r.text(b)
		}
	case CommitTail, CommitHead:
		fmt.Fprintf(b, " position=%d", m.Position)
	case CommitDone:
		fmt.Fprintf(b, " with %v", m.Request)
		if m.RequestFrame > 0 {
			fmt.Fprintf(b, " (request in %d)", m.RequestFrame)
		}
	default:
	}
}

func (r *CommitRecord) text(b *strings.Builder) {
	name := "record"
	if r.Filler {
		name = "filler"
	}
	fmt.Fprintf(b, " %s{seq=%d epoch=%d len=%d", name, r.Seq, r.Epoch, r.Len)
	if r.Salted && !r.SumOK {
		b.WriteString(" bad checksum")
	}
	b.WriteByte('}')
}

// lose forgets what missing octets of the capture make uncertain.
func (s *commitState) lose() {
	s.pending = nil
	s.records.open = false
}

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
