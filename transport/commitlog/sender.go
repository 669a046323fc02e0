package commitlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/stag-rdma/stag/internal/crc32c"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// Answer is the result of Log.Advertise and the input of Producer.Open. It says where to reach
// the log, and what has survived of earlier sessions. The application must carry it from the consumer to the producer;
// Append and ParseAnswer encode and decode it. It contains the salt of the epoch: whoever can read it
// can forge records.
//
//	off 0, 4 octets: "scl2"
//	off 4, 4: Epoch
//	off 8, 16: ID
//	off 24, 8: Salt
//	off 32, 8: Capacity
//	off 40, 4: Mode
//	off 44, 4: Hash
//	off 48, 4: flags: bit 0 Persistent
//	off 52, 12: RingSTag, TailSTag, HeadSTag
//	off 64, 8: Head
//	off 72, 8: Tail
//	off 80, 8: NextSeq
//	off 88, 4: LastEpoch
type Answer struct {
	ID         [16]byte // of the log
	Epoch      uint32
	Salt       uint64
	Capacity   uint64
	Mode       Mode
	Hash       Hash
	Persistent bool // the memory can be flushed for persistence
	// Where the producer reaches the ring, the tail word and the published head, each
	// from TO 0; 0 for a session without a connection.
	RingSTag, TailSTag, HeadSTag uint32

	Head    uint64 // octets before it may be overwritten
	Tail    uint64 // where the next record goes
	NextSeq uint64 // its number: all records before it have survived
	// LastEpoch is the epoch of the last record, NextSeq-1, or 0 if there never was one. It lets a
	// producer distinguish its own records from those of another.
	LastEpoch uint32
}

// AnswerLen is the length of an encoded Answer in octets.
const AnswerLen = 92

const answerMagic = 0x73636c32 // "scl2"

// Append appends the AnswerLen octets of a to b.
func (a *Answer) Append(b []byte) []byte {
	var flags uint32
	if a.Persistent {
		flags = 1
	}
	b = binary.BigEndian.AppendUint32(b, answerMagic)
	b = binary.BigEndian.AppendUint32(b, a.Epoch)
	b = append(b, a.ID[:]...)
	b = binary.BigEndian.AppendUint64(b, a.Salt)
	b = binary.BigEndian.AppendUint64(b, a.Capacity)
	for _, v := range [...]uint32{uint32(a.Mode), uint32(a.Hash), flags, a.RingSTag, a.TailSTag, a.HeadSTag} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	for _, v := range [...]uint64{a.Head, a.Tail, a.NextSeq} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return binary.BigEndian.AppendUint32(b, a.LastEpoch)
}

// ParseAnswer reads an answer. It does not retain b. The error is ErrBadAnswer. Whether the numbers are
// consistent is checked when a producer opens a session.
func ParseAnswer(b []byte) (*Answer, error) {
	if len(b) != AnswerLen || binary.BigEndian.Uint32(b) != answerMagic {
		return nil, ErrBadAnswer
	}
	u32 := func(at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }
	u64 := func(at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }
	return &Answer{
		ID: [16]byte(b[8:24]), Epoch: u32(4), Salt: u64(24), Capacity: u64(32),
		Mode: Mode(u32(40)), Hash: Hash(u32(44)), Persistent: u32(48)&1 != 0,
		RingSTag: u32(52), TailSTag: u32(56), HeadSTag: u32(60),
		Head: u64(64), Tail: u64(72), NextSeq: u64(80), LastEpoch: u32(88),
	}, nil
}

// batch is a group of appends that share their flushes. Its Ops are sent in order with nothing in
// between. It is over when the last one is answered; the Ops are lent until then.
type batch struct {
	Ops []verbs.WR
	// Tag belongs to the owner, and stays when the batch is reused.
	Tag any

	runs   [2]run // adjacent in the ring, so at most two
	nruns  int
	count  int // appends
	octets int // size of their records
	tail   [8]byte
	sums   [2][crc32.Size]byte
}

// run is a piece of the ring without a gap.
type run struct {
	off  uint64
	data []byte
}

// Errors of the producer.
var (
	// ErrTooLarge: a payload beyond PayloadLimit.
	ErrTooLarge = errors.New("commitlog: record too large (split it, or create a larger log)")
	// ErrFull: TryBegin would have to wait until the consumer releases records.
	ErrFull = errors.New("commitlog: no room for the record (try again when the consumer has released some)")
	// ErrBadAnswer: no consumer gives such an open answer.
	ErrBadAnswer = errors.New("commitlog: impossible open answer")
	// ErrNotVerifiable: ProducerOptions.Verify, and a log with NoHash.
	ErrNotVerifiable = errors.New("commitlog: the medium of the log cannot be read back (append without Verify)")
	// ErrLostRecords: acknowledged records are missing from the log, or another producer has appended to it.
	ErrLostRecords = errors.New("commitlog: acknowledged records are missing (is it the same log, and has nobody else appended?)")
)

