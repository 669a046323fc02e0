package pmemtest

import (
	"iter"
	"math/rand/v2"
)

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
