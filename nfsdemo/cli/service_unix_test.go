//go:build unix

package cli

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/internal/exports"
	"github.com/stag-rdma/stag/nfsdemo/proxy"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
)

// TestReloadHangs: a configuration that cannot be read to its end keeps a server from nothing, and the next one counts.
func TestReloadHangs(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	noErr(t, syscall.Mkfifo(pipe, 0o600))
	again := func() ([]exports.Export, error) {
		_, err := os.ReadFile(pipe)
		return one(dir), err
	}
	s := started(t, &serviceConfig{exports: one(dir), again: again, rdma: "127.0.0.1:0", config: &transport.Config{}})
	for range 2 {
		done := make(chan error, 1)
		go func() {
			_, err := s.reload()
			done <- err
		}()
		if err := <-done; err == nil {
			t.Error("it was read")
		}
	}
	if err := os.WriteFile(pipe, nil, 0o600); err != nil { // the read that hangs ends
		t.Fatal(err)
	}
	eventually(t, func() bool { return !s.reading.Load() }, "it is still read")
}

// TestInterrupts: the first interrupt asks, the second insists.
func TestInterrupts(t *testing.T) {
	soft, hard, stop := interrupts(t.Context())
	defer stop()
	self := must(os.FindProcess(os.Getpid()))(t)
	for _, tt := range []struct{ ends, lives context.Context }{{soft, hard}, {hard, t.Context()}} {
		noErr(t, self.Signal(os.Interrupt))
		<-tt.ends.Done()
		if e, ok := errors.AsType[*interruptError](context.Cause(tt.ends)); !ok || e.status() != 130 || tt.lives.Err() != nil {
			t.Error(context.Cause(tt.ends), tt.lives.Err())
		}
	}
}

func TestMain(m *testing.M) { mainTest(m, Main) }

// TestNoLitter: an interrupted command removes its temporary files.
func TestNoLitter(t *testing.T) {
	for _, tt := range []struct {
		signal      syscall.Signal
		args, under string
	}{
		{syscall.SIGTERM, "demo", "*/*"},
		{syscall.SIGINT, "demo", "*"},
	} {
		t.Run(tt.args, func(t *testing.T) { interrupt(t, tt.signal, tt.args, tt.under, 128+int(tt.signal)) })
	}
}

// asCommand tells a test binary to be the command.
const asCommand = "STAG_TEST_AS_COMMAND"