// entry is one record in flight. It belongs to the sender from Add until it is Over.
type entry struct {
	// Payload is borrowed until the append is over, or has been replaced by Abandon.
	Payload []byte
	// Seq is valid when the append is over without error.
	Seq uint64
	// Err is the error of the append; valid when Over.
	Err  error
	Over bool
	// Tag belongs to the owner.
	Tag any

	assigned bool
	given    bool // up: nobody waits for it
}

// limits of a sender. All must be set.
type limits struct {
	InFlight int // batches that may be unanswered
	Batch    int // octets of a batch, except for a single larger record
}

// Place says how far a session is: what it found, and what is acknowledged.
type Place struct {
	Epoch     uint32 // of the session
	Next      uint64 // number of its first record: all before have survived
	LastEpoch uint32 // of the record before that one; 0: there was none
	Acked     uint64 // number of the last record that is part of the log; 0: none
	Position  uint64 // after that record
	Limit     int    // octets of the largest record
}

// sender is the side that appends, without the connection: appends, answers and heads come in, batches and the appends
// that are over go out.
type sender struct {
	limits
	verify bool

	a          Answer // the last one; epoch 0: there was none
	open       bool   // a session is open
	head, tail uint64 // published durable head; end of what was passed to the wire
	seq        uint64 // of the next record to be put into a batch
	place      Place

	queue  []*entry // without a place in the ring yet
	sent   []*entry // with a place, in order
	flight []*batch // unanswered, in order
	spare  []*batch
	over   []*entry // returned as over, lent until the next event
}

// newSender returns a sender without a session. With verify it uses Verify operations.
func newSender(l limits, verify bool) *sender { return &sender{limits: l, verify: verify} }

// Open begins a session with the answer a. Only the answer decides about appends in flight from an
// earlier session: those that have survived are over, and the others are queued again, in front.
// Open returns the appends that are over now; like all such lists, it is lent until the next event.
func (p *sender) Open(a *Answer) ([]*entry, error) {
	if err := p.check(a); err != nil {
		return nil, err
	}
	p.over = p.over[:0]
	if p.a.Epoch != 0 {
		p.finish(int(a.NextSeq - p.oldest()))
	}
	for _, e := range p.sent {
		e.assigned = false
	}
	p.queue = append(slices.Clone(p.sent), p.queue...)
	p.sent, p.flight = nil, nil // not reused: what the old session has lent may still be read
	p.a, p.open = *a, true
	p.head, p.tail, p.seq = a.Head, a.Tail, a.NextSeq
	p.place = Place{Epoch: a.Epoch, Next: a.NextSeq, LastEpoch: a.LastEpoch, Acked: a.NextSeq - 1, Position: a.Tail, Limit: PayloadLimit(a.Capacity)}
	p.queue = slices.DeleteFunc(p.queue, func(e *entry) bool {
		if len(e.Payload) <= p.place.Limit {
			return false
		}
		e.Over, e.Err = true, ErrTooLarge
		p.over = append(p.over, e)
		return true
	})
	return p.over, nil
}

// finish notes that the n oldest records are durable.
func (p *sender) finish(n int) {
	seq := p.oldest()
	for i, e := range p.sent[:n] {
		e.Over, e.Seq = true, seq+uint64(i)
	}
	p.over = append(p.over, p.sent[:n]...)
	p.sent = slices.Delete(p.sent, 0, n)
}

// oldest returns the number of the first record that is not acknowledged.
func (p *sender) oldest() uint64 { return p.seq - uint64(len(p.sent)) }

