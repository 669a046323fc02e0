// Package engines starts the databases that tests need, each in a directory of its own and on a free port.
package engines

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	_ "github.com/jackc/pgx/v5/stdlib" // sql.Open
	"github.com/juicedata/juicefs/pkg/meta"
)

// startTime limits the wait for a database.
const startTime = time.Minute

// Postgres starts PostgreSQL until the test ends, with further settings of the form name=value. It returns the address of
// an empty database.
func Postgres(t testing.TB, settings ...string) string {
	t.Helper()
	bin := find("postgres", "/usr/lib/postgresql/*/bin/postgres")
	if bin == "" {
		t.Skip("skipped: no PostgreSQL here (apt-get install postgresql)")
	}
	dir, who := home(t)
	initdb := exec.Command(filepath.Join(filepath.Dir(bin), "initdb"), "-D", dir, "-U", "stag", "-A", "trust", "-N")
	initdb.Dir, initdb.SysProcAttr = dir, who
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	port := freePort(t)
	args := []string{"-D", dir, "-k", dir, "-h", "127.0.0.1", "-p", port, "-c", "max_connections=300"}
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	run(t, dir, who, syscall.SIGINT, bin, args...)
	uri := "postgres://stag@127.0.0.1:" + port + "/postgres?sslmode=disable"
	db, err := sql.Open("pgx", uri)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	await(t, dir, db.PingContext)
	return uri
}

// Format makes a volume with objects in a bucket.
func Format(t testing.TB, uri, kind, bucket string) {
	t.Helper()
	m := meta.NewClient(uri, nil)
	err := m.Init(&meta.Format{
		Name: "test", UUID: uuid.NewString(), Storage: kind, Bucket: bucket, BlockSize: 4096, DirStats: true, MetaVersion: meta.MaxVersion,
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Shutdown(); err != nil {
		t.Fatal(err)
	}
}

func find(name, pattern string) string {
	if all, _ := filepath.Glob(pattern); len(all) > 0 {
		return all[len(all)-1]
	}
	bin, _ := exec.LookPath(name)
	return bin
}

// home makes a directory for a database, and says who runs it: PostgreSQL refuses to run as root.
func home(t testing.TB) (string, *syscall.SysProcAttr) {
	base := "/dev/shm" // what a crash of the machine leaves is not what these tests are about
	if _, err := os.Stat(base); err != nil {
		base = ""
	}
	dir, err := os.MkdirTemp(base, "stag-engine") //nolint:usetesting // t.TempDir is on the disk
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		return dir, attr
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	if err := os.Chown(dir, int(uid), int(gid)); err != nil {
		t.Fatal(err)
	}
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return dir, attr
}

// run runs a database until the test ends.
func run(t testing.TB, dir string, who *syscall.SysProcAttr, sig syscall.Signal, bin string, args ...string) {
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(bin, args...)
	cmd.Dir, cmd.SysProcAttr, cmd.Stdout, cmd.Stderr = dir, who, log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(sig)
		_ = cmd.Wait()
	})
}

func await(t testing.TB, dir string, ready func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Fatalf("%v\n%s", err, log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func freePort(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}
