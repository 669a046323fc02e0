package sockowner_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/internal/sockowner"
)

// dialEnv makes the test binary a client of this address.
const dialEnv = "SOCKOWNER_TEST_DIAL"

func TestMain(m *testing.M) {
	if addr := os.Getenv(dialEnv); addr != "" {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			os.Exit(1)
		}
		_, _ = c.Read(make([]byte, 1)) // until the server has looked
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestOf: the owner of a connection over both families, as this user and as another one.
func TestOf(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Logf("%s: %v", addr, err)
			continue
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		to := l.Addr().String()
		if addr == "[::]:0" { // an IPv4 client of a socket for both
			to = "127.0.0.1:" + port
		}
		for _, uid := range []int{os.Geteuid(), 1234} {
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), dialEnv+"="+to)
			if uid != os.Geteuid() {
				if os.Geteuid() != 0 {
					continue
				}
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			local, remote := c.LocalAddr().(*net.TCPAddr), c.RemoteAddr().(*net.TCPAddr)
			got, err := sockowner.Of(local, remote)
			if err != nil || got != uint32(uid) || !sockowner.IsLocal(local, remote) {
				t.Errorf("%s: user %d, %v, want %d", to, got, err, uid)
			}
			other := *remote
			other.Port ^= 1
			if _, err := sockowner.Of(local, &other); !errors.Is(err, sockowner.ErrUnknown) {
				t.Errorf("%s: no such connection, but %v", to, err)
			}
			c.Close()
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestIsLocal(t *testing.T) {
	at := func(ip string) *net.TCPAddr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }
	for _, c := range []struct {
		local, remote string
		want          bool
	}{
		{"127.0.0.1", "127.0.0.1", true},
		{"127.0.0.2", "127.0.0.1", true},
		{"::1", "::1", true},
		{"192.0.2.1", "192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"::ffff:192.0.2.1", "192.0.2.1", true},
	} {
		if got := sockowner.IsLocal(at(c.local), at(c.remote)); got != c.want {
			t.Errorf("%+v", c)
		}
	}
}
