package main

import (
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend/juicefs/internal/engines"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/transport"
)

// TestFence freezes a server between a PUT and the transaction that names the object, and fences it as docs/cluster.md says.
// What another server has acknowledged meanwhile stays.
func TestFence(t *testing.T) {
	uri, s3 := engines.Postgres(t), engines.NewS3(t)
	engines.Format(t, uri, "minio", s3.Bucket)
	db, err := sql.Open("pgx", uri)
	noErr(t, err)
	defer db.Close()
	b := dial(t, start(t, uri))
	for i := range 3 {
		role := fmt.Sprintf("nfs%d", i)
		query := func(q string) {
			t.Helper()
			if _, err := db.ExecContext(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
		query("CREATE ROLE " + role + " LOGIN IN ROLE stag")
		query("ALTER ROLE " + role + " SET role = stag")
		u, err := url.Parse(uri)
		noErr(t, err)
		u.User = url.User(role)
		a := start(t, u.String())
		conn, err := transport.Dial(t.Context(), "tcp", a.addr, nil)
		noErr(t, err)
		defer conn.Close()
		fh, err := nfsclient.NewMounter(conn, root).Mount(t.Context(), "/")
		noErr(t, err)
		// This client tells of the first JUKEBOX.
		c, err := nfsclient.New(t.Context(), conn, fh, "/", &nfsclient.Config{Cred: root, MaxBlock: 64 << 10, Jukebox: time.Nanosecond})
		noErr(t, err)
		f, err := b.Create(t.Context(), b.Root(), role, 0o644, false)
		noErr(t, err)
		put, frozen := make(chan struct{}), make(chan struct{})
		s3.Put.Store(func() { close(put); <-frozen })
		old := make(chan error, 1)
		mine := *f
		go func() {
			_, _, err := c.WriteAt(t.Context(), &mine, []byte("old"), 0, nfs3.FileSync)
			old <- err
		}()
		<-put
		s3.Put.Store(func() {})
		noErr(t, a.cmd.Process.Signal(syscall.SIGSTOP))
		close(frozen)
		query("ALTER ROLE " + role + " NOLOGIN")
		query("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = '" + role + "'")
		if _, _, err := b.WriteAt(t.Context(), f, []byte("new"), 0, nfs3.FileSync); err != nil {
			t.Fatal(err)
		}
		noErr(t, a.cmd.Process.Signal(syscall.SIGCONT))
		if err := <-old; err == nil || !strings.Contains(err.Error(), "JUKEBOX") {
			t.Errorf("the fenced server wrote: %v", err)
		}
		p := make([]byte, 8)
		if n, err := b.ReadAt(t.Context(), f, p, 0); string(p[:n]) != "new" {
			t.Errorf("%q, %v: what was acknowledged is undone", p[:n], err)
		}
		a.kill()
	}
}
