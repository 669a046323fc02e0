package pmemtest_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
)

// medium is the naive oracle of the crash model: it keeps all images that the medium may have, by letting everything
// happen that can happen. It is only for memories of very few units.
type medium struct {
	grain pmemtest.Grain
	data  []byte // what the processor sees
	may   map[string]bool
}

func newMedium(g pmemtest.Grain, image []byte) *medium {
	return &medium{g, bytes.Clone(image), map[string]bool{string(image): true}}
}

// writeBack lets any subset of units reach the medium.
func (m *medium) writeBack() {
	for off := 0; off < len(m.data); off += int(m.grain) {
		end := min(off+int(m.grain), len(m.data))
		for image := range maps.Clone(m.may) {
			m.may[image[:off]+string(m.data[off:end])+image[end:]] = true
		}
	}
}

func (m *medium) store(off int, p []byte) {
	copy(m.data[off:], p)
	m.writeBack()
}

func (m *medium) persist(off, n int) {
	next := make(map[string]bool)
	for image := range m.may {
		next[image[:off]+string(m.data[off:off+n])+image[off+n:]] = true
	}
	m.may = next
}

// images returns all images of s, and fails if one comes twice.
func images(t testing.TB, s *pmemtest.Snapshot, g pmemtest.Grain) map[string]bool {
	t.Helper()
	all := make(map[string]bool)
	for im := range s.All(g) {
		if all[string(im.Octets())] {
			t.Fatalf("image %v twice", im)
		}
		all[string(im.Octets())] = true
	}
	if n := s.Count(g); n != uint64(len(all)) {
		t.Fatalf("Count = %d, %d images", n, len(all))
	}
	return all
}

// remember makes the model forget nothing, like the oracle.
var remember = &pmemtest.SimOptions{Versions: 100}

// script is a random workload with few stores, so that the oracle can keep up. Stores have few different values, so
// that contents come back.
type script struct {
	t    testing.TB
	next func(n int) int
	sim  *pmemtest.Sim
	m    *medium
	log  []string
}

func (s *script) step() {
	size := len(s.m.data)
	off := s.next(size)
	n := 1 + s.next(min(size-off, 80))
	p := bytes.Repeat([]byte{byte(s.next(3))}, n)
	switch s.next(6) {
	case 5:
		s.crash()
	case 0:
		s.log = append(s.log, fmt.Sprintf("persist %d octets at %d", n, off))
		if err := s.sim.Persist(off, n); err != nil {
			s.t.Fatal(err)
		}
		s.m.persist(off, n)
	case 1: // right into the octets
		s.log = append(s.log, fmt.Sprintf("mark %d octets at %d", n, off))
		copy(s.sim.Bytes()[off:], p)
		s.sim.Mark()
		s.m.store(off, p)
	case 2:
		s.log = append(s.log, fmt.Sprintf("guard %d octets at %d", n, off))
		if err := s.sim.Guard(off, n, func() error { copy(s.sim.Bytes()[off:], p); return nil }); err != nil {
			s.t.Fatal(err)
		}
		s.m.store(off, p)
	default:
		s.log = append(s.log, fmt.Sprintf("store %d octets at %d", n, off))
		if err := s.sim.Store(off, p); err != nil {
			s.t.Fatal(err)
		}
		s.m.store(off, p)
	}
}

func (s *script) check() {
	got := images(s.t, s.sim.Snapshot(), s.m.grain)
	if maps.Equal(got, s.m.may) {
		return
	}
	for image := range s.m.may {
		if !got[image] {
			s.t.Errorf("missing: % x", image)
			break
		}
	}
	for image := range got {
		if !s.m.may[image] {
			s.t.Errorf("impossible: % x", image)
			break
		}
	}
	s.t.Fatalf("%d images, want %d, after %q", len(got), len(s.m.may), s.log)
}

// shapes are memories that are small enough for the oracle, with odd ends.
var shapes = []struct {
	grain pmemtest.Grain
	size  int
}{{pmemtest.Line, 64*4 + 10}, {pmemtest.Line, 40}, {pmemtest.Word, 30}, {pmemtest.Word, 64 + 3}, {pmemtest.Sector, 512*2 + 100}}

// The model has exactly the images of the oracle: none is missing, and none is impossible.
func TestSimAgainstOracle(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, shape := range shapes {
		for range 40 {
			s := &script{t: t, next: r.IntN, sim: pmemtest.NewSim(shape.size, remember), m: newMedium(shape.grain, make([]byte, shape.size))}
			for range 6 {
				s.step()
				s.check()
			}
		}
	}
}

// crash continues from a random image.
func (s *script) crash() {
	all := slices.Sorted(maps.Keys(s.m.may))
	k := s.next(len(all))
	s.log = append(s.log, fmt.Sprintf("crash to image %d of %d", k, len(all)))
	image := []byte(all[k])
	s.sim, s.m = pmemtest.OpenSim(image, remember), newMedium(s.m.grain, image)
}

// FuzzSim reads a workload from the input: two octets per number, the shape first.
func FuzzSim(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 64, 0, 1, 0, 4, 0, 0, 0, 10, 0, 0, 0, 0})
	f.Add([]byte{0, 1, 0, 3, 0, 9, 0, 2, 0, 1, 0, 3, 0, 9, 0, 1, 0, 2, 0, 0, 0, 20, 0, 0, 0, 0})
	f.Add([]byte{0, 2, 0, 8, 0, 8, 0, 1, 0, 3, 0, 12, 0, 8, 0, 2, 0, 4, 0, 10, 0, 4, 0, 0, 0, 0})
	f.Add([]byte{0, 4, 1, 244, 0, 79, 0, 1, 0, 3, 2, 10, 0, 50, 0, 1, 0, 3, 1, 255, 0, 1, 0, 0, 0, 0, 1, 0, 0, 9, 0, 2, 0, 2})
	f.Fuzz(func(t *testing.T, in []byte) {
		next := func(n int) int {
			if len(in) < 2 {
				in = nil
				return 0
			}
			v := int(in[0])<<8 | int(in[1])
			in = in[2:]
			return v % n
		}
		shape := shapes[next(len(shapes))]
		s := &script{t: t, next: next, sim: pmemtest.NewSim(shape.size, remember), m: newMedium(shape.grain, make([]byte, shape.size))}
		for k := 0; len(in) > 0 && k < 12 && len(s.m.may) < 1000; k++ {
			s.step()
			s.check()
		}
	})
}
