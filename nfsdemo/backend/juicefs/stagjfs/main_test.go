package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/juicedata/juicefs/pkg/utils"
	"github.com/sirupsen/logrus"
	"github.com/stag-rdma/stag/nfsdemo/backend/juicefs/internal/engines"
	"github.com/stag-rdma/stag/nfsdemo/cli"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// asServer makes this test program stagjfs.
const asServer = "STAGJFS_TEST_SERVER"

func TestMain(m *testing.M) {
	if what := os.Getenv(asRelay); what != "" {
		fmt.Fprintln(os.Stderr, relay(what))
		os.Exit(1)
	}
	if what := os.Getenv(asLocks); what != "" {
		fmt.Fprintln(os.Stderr, serveLocks(what))
		os.Exit(1)
	}
	if os.Getenv(asServer) != "" {
		os.Exit(cli.MainOf(storage(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	utils.SetLogLevel(logrus.ErrorLevel)
	os.Exit(m.Run())
}

// server is a stagjfs that can be killed and started again.
type server struct {
	t     testing.TB
	env   string // what makes this test program the server
	args  []string
	file  string // of the port
	addr  string
	mount string
	cmd   *exec.Cmd
}

// start starts a server of a volume.
func start(t testing.TB, uri string, args ...string) *server {
	t.Helper()
	s := &server{t: t, env: asServer + "=1", addr: "127.0.0.1:0", file: filepath.Join(t.TempDir(), "port")}
	s.args = append([]string{"serve", uri, "--mount-listen", "", "--squash", "none", "--log", "error", "--port-file", s.file}, args...)
	s.restart()
	t.Cleanup(s.kill)
	return s
}

// restart starts it at its old address.
func (s *server) restart() {
	s.t.Helper()
	_ = os.Remove(s.file)
	args := append(s.args, "--listen", s.addr)
	if s.mount != "" {
		args = append(args, "--mount-listen", s.mount)
	}
	s.cmd = exec.Command(os.Args[0], args...)
	s.cmd.Env = append(os.Environ(), s.env, "STATE_DIRECTORY="+filepath.Dir(s.file))
	s.cmd.Stderr = os.Stderr
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(s.file)
		if err == nil {
			for line := range strings.Lines(string(text)) {
				switch name, value, _ := strings.Cut(strings.TrimSpace(line), "="); name {
				case "RDMA":
					s.addr = value
				case "MOUNT":
					s.mount = value
				}
			}
			return
		}
		if time.Now().After(end) {
			s.t.Fatal("the server does not start")
		}
	}
}

// kill kills it at once.
func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

var root = &xdr.SysCred{MachineName: "test"}

// client returns a client of a server.
func client(t testing.TB, caller rpc.Caller) *nfsclient.Client {
	t.Helper()
	fh, err := nfsclient.NewMounter(caller, root).Mount(t.Context(), "/")
	noErr(t, err)
	c, err := nfsclient.New(t.Context(), caller, fh, "/", &nfsclient.Config{Cred: root, MaxBlock: 64 << 10, Jukebox: time.Minute})
	noErr(t, err)
	return c
}

// dial returns a client of one server, which ends with its connection.
func dial(t testing.TB, s *server) *nfsclient.Client {
	t.Helper()
	c, err := transport.Dial(t.Context(), "tcp", s.addr, nil)
	noErr(t, err)
	t.Cleanup(func() { c.Close() })
	return client(t, c)
}

// volume makes a volume, and returns the address of its metadata.
func newVolume(t testing.TB) string {
	t.Helper()
	uri := engines.Postgres(t)
	engines.Format(t, uri, "file", t.TempDir()+"/")
	return uri
}

// choice is a caller of whichever server can be reached.
type choice struct {
	servers []*server
	current atomic.Int32
}

// now is the server that was reached last.
func (c *choice) now() *server { return c.servers[int(c.current.Load())%len(c.servers)] }

// dial connects to the server of before, or to the next one.
func (c *choice) dial(ctx context.Context) (redial.Conn, error) {
	conn, err := transport.Dial(ctx, "tcp", c.now().addr, nil)
	if err != nil {
		c.current.Add(1) // one goroutine dials at a time
		return nil, err
	}
	return conn, nil
}

// noErr ends the test if err is an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
