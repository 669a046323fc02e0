package pmemtest_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
)

// sick is a good memory with one illness.
type sick struct {
	*pmemtest.Sim
	ill  string
	once atomic.Bool
}

func (s *sick) Persist(off, n int) error { return s.PersistRanges([]region.Range{{Off: off, N: n}}) }

func (s *sick) PersistRanges(rs []region.Range) error {
	switch err := s.Sim.PersistRanges(rs); {
	case s.ill == "forgets errors" && errors.Is(err, pmem.ErrFailed):
		return nil
	case (s.ill == "fails once only" || s.ill == "tells one caller") && errors.Is(err, syscall.EIO) && s.once.Swap(true):
		return nil
	case s.ill == "ranges anywhere" && errors.Is(err, pmem.ErrRange):
		return nil
	case s.ill == "open after close" && errors.Is(err, pmem.ErrClosed):
		return nil
	default:
		return err
	}
}

func (s *sick) Bytes() []byte {
	switch s.ill {
	case "another array":
		return bytes.Clone(s.Sim.Bytes())
	case "not zeros":
		s.Sim.Bytes()[0] |= 1
	}
	return s.Sim.Bytes()
}

func (s *sick) Store(off int, p []byte) error {
	if s.ill == "stores elsewhere" && off > 0 {
		off--
	}
	return s.Sim.Store(off, p)
}

func (s *sick) Load(p []byte, off int) error {
	if s.ill == "loads nothing" {
		return nil
	}
	return s.Sim.Load(p, off)
}

func (s *sick) Guard(off, n int, f func() error) error {
	err := s.Sim.Guard(off, n, f)
	if s.ill == "swallows errors" {
		return nil
	}
	return err
}

func (s *sick) Err() error {
	if s.ill == "denies" {
		return nil
	}
	return s.Sim.Err()
}

// illnesses lists illnesses, and for each a subtest that must find it.
var illnesses = map[string]string{
	"forgets errors":    "fails_for_good",
	"fails once only":   "fails_once",
	"tells one caller":  "fails_concurrently",
	"ranges anywhere":   "range",
	"open after close":  "close",
	"another array":     "octets",
	"not zeros":         "octets",
	"stores elsewhere":  "registered",
	"loads nothing":     "guarded",
	"swallows errors":   "guarded",
	"denies":            "fails_for_good",
	"loses":             "durable",
	"loses the newest":  "oracle",
	"keeps the unasked": "durable",
	"two owners":        "owner",
}

func target(ill string) pmemtest.Target {
	return pmemtest.Target{
		Create: func(_ testing.TB, size int, f *pmemtest.Faults) region.Memory {
			return &sick{Sim: pmemtest.NewSim(size, &pmemtest.SimOptions{Hooks: f.Hooks()}), ill: ill}
		},
		Crash: func(_ testing.TB, m region.Memory) region.Memory {
			s := m.(*sick)
			image := bytes.Clone(s.Snapshot().Durable())
			switch ill {
			case "loses":
				clear(image[:64])
			case "loses the newest":
				image[len(image)/2] ^= 0x55
			case "keeps the unasked":
				copy(image, s.Bytes())
			}
			return &sick{Sim: pmemtest.OpenSim(image, nil), ill: ill}
		},
		Again: func(testing.TB, region.Memory) error {
			if ill == "two owners" {
				return nil
			}
			return pmem.ErrLocked
		},
		Sync:  pmem.OpPersist,
		Exact: true,
	}
}

const illVar = "PMEMTEST_ILL"

// plain hides what a Sim can do beyond region.Memory.
type plain struct{ region.Memory }

// A memory that has only the methods of region.Memory passes the suite.
func TestRunPlain(t *testing.T) {
	pmemtest.Run(t, pmemtest.Target{
		Create: func(_ testing.TB, size int, f *pmemtest.Faults) region.Memory {
			return plain{pmemtest.NewSim(size, &pmemtest.SimOptions{Hooks: f.Hooks()})}
		},
		Sync: pmem.OpPersist,
	})
}

// TestRun runs the suite on the memory that the environment names; by default a
// healthy one.
func TestRun(t *testing.T) {
	ill := os.Getenv(illVar)
	for _, mk := range makers {
		if g, ok := mk(ill); ok {
			pmemtest.Run(t, g)
		}
	}
}

// makers make a Target with an illness of theirs, or a healthy one for "".
var makers = []func(ill string) (pmemtest.Target, bool){
	func(ill string) (pmemtest.Target, bool) { return target(ill), true },
}

// TestRunFindsIllness tests the suite itself: it must fail in the right subtest.
func TestRunFindsIllness(t *testing.T) {
	for ill, where := range illnesses {
		t.Run(ill, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRun$")
			cmd.Env = append(os.Environ(), illVar+"="+ill)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: TestRun/"+where) {
				t.Errorf("not found by %s: %v\n%s", where, err, out)
			}
		})
	}
}