// mainTest is the body of a TestMain. In a process that interrupt has started it runs command with the arguments
// of the process, elsewhere the tests. It does not return.
func mainTest(m *testing.M, command func(args []string, stdin io.Reader, stdout, stderr io.Writer) int) {
	if os.Getenv(asCommand) != "" {
		os.Exit(command(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// interrupt runs the command with args, which are divided by blanks, and sends it sig as soon as it has
// made a file in TMPDIR that matches under, a pattern of filepath.Glob. The command has to end with the
// exit status, say on standard error that it was interrupted, and leave nothing in TMPDIR.
func interrupt(t *testing.T, sig syscall.Signal, args, under string, status int) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv(asCommand, "yes")
	t.Setenv("TMPDIR", dir)
	var stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), os.Args[0], strings.Fields(args)...)
	cmd.Stderr = &stderr
	noErr(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for !matches(t, filepath.Join(dir, under)) {
		select {
		case err := <-ended:
			t.Fatalf("ended without a file %s: %v: %s", under, err, stderr.String())
		case <-time.After(time.Millisecond):
		}
	}
	noErr(t, cmd.Process.Signal(sig))
	err := <-ended
	exit, ok := errors.AsType[*exec.ExitError](err)
	said := strings.Contains(stderr.String(), "interrupt") || strings.Contains(stderr.String(), "terminated")
	if !ok || exit.ExitCode() != status || !said {
		t.Errorf("%v: %s", err, stderr.String())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// matches reports whether a file matches pattern.
func matches(t *testing.T, pattern string) bool {
	t.Helper()
	files := must(filepath.Glob(pattern))(t)
	return len(files) > 0
}

// unit is a server as systemd runs it: with a socket that it has opened, and one for notifications.
type unit struct {
	cmd    *exec.Cmd
	stderr *lines
	notes  *net.UnixConn
	addr   string // of its NFS/RDMA socket
}

// startUnit starts a server with one socket of systemd, named name.
func startUnit(t *testing.T, name string, args ...string) *unit {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	f := must(l.(*net.TCPListener).File())(t)
	path := filepath.Join(t.TempDir(), "notify")
	notes := must(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}))(t)
	u := &unit{stderr: new(lines), notes: notes, addr: l.Addr().String()}
	t.Cleanup(func() { _ = notes.Close() })
	_ = l.Close() // f is another descriptor of it
	// The variable LISTEN_PID must have the number of the process itself: hence exec.
	u.cmd = exec.CommandContext(t.Context(), "sh", append([]string{"-c", `LISTEN_PID=$$ exec "$0" "$@"`, os.Args[0]}, args...)...)
	u.cmd.Env = append(os.Environ(), "STAG_TEST_AS_COMMAND=yes", "LISTEN_FDS=1", "LISTEN_FDNAMES="+name, "NOTIFY_SOCKET="+path)
	u.cmd.ExtraFiles, u.cmd.Stderr = []*os.File{f}, u.stderr
	noErr(t, u.cmd.Start())
	_ = f.Close() // the server has it
	return u
}

// note waits for a notification.
func (u *unit) note(t *testing.T, want string) {
	t.Helper()
	if end, ok := t.Deadline(); ok {
		_ = u.notes.SetReadDeadline(end.Add(-10 * time.Second)) // fails only on a closed socket
	}
	buf := make([]byte, 1000)
	n, err := u.notes.Read(buf)
	if err != nil || !strings.HasPrefix(string(buf[:n]), want) {
		t.Fatalf("%q, %v; want %s. %s", buf[:n], err, want, u.stderr)
	}
}

// said waits for a line on standard error.
func (u *unit) said(t *testing.T, want string) {
	t.Helper()
	eventually(t, func() bool { return strings.Contains(u.stderr.String(), want) }, "not said: ", want, u.stderr)
}

func (u *unit) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	noErr(t, u.cmd.Process.Signal(sig))
}

// TestUnit: the socket of systemd is served, systemd is told about the server's life, SIGHUP does not end
// it, and SIGTERM does, with status 0.
func TestUnit(t *testing.T) {
	u := startUnit(t, "listen", "serve", "--memory", "--export", "/x", "--mount-listen", "")
	u.note(t, "READY=1")
	if r := command(t.Context(), "", "mkdir", "nfs+rdma://"+u.addr+"/x/dir"); r.status != 0 {
		t.Error(r.stderr, u.stderr)
	}
	u.signal(t, syscall.SIGHUP)
	u.said(t, "nothing to reload")
	if r := command(t.Context(), "", "ls", "nfs+rdma://"+u.addr+"/x"); r.stdout != "dir\n" {
		t.Error(r.stderr, u.stderr)
	}
	u.signal(t, syscall.SIGTERM)
	u.note(t, "STOPPING=1")
	if err := u.cmd.Wait(); err != nil {
		t.Error(err, u.stderr)
	}
}

// TestUnitReload: after SIGHUP the exports are those of the file; one that it does not understand changes nothing.
func TestUnitReload(t *testing.T) {
	config := filepath.Join(t.TempDir(), "exports.toml")
	write := func(text string) {
		t.Helper()
		noErr(t, os.WriteFile(config, []byte(text), 0o600))
	}
	write("[[export]]\npath = \"/a\"\n")
	u := startUnit(t, "listen", "serve", "--memory", "--config", config, "--mount-listen", "")
	u.note(t, "READY=1\nSTATUS=serving /a")
	served := func(path string, want bool) {
		t.Helper()
		if r := command(t.Context(), "", "ls", "nfs+rdma://"+u.addr+path); (r.status == 0) != want {
			t.Errorf("%s: status %d, %s %s", path, r.status, r.stderr, u.stderr)
		}
	}
	served("/a", true)
	served("/b", false)
	write("[[export]]\npath = \"/b\"\noptions = \"sometimes\"\n")
	u.signal(t, syscall.SIGHUP)
	u.said(t, "not reloaded")
	u.note(t, "RELOADING=1")
	u.note(t, "READY=1\nSTATUS=not reloaded: --config "+config+": /b: \"sometimes\" is no option")
	served("/a", true)
	write("[[export]]\npath = \"/b\"\n")
	u.signal(t, syscall.SIGHUP)
	u.said(t, "msg=reloaded exports=/b")
	u.note(t, "RELOADING=1")
	u.note(t, "READY=1\nSTATUS=serving /b")
	served("/a", false)
	served("/b", true)
	u.signal(t, syscall.SIGTERM)
	if err := u.cmd.Wait(); err != nil {
		t.Error(err, u.stderr)
	}
}

// TestUnitWrongName: a socket whose name is no flag is refused, with the names that are.
func TestUnitWrongName(t *testing.T) {
	u := startUnit(t, "nfs", "serve", "--memory", "--export", "/x")
	u.note(t, "STATUS=socket \"nfs\" of systemd")
	err := u.cmd.Wait()
	if want := `socket "nfs" of systemd: set FileDescriptorName to one of listen, mount-listen, `; err == nil || !strings.Contains(u.stderr.String(), want) {
		t.Errorf("%v, %s", err, u.stderr)
	}
}

// starved is a listener of a process that is out of descriptors, once.
type starved struct {
	accepts int
	again   chan struct{} // closed with the second Accept
	closed  chan struct{}
	close   func()
}

func newStarved() *starved {
	l := &starved{again: make(chan struct{}), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	return l
}

func (l *starved) Accept() (net.Conn, error) {
	if l.accepts++; l.accepts == 1 {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	close(l.again)
	<-l.closed
	return nil, net.ErrClosed
}

func (l *starved) Close() error { l.close(); return nil }

func (l *starved) Addr() net.Addr { return &net.TCPAddr{} }

// TestOutOfFiles: whoever connects often enough to one listener of a process does not end the
// others.
func TestOutOfFiles(t *testing.T) {
	nothing := rpc.HandlerFunc(nil)
	for name, serve := range map[string]func(l net.Listener) (errc <-chan error, end func() error){
		"RDMA": func(l net.Listener) (<-chan error, func() error) {
			s := &transport.Server{Handler: nothing}
			return serving(s.Serve, l), s.Close
		},
		"TCP": func(l net.Listener) (<-chan error, func() error) {
			s := &transport.Server{Handler: nothing}
			return serving(s.ServeStream, l), s.Close
		},
		"RDMA as a listener": func(l net.Listener) (<-chan error, func() error) {
			rl := must(transport.NewListener(l, nil))(t)
			return serving(func(l net.Listener) error { _, err := l.Accept(); return err }, rl), rl.Close
		},
		"push": func(l net.Listener) (<-chan error, func() error) {
			s := new(push.Server)
			return serving(s.Serve, l), func() error { return s.Close(t.Context()) }
		},
		"replies": func(l net.Listener) (<-chan error, func() error) {
			p := &replies.Pusher{Handler: nothing}
			return serving(p.Serve, l), p.Close
		},
		"proxy": func(l net.Listener) (<-chan error, func() error) {
			p := new(proxy.Proxy)
			return serving(p.Serve, l), p.Close
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newStarved()
			errc, end := serve(l)
			select {
			case <-l.again:
			case err := <-errc:
				t.Errorf("it has ended: %v", err)
			}
			if err := errors.Join(end(), l.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// serving serves l until it is closed.
func serving(serve func(net.Listener) error, l net.Listener) <-chan error {
	errc := make(chan error, 1)
	go func() { errc <- serve(l) }()
	return errc
}

// TestAllowEverywhere: who is not allowed is served by no listener. (NFS/RDMA tells him so, by
// MPA: transport.TestAllow.)
func TestAllowEverywhere(t *testing.T) {
	cfg := &serviceConfig{
		exports: one(t.TempDir()), rdma: "127.0.0.1:0", tcp: "127.0.0.1:0", mount: "127.0.0.1:0", replies: "127.0.0.1:0",
		push:   pushConfig{dir: t.TempDir()},
		config: &transport.Config{Limits: transport.Limits{Allow: func(net.Addr) bool { return false }}},
	}
	s := started(t, cfg)
	for name, addr := range map[string]string{
		"NFS/TCP": addrOf(s.tcp), "MOUNT": addrOf(s.mount), "replies": addrOf(s.replyL), "push": addrOf(s.commits),
	} {
		c := must(net.Dial("tcp", addr))(t)
		_ = c.SetDeadline(time.Now().Add(9 * time.Second)) // start-ups may take ten
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %d octets, %v", name, n, err)
		}
		c.Close()
	}
}

// TestFewDescriptors: with few descriptors no client's part of the connections takes all of them.
func TestFewDescriptors(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("how many there are is not known here")
	}
	var was syscall.Rlimit
	noErr(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was))
	defer func() { noErr(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was)) }()
	for _, x := range []struct {
		descriptors uint64
		asked, want int
	}{{1024, 0, 341}, {1024, 900, 900}, {4096, 0, 0}} {
		lim := was
		lim.Cur = x.descriptors
		noErr(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lim))
		cfg := &transport.Config{}
		noErr(t, (&limitFlags{conns: x.asked}).apply(cfg, nil))
		if cfg.Limits.Conns != x.want {
			t.Errorf("%+v: %d", x, cfg.Limits.Conns)
		}
	}
}
