package server_test

import (
	"sync"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// TestGuardRace: of many guarded SETATTRs with one ctime, one wins.
func TestGuardRace(t *testing.T) {
	onBoth(t, func(p *peer) {
		f := p.create(p.root, "f", 0o644)
		// Let the clock of the file system, which may be coarse, move past the creation.
		ctime := p.attr(f).Ctime
		for p.attr(f).Ctime == ctime {
			setattr(p, f, mode(0o644), nfs3.OK)
		}
		ctime = p.attr(f).Ctime
		var (
			wg  sync.WaitGroup
			mu  sync.Mutex
			won int
		)
		for range 8 {
			wg.Go(func() {
				q := *p
				var res nfs3.SetAttrRes
				args := nfs3.SetAttrArgs{Handle: f, Attr: nfs3.SetAttr{SetSize: true, Size: 1}, Guard: true, Ctime: ctime}
				q.rpc(nfs3.Program, 3, uint32(nfs3.ProcSetAttr), &args, &res)
				mu.Lock()
				defer mu.Unlock()
				if res.Status == nfs3.OK && res.Wcc.After.Attr.Ctime != ctime {
					won++
				}
			})
		}
		wg.Wait()
		if won > 1 {
			p.Errorf("%d won", won)
		}
	})
}
