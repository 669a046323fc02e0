package pmemtest_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

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

// fill makes n lines of a new Sim dirty, each with that many versions.
func fill(t *testing.T, n, versions int) *pmemtest.Sim {
	t.Helper()
	s := pmemtest.NewSim(n*64, nil)
	for v := range versions {
		for line := range n {
			if err := s.Store(line*64, bytes.Repeat([]byte{byte(v + 1)}, 64)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

// Subsets, Edges, Sample and Crashes yield images of All, as many as they promise.
func TestSelections(t *testing.T) {
	s := fill(t, 5, 2).Snapshot()
	all := images(t, s, pmemtest.Line)
	for name, tt := range map[string]struct {
		seq  func(func(*pmemtest.Image) bool)
		want int // distinct
	}{
		"all":     {s.All(pmemtest.Line), 243},
		"subsets": {s.Subsets(pmemtest.Line), 32},
		"edges":   {s.Edges(pmemtest.Line), 2 + 5*2 + 5},
		"sample":  {s.Sample(pmemtest.Line, 7, 5000), 243},
	} {
		got := make(map[string]bool)
		for im := range tt.seq {
			if !all[string(im.Octets())] {
				t.Fatalf("%s: %v is impossible", name, im)
			}
			got[string(im.Octets())] = true
		}
		if len(got) != tt.want {
			t.Errorf("%s: %d images, want %d", name, len(got), tt.want)
		}
		for range tt.seq { // stopping early
			break
		}
	}
	for n := range 20 { // stopping anywhere
		for range s.Edges(pmemtest.Line) {
			if n--; n < 0 {
				break
			}
		}
	}
	for range s.Crashes(1, 10) {
		break
	}
}

// Crashes tries what it promises, by the number of dirty lines.
func TestCrashes(t *testing.T) {
	for _, tt := range []struct{ lines, versions, line, word, sector int }{
		{1, 1, 2, 256, 2},
		{2, 1, 4, 2 + 16*2 + 10, 3},
		{12, 1, 4096, 2 + 96*2 + 10, 45},
		{12, 2, 4096 + 10, 2 + 96*3 + 10, 17 * 9},
		{13, 1, 2 + 13*2 + 10, 2 + 104*2 + 10, 9 * 6},
	} {
		got := make(map[pmemtest.Grain]int)
		s := fill(t, tt.lines, tt.versions).Snapshot()
		for im := range s.Crashes(3, 10) {
			got[grainOf(t, im)]++
		}
		if got[pmemtest.Line] != tt.line || got[pmemtest.Word] != tt.word || got[pmemtest.Sector] != tt.sector {
			t.Errorf("%d lines, %d versions: %v", tt.lines, tt.versions, got)
		}
	}
}

func grainOf(t *testing.T, im *pmemtest.Image) pmemtest.Grain {
	t.Helper()
	g := 0
	for _, c := range im.String() {
		if c == ':' {
			break
		}
		g = g*10 + int(c-'0')
	}
	return pmemtest.Grain(g)
}

// The same seed yields the same images; another seed yields others.
func TestSampleBySeed(t *testing.T) {
	s := fill(t, 30, 3).Snapshot()
	names := func(seed uint64) (all []string) {
		for im := range s.Sample(pmemtest.Line, seed, 20) {
			all = append(all, im.String())
		}
		return all
	}
	if a, b := names(5), names(5); !slices.Equal(a, b) {
		t.Error("not deterministic")
	}
	if a, b := names(5), names(6); slices.Equal(a, b) {
		t.Error("the seed does not matter")
	}
}

// A snapshot does not change, whatever happens to the memory or to the Sims of its images.
func TestSnapshotIsImmutable(t *testing.T) {
	sim := fill(t, 3, 2)
	s := sim.Snapshot()
	before := images(t, s, pmemtest.Line)
	_ = sim.Store(10, []byte("later"))
	_ = sim.Persist(0, 100)
	for im := range s.All(pmemtest.Line) {
		re := im.Open()
		_ = re.Store(0, []byte("elsewhere"))
		_ = re.Persist(0, 9)
	}
	after := images(t, s, pmemtest.Line)
	for image := range before {
		if !after[image] || len(after) != len(before) {
			t.Fatal("changed")
		}
	}
}

// If a line has more contents than Versions, the latest are remembered.
func TestVersionsAreBounded(t *testing.T) {
	sim := pmemtest.NewSim(8, &pmemtest.SimOptions{Versions: 3})
	for v := range 100 {
		_ = sim.Store(0, []byte{byte(v)})
	}
	var got []byte
	for im := range sim.Snapshot().All(pmemtest.Line) {
		got = append(got, im.Octets()[0])
	}
	if want := []byte{0, 97, 98, 99}; !bytes.Equal(got, want) {
		t.Errorf("%d, want %d", got, want)
	}
}

// Snapshot finds stores directly into Bytes; Told does not.
func TestSnapshotMarks(t *testing.T) {
	sim := pmemtest.NewSim(100, nil)
	sim.Bytes()[99] = 1
	if n := sim.Told().Count(pmemtest.Line); n != 1 {
		t.Errorf("told of %d images, want 1", n)
	}
	if n := sim.Snapshot().Count(pmemtest.Line); n != 2 {
		t.Errorf("%d images, want 2", n)
	}
}

// Step sees every store and both sides of every Persist; Told may be called during stores.
func TestStep(t *testing.T) {
	var counts []uint64
	sim := pmemtest.NewSim(64, &pmemtest.SimOptions{Step: func(s *pmemtest.Sim) { counts = append(counts, s.Told().Count(pmemtest.Line)) }})
	_ = sim.Store(0, []byte{1})
	_ = sim.Guard(1, 1, func() error { sim.Bytes()[1] = 1; return nil })
	_ = sim.Persist(0, 64)
	if want := []uint64{2, 3, 3, 1}; !slices.Equal(counts, want) {
		t.Errorf("%d images, want %d", counts, want)
	}
	if lines := sim.Told().Dirty(); len(lines) != 0 {
		t.Errorf("dirty after all was persisted: %d", lines)
	}
}

// Stores, flushes, atomic operations of others and snapshots by Told, all at once. Each worker checks what it was
// promised.
func TestSimConcurrent(t *testing.T) {
	const workers = 4
	sim := pmemtest.NewSim(workers*64+64, nil)
	word := (*uint64)(unsafe.Pointer(&sim.Bytes()[workers*64]))
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for k := range 100 {
				_ = sim.Store(w*64, []byte{byte(k)})
				_ = sim.Guard(workers*64, 8, func() error { atomic.AddUint64(word, 1); return nil })
				_ = sim.Persist(w*64, 1)
				if got := sim.Told().Durable()[w*64]; got != byte(k) {
					t.Errorf("durable %d, want %d", got, k)
				}
				_ = sim.Persist(workers*64, 8)
			}
		})
	}
	wg.Wait()
	s := sim.Snapshot()
	if n := s.Count(pmemtest.Word); n != 1 || !bytes.Equal(s.Durable(), sim.Bytes()) || *word != workers*100 {
		t.Errorf("%d images, word %d", n, *word)
	}
}
