package region_test

import (
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
)

func TestAllocs(t *testing.T) {
	tab := region.NewTable()
	mem := make([]byte, 4096)
	w := must(tab.Window(mem))(t)
	other := register(t, tab, mem, region.RemoteRead)
	ctx := t.Context()
	for name, f := range map[string]func(){
		"register and invalidate": func() {
			r, err := tab.Register(mem, region.RemoteWrite)
			if err != nil || r.Invalidate(ctx) != nil {
				t.Error(err)
			}
		},
		"open and invalidate": func() {
			r, err := w.Open(0, 4096, region.RemoteWrite)
			if err != nil || r.Invalidate(ctx) != nil {
				t.Error(err)
			}
		},
		"register and remote invalidate": func() {
			r, _ := tab.Register(mem, region.RemoteInvalidate)
			if err := tab.RemoteInvalidate(r.STag()); err != nil {
				t.Error(err)
			}
		},
		"lookup": func() {
			if err := try(tab, other.STag(), 16, 64, region.RemoteRead); err != nil {
				t.Error(err)
			}
		},
		"refusal": func() {
			_ = try(tab, other.STag(), 16, 64, region.RemoteWrite)
			_ = try(tab, other.STag(), 16, 64000, region.RemoteRead)
			_ = try(tab, other.STag()+1, 16, 64, region.RemoteRead)
		},
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
