package pmemtest_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/region/pmem"

	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem/pmemtest"
)

// The crash model, with two kinds of crashes: in one nothing survives that was not persisted, in the other anything
// may survive.
func TestSim(t *testing.T) {
	for name, crash := range map[string]func(*pmemtest.Snapshot) *pmemtest.Image{
		"nothing": func(s *pmemtest.Snapshot) *pmemtest.Image {
			for im := range s.All(pmemtest.Line) {
				return im
			}
			return nil
		},
		"anything": func(s *pmemtest.Snapshot) *pmemtest.Image {
			var last *pmemtest.Image
			for im := range s.Sample(pmemtest.Word, 1, 3) {
				last = im
			}
			return last
		},
	} {
		t.Run(name, func(t *testing.T) {
			pmemtest.Run(t, pmemtest.Target{
				Create: func(_ testing.TB, size int, f *pmemtest.Faults) region.Memory {
					return pmemtest.NewSim(size, &pmemtest.SimOptions{Hooks: f.Hooks()})
				},
				Crash: func(_ testing.TB, m region.Memory) region.Memory {
					return crash(m.(*pmemtest.Sim).Snapshot()).Open()
				},
				Sync:  pmem.OpPersist,
				Exact: name == "nothing",
			})
		})
	}
}
