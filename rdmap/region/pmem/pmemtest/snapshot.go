package pmemtest

import (
	"bytes"
	"maps"
	"math"
	"math/bits"
	"slices"
)

// Grain is the number of octets that reach the medium either whole or not at all.
type Grain int

// The grains. A coarser grain has fewer units and allows fewer outcomes, so a test can try more of
// their combinations.
const (
	// Word: lines are torn at 8 octets, as when the power fails during a write-back.
	Word Grain = 8
	// Line: cache lines are whole.
	Line Grain = 64
	// Sector: writes are torn at 512 octets, as on a disk.
	Sector Grain = 512
)

// Snapshot describes what a crash of a Sim could leave at one moment: the octets that are
// certainly durable, and for every dirty unit the contents that it may have instead. It does not
// change. Its methods may be called from several goroutines at once.
//
//	for im := range sim.Snapshot().Crashes(seed, 1000) {
//		if err := recovered(im.Open()); err != nil {
//			t.Fatalf("after crash %v: %v", im, err)
//		}
//	}
type Snapshot struct {
	durable []byte
	dirty   map[int][]version
	o       SimOptions
}

// Durable lends the content that the medium certainly holds: the octets that no crash can take away,
// and, in the place of the others, those that the medium held before. It must not be changed.
func (s *Snapshot) Durable() []byte { return s.durable }

// Dirty returns, in ascending order, the numbers of the lines whose content may differ from
// Durable.
func (s *Snapshot) Dirty() []int { return slices.Sorted(maps.Keys(s.dirty)) }

// Count returns the number of different images, or the largest uint64 if there are more.
func (s *Snapshot) Count(g Grain) uint64 { return count(s.units(g)) }

func count(us []unit) uint64 {
	n := uint64(1)
	for _, u := range us {
		hi, lo := bits.Mul64(n, uint64(len(u.contents)))
		if hi != 0 {
			return math.MaxUint64
		}
		n = lo
	}
	return n
}

// unit is a piece of the memory that reaches the medium whole.
type unit struct {
	off      int
	contents [][]byte // all different; the first one is durable
	newest   int      // index of the one that the processor sees
}

func (u *unit) add(octets []byte) {
	same := func(b []byte) bool { return bytes.Equal(b, octets) }
	if u.newest = slices.IndexFunc(u.contents, same); u.newest < 0 {
		u.newest = len(u.contents)
		u.contents = append(u.contents, octets)
	}
}

// units returns the units with more than one possible content, ascending.
func (s *Snapshot) units(g Grain) []unit {
	var all []unit
	for _, line := range s.Dirty() {
		switch g {
		case Word:
			all = append(all, s.words(line)...)
		case Sector:
			first := line - line%(int(Sector)/lineSize)
			if k := len(all); k == 0 || all[k-1].off != first*lineSize {
				all = append(all, s.sector(first))
			}
		default:
			all = append(all, s.piece(line, 0, lineSize))
		}
	}
	return slices.DeleteFunc(all, func(u unit) bool { return len(u.contents) == 1 })
}

// piece returns the unit of the octets lo to hi-1 of a line, or fewer if the line is short.
func (s *Snapshot) piece(line, lo, hi int) unit {
	b := lineOf(s.durable, line)
	hi = min(hi, len(b))
	u := unit{off: line*lineSize + lo, contents: [][]byte{b[lo:hi]}}
	for _, v := range s.dirty[line] {
		u.add(v.octets[lo:hi])
	}
	return u
}

func (s *Snapshot) words(line int) []unit {
	var us []unit
	for lo := 0; lo < len(lineOf(s.durable, line)); lo += int(Word) {
		us = append(us, s.piece(line, lo, lo+int(Word)))
	}
	return us
}

// sector returns the unit of the sector that begins with the line first. Its contents are those that
// it has had over time: at each time, each line has its latest version up to then.
func (s *Snapshot) sector(first int) unit {
	off := first * lineSize
	last := min(off+int(Sector), len(s.durable))
	u := unit{off: off, contents: [][]byte{s.durable[off:last]}}
	var times []uint64
	for line := first; line*lineSize < last; line++ {
		for _, v := range s.dirty[line] {
			times = append(times, v.at)
		}
	}
	slices.Sort(times)
	for _, t := range slices.Compact(times) {
		u.add(s.at(t, off, last))
	}
	return u
}

// at returns what the octets off to last-1 held at the time t.
func (s *Snapshot) at(t uint64, off, last int) []byte {
	b := slices.Clone(s.durable[off:last])
	for line := off / lineSize; line*lineSize < last; line++ {
		for _, v := range s.dirty[line] {
			if v.at <= t {
				copy(b[line*lineSize-off:], v.octets)
			}
		}
	}
	return b
}