func (p *sender) check(a *Answer) error {
	bad := func(what string) error { return fmt.Errorf("%w: %s", ErrBadAnswer, what) }
	switch {
	case checkCapacity(a.Capacity) != nil:
		return bad("capacity")
	case a.Mode != Strict && a.Mode != WAL, a.Hash > CRC32C:
		return bad("mode or hash")
	case a.Head%align != 0 || a.Tail%align != 0 || a.Tail < a.Head || a.Tail-a.Head > a.Capacity:
		return bad("head and tail")
	case a.NextSeq == 0 || a.Epoch == 0:
		return bad("epoch or sequence number")
	case a.LastEpoch >= a.Epoch, a.NextSeq > 1 && a.LastEpoch == 0:
		return bad("epoch of the last record")
	case p.verify && a.Hash == NoHash:
		return ErrNotVerifiable
	case p.a.Epoch == 0:
		return nil
	case a.ID != p.a.ID || a.Epoch <= p.a.Epoch || a.NextSeq < p.oldest() || a.NextSeq > p.seq:
		return fmt.Errorf("%w: next record %d of epoch %d, want %d to %d after epoch %d",
			ErrLostRecords, a.NextSeq, a.Epoch, p.oldest(), p.seq, p.a.Epoch)
	case a.LastEpoch > p.a.Epoch: // unanswered records are of that epoch
		return fmt.Errorf("%w: record %d is of epoch %d, after ours, %d", ErrLostRecords, a.NextSeq-1, a.LastEpoch, p.a.Epoch)
	case a.Capacity != p.a.Capacity:
		return bad("another capacity")
	}
	return nil
}

// Lost ends the session. Appends in flight stay as they are until Open.
func (p *sender) Lost() { p.open = false }

// Add queues e. Before the first answer it accepts any size, which Open then checks. With now, e must not wait for room:
// if it and the whole queue do not fit in the ring now, the error is ErrFull.
func (p *sender) Add(e *entry, now bool) error {
	n, attached := len(e.Payload), p.a.Epoch != 0
	if attached && n > PayloadLimit(p.a.Capacity) || n > maxPayload {
		return ErrTooLarge
	}
	if now && attached {
		at := p.tail
		for _, q := range p.queue {
			at = p.behind(at, recordSize(len(q.Payload)))
		}
		if !p.fits(at, recordSize(n)) {
			return ErrFull
		}
	}
	p.queue = append(p.queue, e)
	return nil
}

// Waiting reports whether there are appends that are neither over nor given up.
func (p *sender) Waiting() bool {
	waits := func(e *entry) bool { return !e.given }
	return slices.ContainsFunc(p.sent, waits) || slices.ContainsFunc(p.queue, waits)
}

// GiveUp gives all appends up. It returns them as over: with the error never if they will never be
// appended, and with doubt if they may have been. What is sent again in the next session has no Tag.
func (p *sender) GiveUp(never, doubt error) []*entry {
	p.over = p.over[:0]
	for i, e := range p.sent {
		if e.given {
			continue
		}
		p.sent[i] = &entry{Payload: slices.Clone(e.Payload), assigned: true, given: true}
		e.Over, e.Err = true, doubt
		p.over = append(p.over, e)
	}
	for _, e := range p.queue {
		e.Over, e.Err = true, never
		p.over = append(p.over, e)
	}
	clear(p.queue)
	p.queue = p.queue[:0]
	return p.over
}

// Abandon gives e up. It reports whether e was removed from the queue: then it will never be
// appended. Otherwise it may have been appended, or will be, and its payload has been copied.
func (p *sender) Abandon(e *entry) bool {
	if i := slices.Index(p.queue, e); i >= 0 && !e.assigned {
		p.queue = slices.Delete(p.queue, i, i+1)
		return true
	}
	e.Payload = slices.Clone(e.Payload)
	e.given = true
	return false
}

// worthwhile is how many octets always make a separate batch: to place and flush them takes so long
// that the peer should have the next ones by then.
const worthwhile = 64 << 10

