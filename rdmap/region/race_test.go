package region_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stag-rdma/stag/rdmap/region"
)

// Owners register, advertise, invalidate and then write their memory without any other synchronisation; users look
// up what was advertised and write it too. If Invalidate ever returns before the last user is gone, the race detector
// fails; without the detector the content of the memory shows it.
func TestConcurrentLifetime(t *testing.T) {
	const owners, users, rounds = 4, 4, 100
	d := region.NewDomain()
	var stags [owners]atomic.Uint64 // table index in the upper half
	var turn [owners]sync.Mutex
	var tabs [2]*region.Table
	for i := range tabs {
		tabs[i] = d.NewTable()
	}
	var stop atomic.Bool
	var hits atomic.Int64
	var ug, og sync.WaitGroup
	for u := range users {
		ug.Go(func() {
			for i := u; !stop.Load(); i++ {
				// STag 0, which a peer may send; see zero_test.go.
				_ = try(tabs[i%2], 0, 0, 0, 0)
				s := stags[i%owners].Load()
				v, err := tabs[s>>32].Lookup(region.STag(s), 0, 64, region.RemoteWrite)
				if err != nil {
					continue
				}
				turn[i%owners].Lock() // for users among themselves; owners do not lock it
				for j := range v.Bytes() {
					v.Bytes()[j]++
				}
				for j := range v.Bytes() {
					v.Bytes()[j]--
				}
				turn[i%owners].Unlock()
				hits.Add(1)
				v.Release()
			}
		})
	}
	for o := range owners {
		og.Go(func() {
			mem := make([]byte, 64*users) // plain memory, no lock
			for i := range rounds {
				at := 64 * (i % users)
				tab := tabs[i%2]
				r, err := tab.Register(mem[at:at+64], region.RemoteWrite|region.RemoteInvalidate)
				if err != nil {
					t.Error(err)
					return
				}
				stags[o].Store(uint64(i%2)<<32 | uint64(r.STag()))
				for seen := hits.Load(); i%8 == 0 && hits.Load() == seen; {
					runtime.Gosched() // every eighth time, let a user in first
				}
				if i%3 == 0 {
					_ = tab.RemoteInvalidate(r.STag())
				}
				if err := r.Invalidate(t.Context()); err != nil {
					t.Error(err)
				}
				clear(mem[at : at+64])
			}
			for _, x := range mem {
				if x != 0 {
					t.Error("written after Invalidate")
					return
				}
			}
		})
	}
	og.Wait()
	stop.Store(true)
	ug.Wait()
	if d.Live() != 0 || d.Pinned() != 0 {
		t.Errorf("%d live, %d pinned", d.Live(), d.Pinned())
	}
}

// Growth during lookups, and several goroutines that revoke the same registrations.
func TestConcurrentGrowthAndRevoke(t *testing.T) {
	d := region.NewDomain()
	tab := d.NewTable()
	var wg sync.WaitGroup
	var won atomic.Int64
	for range 4 {
		wg.Go(func() {
			var rs []region.Region
			for i := range 300 {
				r, err := tab.Register(make([]byte, 4), region.RemoteRead)
				if err != nil {
					t.Error(err)
					return
				}
				rs = append(rs, r)
				if err := try(tab, rs[i/2].STag(), 0, 4, region.RemoteRead); err != nil {
					t.Error(err)
				}
			}
			var inner sync.WaitGroup
			for range 3 {
				inner.Go(func() {
					for _, r := range rs {
						if r.Revoke() {
							won.Add(1)
						}
						if err := r.Invalidate(t.Context()); err != nil {
							t.Error(err)
						}
					}
				})
			}
			inner.Wait()
		})
	}
	wg.Wait()
	// Invalidate in another goroutine may have won; only one may win for each registration.
	if won.Load() > 1200 || d.Live() != 0 {
		t.Errorf("%d revocations, %d live", won.Load(), d.Live())
	}
}
