package pmemtest

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
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

// Image is the content of the medium after one crash.
type Image struct {
	s      *Snapshot
	grain  Grain
	units  []unit
	choice []int // by unit: the index of its content
	octets []byte
}

// image returns the durable image; set turns it into others.
func (s *Snapshot) image(g Grain) *Image {
	us := s.units(g)
	return &Image{s: s, grain: g, units: us, choice: make([]int, len(us)), octets: slices.Clone(s.durable)}
}

// Octets lends the octets of the image until the next one is made. They must not be changed.
func (im *Image) Octets() []byte { return im.octets }

// Open returns a Sim that has restarted after this crash, with the options of the Sim that crashed.
// It copies the image.
func (im *Image) Open() *Sim { return OpenSim(im.octets, &im.s.o) }

// String names the image among those of its snapshot: by the grain, and, for each unit whose content
// is not the durable one, by the offset of the unit and the number of its content.
func (im *Image) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d:", int(im.grain))
	for k, c := range im.choice {
		if c != 0 {
			fmt.Fprintf(&b, " %d=%d", im.units[k].off, c)
		}
	}
	return b.String()
}

// set gives unit k its content c.
func (im *Image) set(k, c int) *Image {
	if im.choice[k] != c {
		im.choice[k] = c
		copy(im.octets[im.units[k].off:], im.units[k].contents[c])
	}
	return im
}

// reset gives all units their durable content, or their newest one.
func (im *Image) reset(newest bool) *Image {
	for k, u := range im.units {
		c := 0
		if newest {
			c = u.newest
		}
		im.set(k, c)
	}
	return im
}

// advance counts to the next image, the first unit fastest. It returns false after the last image.
func (im *Image) advance() bool {
	for k, u := range im.units {
		if im.choice[k]+1 < len(u.contents) {
			im.set(k, im.choice[k]+1)
			return true
		}
		im.set(k, 0)
	}
	return false
}

const (
	// maxSubsets: up to this many dirty units, Crashes tries all subsets.
	maxSubsets = 12
	// maxImages: up to this many images, Crashes tries all of them.
	maxImages = 1 << maxSubsets
)

// All yields all Count images that a crash can leave at grain g, the durable one first. As with the
// other iterators, each Image is lent until the next one.
func (s *Snapshot) All(g Grain) iter.Seq[*Image] {
	return func(yield func(*Image) bool) {
		im := s.image(g)
		for ok := true; ok; ok = im.advance() {
			if !yield(im) {
				return
			}
		}
	}
}

// Subsets yields the images in which each unit has either its durable or its newest content: all 2^n
// for n dirty units, of which only the first 30 vary. Contents in between are left out.
func (s *Snapshot) Subsets(g Grain) iter.Seq[*Image] {
	return func(yield func(*Image) bool) {
		im := s.image(g)
		for mask := uint64(0); mask < 1<<min(len(im.units), 30); mask++ {
			for k, u := range im.units {
				im.set(k, u.newest*int(mask>>k&1))
			}
			if !yield(im) {
				return
			}
		}
	}
}

// Edges yields the images that most often reveal mistakes in the order of flushes: nothing has
// reached the medium; everything has; a single content has; all newest contents but one have.
func (s *Snapshot) Edges(g Grain) iter.Seq[*Image] {
	return func(yield func(*Image) bool) {
		im := s.image(g)
		if !yield(im.reset(false)) || !yield(im.reset(true)) {
			return
		}
		for k, u := range im.units {
			for c := 1; c < len(u.contents); c++ {
				if im.reset(false); !yield(im.set(k, c)) {
					return
				}
			}
			if im.reset(true); !yield(im.set(k, 0)) {
				return
			}
		}
	}
}

// Sample yields n random images, the same ones for the same seed. In each a random share of the
// units has reached the medium, with any of their contents.
func (s *Snapshot) Sample(g Grain, seed uint64, n int) iter.Seq[*Image] {
	return func(yield func(*Image) bool) {
		im := s.image(g)
		r := rand.New(rand.NewPCG(seed, uint64(g)))
		for range n {
			share := r.Float64()
			for k, u := range im.units {
				c := 0
				if r.Float64() < share {
					c = 1 + r.IntN(len(u.contents)-1)
				}
				im.set(k, c)
			}
			if !yield(im) {
				return
			}
		}
	}
}

// Crashes yields the images that a test of recovery should survive, at the grains Line, Word and
// Sector. If there are at most 4096 images, it yields all of them. Otherwise it yields n random
// ones, together with all Subsets if there are at most 12 dirty units, or else the Edges.
func (s *Snapshot) Crashes(seed uint64, n int) iter.Seq[*Image] {
	return func(yield func(*Image) bool) {
		for _, g := range []Grain{Line, Word, Sector} {
			for _, images := range s.plan(g, seed, n) {
				for im := range images {
					if !yield(im) {
						return
					}
				}
			}
		}
	}
}

func (s *Snapshot) plan(g Grain, seed uint64, n int) []iter.Seq[*Image] {
	us := s.units(g)
	switch {
	case count(us) <= maxImages:
		return []iter.Seq[*Image]{s.All(g)}
	case len(us) <= maxSubsets:
		return []iter.Seq[*Image]{s.Subsets(g), s.Sample(g, seed, n)}
	}
	return []iter.Seq[*Image]{s.Edges(g), s.Sample(g, seed, n)}
}