// Next returns the next batch to send, nil if there is none now.
func (p *sender) Next() *batch {
	if !p.open || len(p.flight) >= p.InFlight || len(p.queue) == 0 || p.Blocked() {
		return nil
	}
	if n := len(p.flight); n > 0 {
		// While others are unanswered, the queue makes a separate batch if it is larger than the batch before it, or
		// large. Otherwise it waits for that batch, and is sent together with the next appends of those who wait for it:
		// each batch is a flush, and a few appends in two batches are slower than all in one.
		octets := 0
		for _, e := range p.queue {
			octets += int(recordSize(len(e.Payload)))
			if octets > p.flight[n-1].octets || octets >= min(worthwhile, p.Batch) {
				break
			}
		}
		if octets <= p.flight[n-1].octets && octets < min(worthwhile, p.Batch) {
			return nil
		}
	}
	var b *batch
	if n := len(p.spare); n > 0 {
		b, p.spare = p.spare[n-1], p.spare[:n-1]
		b.Ops, b.nruns, b.count, b.octets = b.Ops[:0], 0, 0, 0
	} else {
		b = new(batch)
	}
	// What records say about those before them: what is acknowledged is proven only if it is persistent. At the
	// beginning of a session everything before it is.
	var proven uint64
	if p.a.Persistent {
		proven = p.place.Position
	}
	for _, e := range p.queue {
		size := recordSize(len(e.Payload))
		if b.count > 0 && b.octets+int(size) > p.Batch || !p.fits(p.tail, size) {
			break
		}
		// A record that would cross the end of the ring comes after a filler. A batch that fits in the ring crosses its
		// end at most once, so two runs are enough.
		if end := toEnd(p.tail, p.a.Capacity); end < size {
			r := b.run(p.tail % p.a.Capacity)
			r.data = appendFiller(r.data, p.a.Salt, p.a.Epoch, p.seq, proven, end)
			p.tail += end
		}
		r := b.run(p.tail % p.a.Capacity)
		r.data = appendRecord(r.data, p.a.Salt, p.a.Epoch, p.seq, proven, e.Payload)
		p.tail += size
		p.seq++
		b.count++
		b.octets += int(size)
		e.assigned = true
		p.sent = append(p.sent, e)
	}
	p.queue = slices.Delete(p.queue, 0, b.count)
	// The tail is stored after everything before it was flushed, and, with verify, compared. In strict mode it is
	// flushed itself.
	flags, ring, tail := verbs.FlushVisible, region.STag(p.a.RingSTag), region.STag(p.a.TailSTag)
	if p.a.Persistent {
		flags = verbs.FlushPersistent
	}
	runs := b.runs[:b.nruns]
	for _, r := range runs {
		b.Ops = append(b.Ops, verbs.WR{Op: verbs.OpWrite, STag: ring, TO: r.off, Body: r.data})
	}
	for _, r := range runs {
		b.Ops = append(b.Ops, verbs.WR{Op: verbs.OpFlushRequest, STag: ring, TO: r.off, Len: uint32(len(r.data)), Flags: flags})
	}
	if p.verify {
		for i, r := range runs {
			sum := binary.BigEndian.AppendUint32(b.sums[i][:0], crc32c.Update(0, r.data))
			b.Ops = append(b.Ops, verbs.WR{Op: verbs.OpVerifyRequest, STag: ring, TO: r.off, Len: uint32(len(r.data)), Body: sum})
		}
	}
	binary.BigEndian.PutUint64(b.tail[:], p.tail)
	b.Ops = append(b.Ops, verbs.WR{Op: verbs.OpAtomicWriteRequest, STag: tail, Body: b.tail[:]})
	if p.a.Mode == Strict {
		b.Ops = append(b.Ops, verbs.WR{Op: verbs.OpFlushRequest, STag: tail, Len: 8, Flags: flags})
	}
	p.flight = append(p.flight, b)
	return b
}

// run returns the run that ends at off, where the tail is, or begins one.
func (b *batch) run(off uint64) *run {
	if b.nruns == 0 || off == 0 {
		r := &b.runs[b.nruns]
		r.off, r.data = off, r.data[:0]
		b.nruns++
		return r
	}
	return &b.runs[b.nruns-1]
}

// Done is called when the last operation of b was answered. It returns the appends that are over.
// For a batch of an ended session it does nothing.
func (p *sender) Done(b *batch) []*entry {
	if !p.open || len(p.flight) == 0 || p.flight[0] != b {
		return nil
	}
	p.flight = slices.Delete(p.flight, 0, 1)
	p.over = p.over[:0]
	p.finish(b.count)
	p.place.Acked, p.place.Position = p.oldest()-1, binary.BigEndian.Uint64(b.tail[:])
	p.spare = append(p.spare, b)
	return p.over
}

// Fail ends all appends with err: there will be no more sessions.
func (p *sender) Fail(err error) []*entry {
	over := append(p.sent, p.queue...)
	for _, e := range over {
		e.Over, e.Err = true, err
	}
	p.open, p.sent, p.queue = false, nil, nil
	return over
}

// Published sets the durable head, which the consumer has published.
func (p *sender) Published(head uint64) {
	if p.open && head > p.head && head <= p.tail && head%align == 0 {
		p.head = head
	}
}

// Blocked reports whether appends wait for room, not for answers.
func (p *sender) Blocked() bool {
	return p.open && len(p.queue) > 0 && !p.fits(p.tail, recordSize(len(p.queue[0].Payload)))
}

// fits reports whether there is room for a record of size octets after position at.
func (p *sender) fits(at, size uint64) bool {
	return p.behind(at, size)-p.head <= p.a.Capacity
}

// behind returns where a record of size octets ends if it is put after position at, with a filler
// before it if it would cross the end of the ring.
func (p *sender) behind(at, size uint64) uint64 {
	if end := toEnd(at, p.a.Capacity); end < size {
		at += end
	}
	return at + size
}
