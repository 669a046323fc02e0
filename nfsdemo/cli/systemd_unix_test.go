//go:build unix

package cli

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

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
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	// The variable LISTEN_PID must have the number of the process itself: hence exec.
	u.cmd = exec.CommandContext(ctx, "sh", append([]string{"-c", `LISTEN_PID=$$ exec "$0" "$@"`, os.Args[0]}, args...)...)
	u.cmd.Env = append(os.Environ(), "STAG_TEST_AS_COMMAND=yes", "LISTEN_FDS=1", "LISTEN_FDNAMES="+name, "NOTIFY_SOCKET="+path)
	u.cmd.ExtraFiles, u.cmd.Stderr = []*os.File{f}, u.stderr
	noErr(t, u.cmd.Start())
	_ = f.Close() // the server has it
	return u
}

// note waits for a notification.
func (u *unit) note(t *testing.T, want string) {
	t.Helper()
	_ = u.notes.SetReadDeadline(time.Now().Add(time.Minute)) // fails only on a closed socket
	buf := make([]byte, 1000)
	n, err := u.notes.Read(buf)
	if err != nil || !strings.HasPrefix(string(buf[:n]), want) {
		t.Fatalf("%q, %v; want %s. %s", buf[:n], err, want, u.stderr)
	}
}

// said waits for a line on standard error.
func (u *unit) said(t *testing.T, want string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(u.stderr.String(), want); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %q in %s", want, u.stderr)
		}
	}
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
