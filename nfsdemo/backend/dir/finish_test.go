package dir_test

import (
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
)

// TestNodeSync: whatever its kind, a file is synced, or the directory that names it, and an
// error is told.
func TestNodeSync(t *testing.T) {
	f, s := openSyncs(t, nil)
	root := f.Root()
	file := create(t, root, "f")
	link, _, err := root.Symlink("l", "f", &backend.Init{})
	ok(t, err)
	for _, n := range []backend.Node{root, file, link} {
		s.take()
		s.fail = 0
		n, isSyncer := n.(backend.Syncer)
		if !isSyncer {
			t.Fatal("no Syncer")
		}
		ok(t, n.Sync())
		if got := s.take(); len(got) != 1 || got[0] != dir.SyncNames {
			t.Errorf("syncs %v", got)
		}
		s.fail = dir.SyncNames
		if n.Sync() == nil {
			t.Error("an error was not reported")
		}
	}
}
