package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/stag-rdma/stag/internal/crc32c"
)

// Answer is what a producer is told when its session is opened. Only the Answer says which records of an
// earlier session have survived.
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

// AnswerLen is the length of an answer on the wire in octets.
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

// WireKind is the kind of a WireOp.
type WireKind uint8

// The kinds, each an operation of RDMAP (draft-talpey-rdma-commit Section 3).
const (
	WireWrite     WireKind = iota // RDMA Write of Data to Off
	WireFlush                     // Flush of N octets at Off
	WireVerify                    // Verify of N octets at Off: their hash must be Data
	WireSetTail                   // Atomic Write of Data to the tail word
	WireFlushTail                 // Flush of the tail word
	numberWires                   // not a kind
)

var wireNames = [numberWires]string{
	WireWrite: "write", WireFlush: "flush", WireVerify: "verify", WireSetTail: "set tail", WireFlushTail: "flush tail",
}

// String returns the kind in words.
func (k WireKind) String() string {
	if int(k) < len(wireNames) {
		return wireNames[k]
	}
	return fmt.Sprintf("WireKind(%d)", uint8(k))
}

// WireOp is one operation on the peer's memory. Off is from the start of the ring.
type WireOp struct {
	Kind WireKind
	Off  uint64
	N    int
	Data []byte
}

