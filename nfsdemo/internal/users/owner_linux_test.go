package users_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/users"
	"golang.org/x/sys/unix"
)

// clientEnv makes the test binary a client: of the address behind the first blank, from that behind the second.
const clientEnv = "SOCKOWNER_TEST_CLIENT"

func TestMain(m *testing.M) {
	if a := os.Getenv(clientEnv); a != "" {
		f := strings.Fields(a)
		os.Exit(client(f[0], f[1], f[2]))
	}
	os.Exit(m.Run())
}

// client connects, sends an octet, and then "stays" until the server closes the connection, "closes" its socket, or
// "resets" it.
func client(what, to, from string) int {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	d.SetMultipathTCP(what == "mptcp")
	nc, err := d.Dial("tcp", to)
	if err != nil {
		os.Stderr.WriteString(err.Error())
		return 1
	}
	c := nc.(*net.TCPConn)
	if _, err := c.Write([]byte("x")); err != nil {
		return 1
	}
	switch what {
	case "resets":
		_ = c.SetLinger(0)
		return exit(c.Close())
	case "closes":
		return exit(c.Close())
	}
	_, _ = c.Read(make([]byte, 1)) // it ends with the connection
	return 0
}

func exit(err error) int {
	if err != nil {
		return 1
	}
	return 0
}

// other is the user as whom the clients of tests run.
func other(t *testing.T) uint32 {
	if os.Geteuid() != 0 {
		t.Log("only root can have clients of another user: all are of this one")
		return uint32(os.Geteuid())
	}
	return 1234
}

func start(t *testing.T, uid uint32, what, to, from string) (wait func()) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), clientEnv+"="+what+" "+to+" "+from)
	if uid != uint32(os.Geteuid()) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s from %s to %s: %v %s", what, from, to, err, said.String())
		}
	}
}

func open(t *testing.T) *users.Kernel {
	t.Helper()
	k, err := users.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

func listen(t *testing.T, network, addr string) *net.TCPListener {
	t.Helper()
	lc := net.ListenConfig{}
	l, err := lc.Listen(context.Background(), network, addr)
	if err != nil {
		t.Skipf("this machine has no %s: %v", addr, err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.(*net.TCPListener)
}

// own returns this machine's addresses, of which each user can bind any.
func own(t *testing.T) (list []string) {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if ip := a.(*net.IPNet).IP; !ip.IsLinkLocalUnicast() {
			list = append(list, ip.String())
		}
	}
	return append(list, "127.0.0.2")
}

// TestOwner: whoever connects from any address of this machine to any other one is its user, also where a socket for
// both families listens.
func TestOwner(t *testing.T) {
	k, uid, pairs := open(t), other(t), 0
	for _, to := range own(t) {
		for _, from := range own(t) {
			v4 := func(s string) bool { return net.ParseIP(s).To4() != nil }
			if v4(to) != v4(from) {
				continue
			}
			for _, at := range []string{to, "::"} {
				for _, what := range []string{"stays", "mptcp"} {
					l := listen(t, "tcp", net.JoinHostPort(at, "0"))
					_, port, _ := net.SplitHostPort(l.Addr().String())
					wait := start(t, uid, what, net.JoinHostPort(to, port), from)
					c, err := l.Accept()
					if err != nil {
						t.Fatal(err)
					}
					got, local, err := k.Owner(c)
					if !local || err != nil || got != uid {
						t.Errorf("%s from %s to %s at %s: user %d, local %v, %v", what, from, to, at, got, local, err)
					}
					c.Close()
					wait()
					pairs++
				}
			}
		}
	}
	if pairs < 2*2*2*2*2 {
		t.Log("this machine has no address beside loopback: an address of a network was not tried")
	}
}

// TestGone: a socket that its process has closed, or reset, belongs to nobody, whatever the kernel says of it, and
// although what was sent on it can still be read.
func TestGone(t *testing.T) {
	k, uid := open(t), other(t)
	for _, what := range []string{"closes", "resets"} {
		l := listen(t, "tcp4", "127.0.0.1:0")
		start(t, uid, what, l.Addr().String(), "127.0.0.1")() // it has ended when its connection is accepted
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if got, local, err := k.Owner(c); !local || !errors.Is(err, users.ErrUnknown) || errors.Is(err, users.ErrMute) {
			t.Errorf("%s: user %d, local %v, %v", what, got, local, err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Logf("%s: nothing is left to read: %v", what, err)
		}
		c.Close()
	}
}

// TestAnother: a connection that was reset does not belong to whoever has its ports now, to listen or to connect.
func TestAnother(t *testing.T) {
	k := open(t)
	l := listen(t, "tcp4", "127.0.0.1:0")
	connected := func(from net.Addr) (client, server net.Conn) {
		d := net.Dialer{Control: reuse, LocalAddr: from}
		client, err := d.Dial("tcp4", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if server, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close(); server.Close() })
		return client, server
	}
	refused := func(c net.Conn) {
		t.Helper()
		if got, local, err := k.Owner(c); !local || !errors.Is(err, users.ErrUnknown) {
			t.Errorf("user %d, local %v, %v", got, local, err)
		}
	}
	// No other process of this machine uses the address, so that its ports are free.
	client, server := connected(&net.TCPAddr{IP: net.IPv4(127, 77, byte(os.Getpid()>>8), byte(os.Getpid()))})
	client.(*net.TCPConn).SetLinger(0)
	client.Close()
	lc := net.ListenConfig{Control: reuse}
	there, err := lc.Listen(t.Context(), "tcp4", client.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	refused(server)
	there.Close()
	_, later := connected(client.LocalAddr())
	refused(server)
	if _, _, err := k.Owner(later); err != nil {
		t.Error(err)
	}
}

func reuse(_, _ string, c syscall.RawConn) (err error) {
	cerr := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
	return errors.Join(cerr, err)
}

// claims is a connection that says it comes from another address.
type claims struct {
	*net.TCPConn
	from net.Addr
}

func (c claims) RemoteAddr() net.Addr { return c.from }

// TestElsewhere: only an address that the routing table calls local is one of this machine, and no answer is one.
func TestElsewhere(t *testing.T) {
	k := open(t)
	l := listen(t, "tcp4", "127.0.0.1:0")
	nc, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c, err := l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, x := range []struct {
		ip, zone string
		local    bool
	}{
		{"192.0.2.77", "", false},
		{"2001:db8::77", "", false},
		{"::ffff:192.0.2.77", "", false},
		{"127.7.7.7", "", true},
		{"::ffff:127.0.0.1", "", true},
		{"::1", "", true},
		{"fe80::77", "renamed", true}, // which link that is, nobody can tell any more
	} {
		from := claims{c, &net.TCPAddr{IP: net.ParseIP(x.ip), Port: 7, Zone: x.zone}}
		if _, local, err := k.Owner(from); local != x.local || x.local != errors.Is(err, users.ErrUnknown) {
			t.Errorf("%s: local %v, %v", x.ip, local, err)
		}
	}
	if uid, local, err := k.Owner(c); uid != uint32(os.Geteuid()) || !local || err != nil {
		t.Errorf("user %d, local %v, %v", uid, local, err)
	}
	k.Close()
	for _, from := range []net.Conn{c, claims{c, &net.TCPAddr{IP: net.ParseIP("192.0.2.77"), Port: 7}}} {
		if _, local, err := k.Owner(from); !local || !errors.Is(err, users.ErrUnknown) {
			t.Errorf("without the kernel: local %v, %v", local, err)
		}
	}
}
