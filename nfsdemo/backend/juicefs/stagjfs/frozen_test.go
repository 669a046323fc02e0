package main

import (
	"database/sql"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
)

// TestFrozen stops a server (kill -STOP) in the middle of a transaction, as a machine that dies does for the database: its
// connections stay. Others can change the same file soon.
func TestFrozen(t *testing.T) {
	uri := newVolume(t)
	a, b := start(t, uri), start(t, uri)
	db, err := sql.Open("pgx", uri)
	noErr(t, err)
	defer db.Close()
	c := dial(t, a)
	f, err := c.Create(t.Context(), c.Root(), "f", 0o644, false)
	noErr(t, err)
	change := func(c *nfsclient.Client, mode uint32) error {
		n := *f
		return c.SetAttr(t.Context(), &n, &nfs3.SetAttr{SetMode: true, Mode: mode & 0o777})
	}
	var wg sync.WaitGroup
	var over atomic.Bool
	wg.Go(func() {
		for mode := uint32(0); !over.Load(); mode++ {
			_ = change(c, mode) // it ends with the server
		}
	})
	defer wg.Wait()
	defer a.kill()
	defer over.Store(true)
	signal := func(sig syscall.Signal) {
		t.Helper()
		noErr(t, a.cmd.Process.Signal(sig))
	}
	held := func() (n int) {
		t.Helper()
		const q = `SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
			WHERE a.state = 'idle in transaction' AND l.relation = 'jfs_node'::regclass AND l.mode IN ('RowShareLock', 'RowExclusiveLock')`
		noErr(t, db.QueryRowContext(t.Context(), q).Scan(&n))
		return n
	}
	other := dial(t, b)
	for end := time.Now().Add(time.Minute); ; signal(syscall.SIGCONT) {
		signal(syscall.SIGSTOP)
		if held() > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the server is never in a transaction")
		}
	}
	began := time.Now()
	noErr(t, change(other, 0))
	took := time.Since(began)
	t.Logf("the other server had the file after %v", took.Round(time.Millisecond))
	if took > time.Minute {
		t.Error("that is too late")
	}
}
