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

	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
)

// TestMain fails the package if a test leaves a goroutine behind.
func TestMain(m *testing.M) { rdmaptest.Main(m) }

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
			return &sick{Sim: pmemtest.NewSim(size, &pmemtest.SimOptions{Hook: f.Hook()}), ill: ill}
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
			return plain{pmemtest.NewSim(size, &pmemtest.SimOptions{Hook: f.Hook()})}
		},
		Sync: pmem.OpPersist,
	})
}

// TestRun runs the suite on a memory with the illness that the environment names; by default on a healthy one.
func TestRun(t *testing.T) { pmemtest.Run(t, target(os.Getenv(illVar))) }

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

func TestFaults(t *testing.T) {
	f := pmemtest.NewFaults()
	want := func(op pmem.Op, want ...error) {
		t.Helper()
		for k, w := range want {
			if err := f.Before(op); !errors.Is(err, w) {
				t.Errorf("%s %d: %v, want %v", op, k, err, w)
			}
		}
	}
	want(pmem.OpWrite, nil)
	f.FailOnce(pmem.OpWrite, syscall.EIO)
	want(pmem.OpDatasync, nil)
	want(pmem.OpWrite, syscall.EIO, nil)
	f.FailAfter(pmem.OpWrite, 2, syscall.EIO)
	want(pmem.OpWrite, nil, nil, syscall.EIO, nil)
	f.Fail(pmem.OpWrite, syscall.ENOSPC)
	want(pmem.OpWrite, syscall.ENOSPC, syscall.ENOSPC)
	f.Clear(pmem.OpWrite)
	want(pmem.OpWrite, nil)
	if n := f.Count(pmem.OpWrite); n != 10 {
		t.Errorf("counted %d, want 10", n)
	}
	entered, release := f.Hang(pmem.OpMsync)
	done := make(chan error)
	go func() { done <- f.Before(pmem.OpMsync) }()
	<-entered
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	want(pmem.OpMsync, nil)
	if (*pmemtest.Faults)(nil).Hook() != nil {
		t.Error("hooks of nil")
	}
}
