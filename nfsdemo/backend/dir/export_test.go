package dir

import (
	"net"
	"time"

	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// What the tests need of the inside: syncs that fail, verifiers, and an FS that has forgotten, or has
// no handles of the file system, or is asked for a file that never was.

type SyncOp = syncOp

const (
	ErrMoved = errMoved

	SyncData  = syncData
	SyncAll   = syncAll
	SyncNames = syncNames
)

var (
	Status     = status
	CookieVerf = cookieVerf
)

func (f *FS) OnSync(hook func(SyncOp) error) { f.syncErr = hook }
func (f *FS) WriteVerf() nfs3.WriteVerf      { return f.writeVerf() }
func (f *FS) NewVerf()                       { f.newVerf() }

// Searching has files found again by a search.
func (c Config) Searching() *Config { c.places = true; return &c }

func (f *FS) CloseFiles() { f.files.clear() }
func (f *FS) CloseAll()   { f.grips.clear(); f.files.clear() }

// Forget makes a table as after a restart.
func (f *FS) Forget() {
	f.CloseAll()
	f.tab.mu.Lock()
	defer f.tab.mu.Unlock()
	f.tab.m = map[key]*node{f.root.key: f.root}
	f.tab.order.Init()
	f.root.kids = 0
}

func (f *FS) NoFile(i uint64) []byte {
	k := ownKey(0, 1<<60+i, 7)
	return f.seal.append(nil, &k)
}

func (f *FS) Rest(client net.Addr, until time.Time) {
	f.lost.hunters[peeraddr.Share(client)].restEnd = until
}
