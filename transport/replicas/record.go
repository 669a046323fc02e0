package replicas

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stag-rdma/stag/transport/commitlog"
)

// The kinds of records.
const (
	kindClaim = 1
	kindCut   = 2
	kindEntry = 3
	kindBegin = 4
	kindTrim  = 5

	headLen = 17
)

// ErrRecord: a log holds a record that this package does not write.
var ErrRecord = errors.New("replicas: not a record of a replica (is it the right log?)")

func encode(kind byte, a, b uint64, payload []byte) []byte {
	r := append(make([]byte, 0, headLen+len(payload)), kind)
	r = binary.BigEndian.AppendUint64(r, a)
	r = binary.BigEndian.AppendUint64(r, b)
	return append(r, payload...)
}

// state is what the records of a replica say, one after the other. The first of them may have been released.
type state struct {
	claim uint64 // the highest term that somebody has claimed
	label uint64 // the term whose log this is
	first uint64 // index of the oldest entry
	kept  []kept // the entries, from first on
}

// kept is an entry of a replica.
type kept struct {
	seq uint64   // number of its record
	sum [16]byte // of it
}

// sumOf returns the digest of a record.
func sumOf(record []byte) [16]byte {
	sum := sha256.Sum256(record)
	return [16]byte(sum[:])
}

// last returns the index of the last entry; it is one below first if there is none.
func (s *state) last() uint64 { return s.first + uint64(len(s.kept)) - 1 }

func (s *state) at(index uint64) *kept { return &s.kept[index-s.first] }

// apply takes the next record.
func (s *state) apply(r *commitlog.Record) error {
	if s.first == 0 {
		s.first = 1
	}
	p := r.Payload
	if len(p) < headLen {
		return fmt.Errorf("%w: record %d", ErrRecord, r.Seq)
	}
	a, b := binary.BigEndian.Uint64(p[1:]), binary.BigEndian.Uint64(p[9:])
	switch {
	case p[0] == kindClaim:
		s.claim = max(s.claim, a)
	case p[0] == kindCut:
		s.cut(a)
	case p[0] == kindEntry && (a == s.last()+1 || len(s.kept) == 0 && a > 0):
		if len(s.kept) == 0 {
			s.first = a
		}
		s.kept = append(s.kept, kept{r.Seq, sumOf(p)})
	case p[0] == kindBegin && b == s.last():
		s.label, s.claim = a, max(s.claim, a)
	case p[0] == kindTrim:
		s.trim(a)
		s.label, s.claim = b, max(s.claim, b)
	default:
		return fmt.Errorf("%w: record %d, kind %d, %d and %d after entry %d", ErrRecord, r.Seq, p[0], a, b, s.last())
	}
	return nil
}

// cut drops the entries above index.
func (s *state) cut(index uint64) {
	switch {
	case index < s.first:
		s.first, s.kept = index+1, nil
	case index < s.last():
		s.kept = s.kept[:index+1-s.first]
	}
}

// trim drops the entries below index.
func (s *state) trim(index uint64) {
	if index <= s.first {
		return
	}
	n := min(index-s.first, uint64(len(s.kept)))
	s.kept = s.kept[n:]
	s.first = index
}

// common returns up to where s has the entries of from, and whether it has to begin again, because nothing of it can stay.
func (s *state) common(from *state) (index uint64, again bool) {
	lo := max(s.first, from.first)
	if s.last()+1 < lo || from.last()+1 < lo {
		return 0, true
	}
	for index = lo - 1; index < min(s.last(), from.last()) && s.at(index+1).sum == from.at(index+1).sum; {
		index++
	}
	return index, false
}
