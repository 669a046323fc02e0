package pmemtest_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
)

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

func TestCount(t *testing.T) {
	for _, tt := range []struct {
		lines, versions    int
		word, line, sector uint64
	}{
		{0, 1, 1, 1, 1},
		{1, 1, 256, 2, 2},
		{4, 1, 1 << 32, 16, 5}, // a sector: after each of the four stores
		{2, 3, 1 << 32, 16, 7},
		{12, 1, math.MaxUint64, 4096, 9 * 5},
		{64, 1, math.MaxUint64, math.MaxUint64, 43046721},
	} {
		s := fill(t, tt.lines, tt.versions).Snapshot()
		if w, l, c := s.Count(pmemtest.Word), s.Count(pmemtest.Line), s.Count(pmemtest.Sector); w != tt.word || l != tt.line || c != tt.sector {
			t.Errorf("%d lines, %d versions: %d words, %d lines, %d sectors", tt.lines, tt.versions, w, l, c)
		}
		if got := len(s.Dirty()); got != tt.lines {
			t.Errorf("%d lines dirty, want %d", got, tt.lines)
		}
	}
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

// The name of an image finds it again.
func TestImageName(t *testing.T) {
	s := fill(t, 3, 2).Snapshot()
	for _, g := range []pmemtest.Grain{pmemtest.Word, pmemtest.Line, pmemtest.Sector} {
		for im := range s.Sample(g, rand.Uint64(), 50) {
			again, err := s.Image(im.String())
			if err != nil || !bytes.Equal(again.Octets(), im.Octets()) || again.String() != im.String() {
				t.Fatalf("%v: %v %v", im, again, err)
			}
		}
	}
	for _, name := range []string{"", "64", "x:", "32:", "64: 0", "64: 0=x", "64: x=0", "64: 0=3", "64: 0=-1", "64: 1=1", "64: 640=1"} {
		if _, err := s.Image(name); err == nil {
			t.Errorf("%q: no error", name)
		}
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
