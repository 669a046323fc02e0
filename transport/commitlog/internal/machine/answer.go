package machine

import "encoding/binary"

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
