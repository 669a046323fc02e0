package pmemsim_test

import (
	"testing"

	"github.com/stag-rdma/stag/internal/pmemsim"
	"github.com/stag-rdma/stag/internal/pmemtest"
	"github.com/stag-rdma/stag/rdmap/region"
)

// The crash model, with two kinds of crashes: in one nothing survives that was not persisted, in the other anything
// may survive.
func TestSim(t *testing.T) {
	for name, crash := range map[string]func(*pmemsim.Snapshot) *pmemsim.Image{
		"nothing": func(s *pmemsim.Snapshot) *pmemsim.Image {
			for im := range s.All(pmemsim.Line) {
				return im
			}
			return nil
		},
		"anything": func(s *pmemsim.Snapshot) *pmemsim.Image {
			var last *pmemsim.Image
			for im := range s.Sample(pmemsim.Word, 1, 3) {
				last = im
			}
			return last
		},
	} {
		t.Run(name, func(t *testing.T) {
			pmemtest.Run(t, pmemtest.Target{
				Create: func(_ testing.TB, size int, f *pmemtest.Faults) region.Memory {
					return pmemsim.New(size, &pmemsim.Options{Hooks: f.Hooks()})
				},
				Crash: func(_ testing.TB, m region.Memory) region.Memory {
					return crash(m.(*pmemsim.Sim).Snapshot()).Open()
				},
				Sync:  pmemtest.Persist,
				Exact: name == "nothing",
			})
		})
	}
}