// Batch is a group of appends that share their flushes. Its Ops are sent in order with nothing in
// between. It is over when the last one is answered; the Ops are lent until then.
type Batch struct {
	Ops []WireOp
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

// ops lays out the operations of a batch that ends at tail.
func (b *Batch) ops(p *Producer, tail uint64) {
	b.Ops = b.Ops[:0]
	runs := b.runs[:b.nruns]
	for _, r := range runs {
		b.Ops = append(b.Ops, WireOp{Kind: WireWrite, Off: r.off, N: len(r.data), Data: r.data})
	}
	binary.BigEndian.PutUint64(b.tail[:], tail)
	set := WireOp{Kind: WireSetTail, N: 8, Data: b.tail[:]}
	for _, r := range runs {
		b.Ops = append(b.Ops, WireOp{Kind: WireFlush, Off: r.off, N: len(r.data)})
	}
	if p.verify {
		for i, r := range runs {
			b.Ops = append(b.Ops, WireOp{Kind: WireVerify, Off: r.off, N: len(r.data), Data: b.sum(i)})
		}
	}
	b.Ops = append(b.Ops, set)
	if p.mode == Strict {
		b.Ops = append(b.Ops, WireOp{Kind: WireFlushTail, N: 8})
	}
}

func (b *Batch) sum(i int) []byte {
	return binary.BigEndian.AppendUint32(b.sums[i][:0], crc32c.Update(0, b.runs[i].data))
}

// Errors of the producer.
var (
	// ErrTooLarge: the record would take more than half of the ring.
	ErrTooLarge = errors.New("commitlog: record too large (split it, or create a larger log)")
	// ErrFull: there is no room for the record until others are released.
	ErrFull = errors.New("commitlog: no room for the record (try again when the consumer has released some)")
	// ErrBadAnswer: no consumer gives such an open answer.
	ErrBadAnswer = errors.New("commitlog: impossible open answer")
	// ErrNotVerifiable: the producer wants Verify, and the log cannot.
	ErrNotVerifiable = errors.New("commitlog: the medium of the log cannot be read back (append without Verify)")
	// ErrLostRecords: acknowledged records are gone, or somebody else has appended.
	ErrLostRecords = errors.New("commitlog: acknowledged records are missing (is it the same log, and has nobody else appended?)")
)

// Append is one record in flight. It belongs to the machine from Add until it is Over.
type Append struct {
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

// Limits of a Producer. All must be set.
type Limits struct {
	InFlight int // batches that may be unanswered
	Batch    int // octets of a batch, except for a single larger record
}

// Place is how far a session is.
type Place struct {
	Epoch     uint32 // of the session
	Next      uint64 // number of its first record: all before have survived
	LastEpoch uint32 // of the record before that one; 0: there was none
	Acked     uint64 // number of the last record that is part of the log; 0: none
	Position  uint64 // after that record
	Limit     int    // octets of the largest record
}

// Producer is the side that appends.
type Producer struct {
	Limits
	verify bool

	id         [16]byte
	attached   bool // there was an answer
	open       bool // a session is open
	epoch      uint32
	salt       uint64
	capacity   uint64
	mode       Mode
	head, tail uint64 // published durable head; end of what was passed to the wire
	seq        uint64 // of the next record to be put into a batch
	persistent bool   // what an answer says is durable, and so can be proven
	place      Place
	octets     uint64 // of the records of queue and sent
	waiting    int    // appends of queue and sent that were not given up

	queue  []*Append // without a place in the ring yet
	sent   []*Append // with a place, in order
	flight []*Batch  // unanswered, in order
	spare  []*Batch
	over   []*Append // returned as over, lent until the next event
}

// NewProducer returns a producer without a session. With verify it uses Verify operations.
func NewProducer(l Limits, verify bool) *Producer { return &Producer{Limits: l, verify: verify} }

// Open begins a session with the answer a. Only the answer decides about appends in flight from an
// earlier session: those that have survived are over, and the others are queued again, in front.
// Open returns the appends that are over now; like all such lists, it is lent until the next event.
func (p *Producer) Open(a *Answer) ([]*Append, error) {
	if err := p.check(a); err != nil {
		return nil, err
	}
	p.over = p.over[:0]
	if p.attached {
		p.finish(int(a.NextSeq - p.oldest()))
	}
	for _, e := range p.sent {
		e.assigned = false
	}
	p.queue = append(slices.Clone(p.sent), p.queue...)
	p.sent, p.flight = nil, nil // not reused: what the old session has lent may still be read
	p.id, p.epoch, p.salt, p.capacity = a.ID, a.Epoch, a.Salt, a.Capacity
	p.mode, p.head, p.tail, p.seq = a.Mode, a.Head, a.Tail, a.NextSeq
	p.persistent = a.Persistent
	p.place = Place{Epoch: a.Epoch, Next: a.NextSeq, LastEpoch: a.LastEpoch, Acked: a.NextSeq - 1, Position: a.Tail, Limit: PayloadLimit(a.Capacity)}
	p.attached, p.open = true, true
	p.queue = slices.DeleteFunc(p.queue, func(e *Append) bool {
		if len(e.Payload) <= PayloadLimit(a.Capacity) {
			return false
		}
		e.Over, e.Err = true, ErrTooLarge
		p.over = append(p.over, e)
		p.gone(e)
		return true
	})
	return p.over, nil
}

// finish notes that the n oldest records are durable.
func (p *Producer) finish(n int) {
	seq := p.oldest()
	for i, e := range p.sent[:n] {
		e.Over, e.Seq = true, seq+uint64(i)
		p.gone(e)
	}
	p.over = append(p.over, p.sent[:n]...)
	p.sent = slices.Delete(p.sent, 0, n)
}

// gone takes e out of the account.
func (p *Producer) gone(e *Append) {
	p.octets -= RecordSize(len(e.Payload))
	if !e.given {
		p.waiting--
	}
}

// proven returns what the next records say about those before them: what is acknowledged is proven
// only if it is persistent. At the beginning of a session everything before it is.
func (p *Producer) proven() uint64 {
	if !p.persistent {
		return 0
	}
	return p.place.Position
}

// oldest returns the number of the first record that is not acknowledged.
func (p *Producer) oldest() uint64 { return p.seq - uint64(len(p.sent)) }

func (p *Producer) check(a *Answer) error {
	bad := func(what string) error { return fmt.Errorf("%w: %s", ErrBadAnswer, what) }
	switch {
	case CheckCapacity(a.Capacity) != nil:
		return bad("capacity")
	case a.Mode != Strict && a.Mode != WAL, a.Hash > CRC32C:
		return bad("mode or hash")
	case a.Head%Align != 0 || a.Tail%Align != 0 || a.Tail < a.Head || a.Tail-a.Head > a.Capacity:
		return bad("head and tail")
	case a.NextSeq == 0 || a.Epoch == 0:
		return bad("epoch or sequence number")
	case a.LastEpoch >= a.Epoch, a.NextSeq > 1 && a.LastEpoch == 0:
		return bad("epoch of the last record")
	case p.verify && a.Hash == NoHash:
		return ErrNotVerifiable
	case !p.attached:
		return nil
	case a.ID != p.id || a.Epoch <= p.epoch || a.NextSeq < p.oldest() || a.NextSeq > p.seq:
		return fmt.Errorf("%w: next record %d of epoch %d, want %d to %d after epoch %d",
			ErrLostRecords, a.NextSeq, a.Epoch, p.oldest(), p.seq, p.epoch)
	case a.LastEpoch > p.epoch: // unanswered records are of p.epoch
		return fmt.Errorf("%w: record %d is of epoch %d, after ours, %d", ErrLostRecords, a.NextSeq-1, a.LastEpoch, p.epoch)
	case a.Capacity != p.capacity:
		return bad("another capacity")
	}
	return nil
}

// Lost ends the session. Appends in flight stay as they are until Open.
func (p *Producer) Lost() { p.open = false }

// Add queues e. Before the first answer it accepts any size, which Open then checks.
func (p *Producer) Add(e *Append) error {
	if p.attached && len(e.Payload) > PayloadLimit(p.capacity) || len(e.Payload) > MaxPayload {
		return ErrTooLarge
	}
	p.queue = append(p.queue, e)
	p.octets += RecordSize(len(e.Payload))
	p.waiting++
	return nil
}

// Octets returns the size of the records that are not over.
func (p *Producer) Octets() uint64 { return p.octets }

// Waiting returns how many appends are neither over nor given up.
func (p *Producer) Waiting() int { return p.waiting }

// GiveUp gives all appends up. It returns them as over: with the error never if they will never be
// appended, and with doubt if they may have been. What is sent again in the next session has no Tag.
func (p *Producer) GiveUp(never, doubt error) []*Append {
	p.over = p.over[:0]
	for i, e := range p.sent {
		if e.given {
			continue
		}
		ghost := &Append{Payload: slices.Clone(e.Payload), assigned: true, given: true}
		p.sent[i] = ghost
		p.waiting--
		e.Over, e.Err = true, doubt
		p.over = append(p.over, e)
	}
	for _, e := range p.queue {
		p.gone(e)
		e.Over, e.Err = true, never
		p.over = append(p.over, e)
	}
	clear(p.queue)
	p.queue = p.queue[:0]
	return p.over
}

// Abandon gives e up. It reports whether e was removed from the queue: then it will never be
// appended. Otherwise it may have been appended, or will be, and its payload has been copied.
func (p *Producer) Abandon(e *Append) bool {
	if i := slices.Index(p.queue, e); i >= 0 && !e.assigned {
		p.queue = slices.Delete(p.queue, i, i+1)
		p.gone(e)
		return true
	}
	e.Payload = slices.Clone(e.Payload)
	e.given = true
	p.waiting--
	return false
}

// Next returns the next batch to send, nil if there is none now.
func (p *Producer) Next() *Batch {
	if !p.open || len(p.flight) >= p.InFlight || len(p.queue) == 0 || p.Blocked() || !p.worth() {
		return nil
	}
	b := p.batch()
	octets := 0
	for _, e := range p.queue {
		size := RecordSize(len(e.Payload))
		if b.count > 0 && octets+int(size) > p.Batch || !p.fits(p.tail, size) {
			break
		}
		p.put(b, e, size)
		octets += int(size)
	}
	p.queue = slices.Delete(p.queue, 0, b.count)
	b.octets = octets
	b.ops(p, p.tail)
	p.flight = append(p.flight, b)
	return b
}

// worthwhile is how many octets always make a separate batch: to place and flush them takes so long
// that the peer should have the next ones by then.
const worthwhile = 64 << 10

// worth reports whether the queue makes a separate batch while others are unanswered: if it is
// larger than the batch before it, or large. Otherwise it waits for that batch, and is sent
// together with the next appends of those who wait for it: each batch is a flush, and a few appends
// in two batches are slower than all in one.
func (p *Producer) worth() bool {
	n := len(p.flight)
	if n == 0 {
		return true
	}
	octets := 0
	for _, e := range p.queue {
		octets += int(RecordSize(len(e.Payload)))
		if octets > p.flight[n-1].octets || octets >= min(worthwhile, p.Batch) {
			return true
		}
	}
	return false
}

// Queued returns how many appends have no place yet.
func (p *Producer) Queued() int { return len(p.queue) }

// put gives e the next place, for which there is room, after a filler if it would cross the end of
// the ring. A batch that fits in the ring crosses its end at most once, so two runs are enough.
func (p *Producer) put(b *Batch, e *Append, size uint64) {
	if end := ToEnd(p.tail, p.capacity); end < size {
		r := b.run(p)
		r.data = AppendFiller(r.data, p.salt, p.epoch, p.seq, p.proven(), end)
		p.tail += end
	}
	r := b.run(p)
	r.data = AppendRecord(r.data, p.salt, p.epoch, p.seq, p.proven(), e.Payload)
	p.tail += size
	p.seq++
	b.count++
	e.assigned = true
	p.sent = append(p.sent, e)
}

// run returns the run that ends at the tail, or begins one.
func (b *Batch) run(p *Producer) *run {
	off := Ring(p.tail, p.capacity)
	if b.nruns == 0 || off == 0 {
		r := &b.runs[b.nruns]
		r.off, r.data = off, r.data[:0]
		b.nruns++
		return r
	}
	return &b.runs[b.nruns-1]
}

func (p *Producer) batch() *Batch {
	if n := len(p.spare); n > 0 {
		b := p.spare[n-1]
		p.spare = p.spare[:n-1]
		b.nruns, b.count = 0, 0
		return b
	}
	return new(Batch)
}

// Done is called when the last operation of b was answered. It returns the appends that are over.
// For a batch of an ended session it does nothing.
func (p *Producer) Done(b *Batch) []*Append {
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
func (p *Producer) Fail(err error) []*Append {
	over := append(p.sent, p.queue...)
	for _, e := range over {
		e.Over, e.Err = true, err
	}
	p.open, p.sent, p.queue = false, nil, nil
	p.octets, p.waiting = 0, 0
	return over
}

// Place returns how far the session is, or was.
func (p *Producer) Place() Place { return p.place }

// Published sets the durable head, which the consumer has published.
func (p *Producer) Published(head uint64) {
	if p.open && head > p.head && head <= p.tail && head%Align == 0 {
		p.head = head
	}
}

// Blocked reports whether appends wait for room, not for answers.
func (p *Producer) Blocked() bool {
	return p.open && len(p.queue) > 0 && !p.fits(p.tail, RecordSize(len(p.queue[0].Payload)))
}

// TryAdd is Add for a payload that must not wait for room: if it and the whole queue do not fit in
// the ring now, the error is ErrFull.
func (p *Producer) TryAdd(e *Append) error {
	if p.attached && len(e.Payload) <= PayloadLimit(p.capacity) && !p.room(len(e.Payload)) {
		return ErrFull
	}
	return p.Add(e)
}

// room reports whether a payload of n octets fits after the whole queue.
func (p *Producer) room(n int) bool {
	at := p.tail
	for _, e := range p.queue {
		at = p.behind(at, RecordSize(len(e.Payload)))
	}
	return p.fits(at, RecordSize(n))
}

// fits reports whether there is room for a record of size octets after position at.
func (p *Producer) fits(at, size uint64) bool {
	return p.behind(at, size)-p.head <= p.capacity
}

// behind returns where a record of size octets ends if it is put after position at, with a filler
// before it if it would cross the end of the ring.
func (p *Producer) behind(at, size uint64) uint64 {
	if end := ToEnd(at, p.capacity); end < size {
		at += end
	}
	return at + size
}
