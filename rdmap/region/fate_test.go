package region_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stag-rdma/stag/rdmap/region"
)

// loose is a Memory that cannot be compared, although its type can.
type loose struct{ region.Memory }

// Memory that has failed is revoked in all domains, and remains so until its last registration is gone: after a
// failed write-back nobody knows what is durable.
func TestRevokeMemory(t *testing.T) {
	mem, other := &guarded{plainBytes: make(region.Bytes, 8)}, &guarded{plainBytes: make(region.Bytes, 8)}
	d := region.NewDomain()
	tabs := []*region.Table{d.NewTable(), d.NewTable(), region.NewTable()}
	var regs []region.Region
	for _, tab := range tabs {
		regs = append(regs, registerMemory(t, tab, mem))
	}
	shared, _ := d.RegisterShared(mem, region.Options{Access: region.RemoteRead})
	regs = append(regs, shared)
	kept := registerMemory(t, tabs[0], other)
	v := must(tabs[1].Lookup(regs[1].STag(), 0, 8, region.RemoteRead))(t)
	region.RevokeMemory(mem)
	for i, r := range regs {
		if r.Valid() {
			t.Errorf("registration %d is still valid", i)
		}
	}
	if again := registerMemory(t, tabs[2], mem); again.Valid() || !kept.Valid() {
		t.Error("valid: new registration of failed memory, registration of other memory:", again.Valid(), kept.Valid())
	} else {
		regs = append(regs, again)
	}
	v.Release()
	for _, r := range append(regs, kept) {
		if err := r.Invalidate(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if r := registerMemory(t, tabs[0], mem); !r.Valid() || r.Invalidate(t.Context()) != nil {
		t.Error("a memory without registrations had not been forgotten")
	}
	for _, mem := range []region.Memory{make(region.Bytes, 8), loose{make(region.Bytes, 8)}} {
		r := registerMemory(t, tabs[0], mem)
		if region.RevokeMemory(mem); !r.Valid() || r.Invalidate(t.Context()) != nil {
			t.Errorf("%T", mem)
		}
	}
}

// TestMemoryForgotten: nothing holds a memory without registrations, whether it had failed or not.
func TestMemoryForgotten(t *testing.T) {
	tab := region.NewTable()
	for _, fails := range []bool{false, true} {
		mem := &guarded{plainBytes: make(region.Bytes, 8)}
		left := weak.Make(mem)
		r := registerMemory(t, tab, mem)
		if fails {
			region.RevokeMemory(mem)
		}
		noErr(t, r.Invalidate(t.Context()))
		if runtime.GC(); left.Value() != nil {
			t.Errorf("held, failed %v", fails)
		}
	}
}

func registerMemory(t *testing.T, tab *region.Table, mem region.Memory) region.Region {
	t.Helper()
	r := must(tab.RegisterMemory(mem, region.Options{Access: region.RemoteRead | region.Verify}))(t)
	return r
}

// Failed comparisons of one memory by one principal are counted together: 16 at once, and one more each second.
// Those of others do not count, also when there are more principals than are told apart.
func TestGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := &guarded{plainBytes: make(region.Bytes, 8)}
		tabs := [2]*region.Table{region.NewTable(), region.NewTable()}
		other := tabs[0].Domain().NewTable()
		tabs[0].SetPrincipal("192.0.2.1")
		tabs[1].SetPrincipal("192.0.2.1")
		regs := [2]region.Region{registerMemory(t, tabs[0], mem), registerMemory(t, tabs[1], mem)}
		guess := func() (n int) {
			for i := 0; ; i++ {
				v := must(tabs[i%2].Lookup(regs[i%2].STag(), 0, 8, region.Verify))(t)
				if !v.MayGuess(tabs[i%2]) {
					if !v.MayGuess(other) {
						t.Error("the guesses of one count for another")
					}
					v.Release()
					return n
				}
				v.Guessed(tabs[i%2])
				v.Release()
				n++
			}
		}
		for _, step := range []struct {
			wait time.Duration
			want int
		}{{0, 16}, {time.Second - 1, 0}, {1, 1}, {3500 * time.Millisecond, 3}, {500 * time.Millisecond, 1}, {time.Hour, 16}, {0, 0}} {
			time.Sleep(step.wait)
			if n := guess(); n != step.want {
				t.Errorf("after %v: %d guesses, want %d", step.wait, n, step.want)
			}
		}
		plain, _ := tabs[0].Register(make([]byte, 8), region.Verify)
		v, _ := tabs[0].Lookup(plain.STag(), 0, 8, region.Verify)
		if v.Guessed(tabs[0]); !v.MayGuess(tabs[0]) {
			t.Error("a plain slice shares its count with others")
		}
		v.Release()
		for _, r := range append(regs[:], plain) {
			if err := r.Invalidate(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}
