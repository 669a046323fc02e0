package server_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// TestConcurrent: many clients in one tree; every call succeeds and the data are theirs.
func TestConcurrent(t *testing.T) {
	onBoth(t, func(p *peer) {
		d := p.mkdir(p.root, "d", 0o777)
		var wg sync.WaitGroup
		for w := range 6 {
			wg.Go(func() {
				q := *p
				for i := range 15 {
					n := fmt.Sprintf("w%d-%d", w, i)
					f := q.create(d, n, 0o644)
					data := bytes.Repeat([]byte(n), 1000)
					q.write(f, 0, string(data))
					nfs[nfs3.RenameRes](&q, nfs3.ProcRename, &nfs3.RenameArgs{From: at(d, n), To: at(d, n+"x")}, nfs3.OK)
					setattr(&q, f, mode(0o600), nfs3.OK)
					if r := q.read(f, 0, 1<<20); !bytes.Equal(r.Data, data) {
						q.Errorf("%s: the data differ", n)
					}
					nfs[nfs3.CommitRes](&q, nfs3.ProcCommit, &nfs3.CommitArgs{Handle: f}, nfs3.OK)
					q.page(d, true, 0, nfs3.CookieVerf{}, 1<<16, 1<<16, nfs3.OK)
					a := at(d, n+"x")
					nfs[nfs3.RemoveRes](&q, nfs3.ProcRemove, &a, nfs3.OK)
				}
			})
		}
		wg.Wait()
		if got := p.list(d, false, 0, 4096); len(got) != 2 {
			p.Errorf("%d entries left", len(got))
		}
	})
}

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
