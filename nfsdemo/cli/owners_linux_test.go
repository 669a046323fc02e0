package cli

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/internal/caller"
	"github.com/stag-rdma/stag/nfsdemo/internal/exports"
	"github.com/stag-rdma/stag/nfsdemo/internal/users"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// claimEnv makes the test binary a client that claims the uid in it, and CLAIM_URL the export.
const claimEnv = "NFSDEMO_TEST_CLAIM"

func init() {
	uid, claims := os.LookupEnv(claimEnv)
	if !claims {
		return
	}
	os.Exit(claim(uid))
}

func claim(uid string) int {
	u, err := nfsclient.ParseURL(os.Getenv("CLAIM_URL"))
	if err != nil {
		return 2
	}
	cfg := &nfsclient.Config{Transport: &transport.Config{}}
	cfg.Cred = &xdr.SysCred{MachineName: "liar", UID: parseID(uid), GID: parseID(uid)}
	c, err := nfsclient.Dial(context.Background(), u, cfg)
	if err == nil {
		defer c.Close()
		_, err = c.Create(context.Background(), c.Root(), "by-"+uid, 0o644, true)
	}
	if err != nil {
		os.Stdout.WriteString(err.Error())
		return 1
	}
	return 0
}

// TestLoopback: a user of this machine can claim only his own uid, over RDMA and TCP, although his port is
// none of root's; root can claim any.
func TestLoopback(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("starts processes of other users: for root")
	}
	dir, err := os.MkdirTemp("", "loopback") //nolint:usetesting // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for _, d := range []string{dir, filepath.Join(dir, "export")} {
		noErr(t, os.MkdirAll(d, 0o777))
		noErr(t, os.Chmod(d, 0o777))
	}
	s := started(t, &serviceConfig{
		exports: []exports.Export{{Export: server.Export{Path: filepath.Join(dir, "export"), Squash: server.SquashNone, Secure: true}}},
		rdma:    "127.0.0.1:0", tcp: "127.0.0.1:0", config: &transport.Config{},
	})
	for _, c := range []struct {
		uid   uint32
		claim string
		ok    bool
	}{{1234, "1234", true}, {1234, "0", false}, {1234, "1235", false}, {1234, "4294967295", false}, {0, "1235", true}, {0, "0", true}} {
		for _, url := range []string{"nfs+rdma://" + addrOf(s.rdma) + s.path, "nfs://" + addrOf(s.tcp) + s.path} {
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), claimEnv+"="+c.claim, "CLAIM_URL="+url)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.uid, Gid: c.uid}}
			out, err := cmd.CombinedOutput()
			if (err == nil) != c.ok {
				t.Errorf("user %d claims %s at %s: %v, %s", c.uid, c.claim, url, err, out)
			}
			if !c.ok && !bytes.Contains(bytes.ToUpper(out), []byte("BADCRED")) {
				t.Errorf("user %d claims %s at %s: %s", c.uid, c.claim, url, out)
			}
			st, err := os.Stat(filepath.Join(dir, "export", "by-"+c.claim))
			if (err == nil) != c.ok {
				t.Errorf("user %d claims %s: the file: %v", c.uid, c.claim, err)
			} else if err == nil && strings.TrimSpace(c.claim) != "" && st.Sys().(*syscall.Stat_t).Uid != parseID(c.claim) {
				t.Errorf("user %d claims %s: it belongs to %d", c.uid, c.claim, st.Sys().(*syscall.Stat_t).Uid)
			}
			_ = os.Remove(filepath.Join(dir, "export", "by-"+c.claim))
		}
	}
}

// TestProxyLoopback: behind a proxy that root runs, in both directions, a user of this machine passes for himself only.
func TestProxyLoopback(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("starts processes of other users: for root")
	}
	dir, err := os.MkdirTemp("", "loopback") //nolint:usetesting // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	noErr(t, os.Chmod(dir, 0o777))
	s := started(t, &serviceConfig{
		exports: []exports.Export{{Export: server.Export{Path: dir, Squash: server.SquashNone}}},
		rdma:    "127.0.0.1:0", tcp: "127.0.0.1:0", config: &transport.Config{},
	})
	_, port, _ := net.SplitHostPort(addrOf(s.tcp))
	front, _ := startProxy(t, "--to", "nfs://"+addrOf(s.tcp)+"/?mountport="+port, "--listen", "127.0.0.1:0", "--mount-listen", "127.0.0.1:0")
	back, _ := startProxy(t, "--to", "nfs+rdma://"+addrOf(s.rdma)+"/?mountport="+port, "--listen", "127.0.0.1:0", "--mount-listen", "127.0.0.1:0")
	for i, base := range []string{"nfs+rdma://" + front["RDMA"], "nfs://" + back["TCP"]} {
		_, mount, _ := net.SplitHostPort([]string{front["MOUNT"], back["MOUNT"]}[i])
		for _, c := range []struct {
			uid   uint32
			claim string
			ok    bool
		}{{1, "1", true}, {1, "0", false}, {1, "2", false}, {0, "2", true}} {
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), claimEnv+"="+c.claim, "CLAIM_URL="+base+dir+"?mountport="+mount)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.uid, Gid: c.uid}}
			if out, err := cmd.CombinedOutput(); (err == nil) != c.ok {
				t.Errorf("user %d claims %s at %s: %v, %s", c.uid, c.claim, base, err, out)
			}
			if _, err := os.Stat(filepath.Join(dir, "by-"+c.claim)); (err == nil) != c.ok {
				t.Errorf("user %d claims %s at %s: the file: %v", c.uid, c.claim, base, err)
			}
			_ = os.Remove(filepath.Join(dir, "by-"+c.claim))
		}
	}
}

// TestManageGIDs: a user has the groups that he has here, beyond sixteen, and the gid of his call, but no other that he claims.
func TestManageGIDs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("acts as others: for root")
	}
	bin, dir := t.TempDir(), t.TempDir()
	script := "#!/bin/sh\ncase \"$1 $2\" in\n'passwd 7001') echo 'ann:*:7001:7000:Ann:/home/ann:/bin/sh';;\n" +
		"'initgroups ann') echo 'ann    7010 7011 7012 7013 7014 7015 7016 7017 7018 7019 7020 7021 7022 7023 7024 7025 7026 7027 7028 7029';;\n*) exit 2;;\nesac\n"
	noErr(t, os.WriteFile(filepath.Join(bin, "getent"), []byte(script), 0o755))
	t.Setenv("PATH", bin)
	for _, gid := range []int{7029, 7099} {
		name := filepath.Join(dir, strconv.Itoa(gid))
		noErr(t, os.WriteFile(name, []byte("x"), 0o040))
		noErr(t, os.Chown(name, 0, gid))
	}
	sink := must(os.CreateTemp(bin, ""))(t)
	defer sink.Close()
	for _, manage := range []bool{true, false} {
		s := started(t, &serviceConfig{
			exports: []exports.Export{{Export: server.Export{Path: dir, Squash: server.SquashNone}}}, manageGIDs: manage,
			state: t.TempDir(), rdma: "127.0.0.1:0", tcp: "127.0.0.1:0", config: &transport.Config{},
		})
		_, port, _ := net.SplitHostPort(addrOf(s.tcp))
		for _, at := range []string{"nfs+rdma://" + addrOf(s.rdma), "nfs://" + addrOf(s.tcp)} {
			for _, c := range []struct {
				uid, gid        uint32
				gids            []uint32
				here, elsewhere bool // may he read the file of 7029, that of 7099
			}{
				{7001, 7000, nil, manage, false},
				{7001, 7000, []uint32{7029, 7099}, true, !manage},
				{7001, 7099, nil, manage, true},
				{7002, 7099, []uint32{7029}, !manage, true}, // nobody has that uid
			} {
				u := must(nfsclient.ParseURL(at + dir + "?mountport=" + port))(t)
				cfg := &nfsclient.Config{Transport: &transport.Config{}, Cred: &xdr.SysCred{UID: c.uid, GID: c.gid, GIDs: c.gids}}
				cl := must(nfsclient.Dial(t.Context(), u, cfg))(t)
				for name, may := range map[string]bool{"7029": c.here, "7099": c.elsewhere} {
					n := must(cl.Lookup(t.Context(), dir+"/"+name))(t)
					if _, err := cl.ReadTo(t.Context(), n, sink, 0, nil); (err == nil) != may {
						t.Errorf("manage %v: %+v reads the file of %s: %v", manage, c, name, err)
					}
				}
				cl.Close()
			}
		}
	}
}

func parseID(s string) (id uint32) {
	for _, c := range s {
		id = id*10 + uint32(c-'0')
	}
	return id
}

// TestOwnersForget: nothing is left of connections that are gone.
func TestOwnersForget(t *testing.T) {
	var o owners
	ol := owned(t, &o)
	func() {
		for range 10 {
			c := must(net.Dial("tcp", ol.Addr().String()))(t)
			s := must(ol.Accept())(t)
			if u, ok := o.of(s.RemoteAddr()); !ok || u.UID != uint32(os.Geteuid()) {
				t.Errorf("%+v, %v", u, ok)
			}
			if name := o.name(s.RemoteAddr()); name != strconv.Itoa(os.Geteuid()) {
				t.Errorf("named %q", name)
			}
			other := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: s.RemoteAddr().(*net.TCPAddr).Port}
			if _, ok := o.of(other); ok || o.name(other) != "" {
				t.Error("an address of nobody is known")
			}
			c.Close()
			s.Close()
		}
	}()
	left := func() (n int) {
		o.m.Range(func(any, any) bool { n++; return true })
		return n
	}
	for range 1000 {
		if left() == 0 {
			return
		}
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%d connections are remembered", left())
}

// owned returns a listener that notes whose connections it accepts.
func owned(t *testing.T, o *owners) net.Listener {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	ol := must(o.listen(l))(t)
	t.Cleanup(func() { _ = o.close() })
	return ol
}

// TestOwnersGone: whoever has closed his socket is nobody, not root, and nobody is told that the kernel is at fault.
func TestOwnersGone(t *testing.T) {
	var said bytes.Buffer
	o := owners{log: slog.New(slog.NewTextHandler(&said, nil))}
	ol := owned(t, &o)
	c := must(net.Dial("tcp", ol.Addr().String()))(t)
	c.Close()
	s := must(ol.Accept())(t)
	defer s.Close()
	if u, local := o.of(s.RemoteAddr()); !local || u.UID != caller.None || u.GIDs != nil {
		t.Errorf("%+v, %v", u, local)
	}
	if said.Len() > 0 {
		t.Error(said.String())
	}
}

// TestOwnersUntold: if the kernel does not tell, nobody on this machine is believed, and the log says so, once.
func TestOwnersUntold(t *testing.T) {
	var said bytes.Buffer
	o := owners{log: slog.New(slog.NewTextHandler(&said, nil))}
	for range 2 {
		o.refuses(fmt.Errorf("%w: %w", users.ErrUnknown, users.ErrMute))
	}
	if n := strings.Count(said.String(), "modprobe tcp_diag"); n != 1 {
		t.Errorf("said %d times: %s", n, said.String())
	}
}

// TestProxyFloods: silent connections of one address to the ports of a proxy for TCP are limited and counted, and another
// address is answered at once.
func TestProxyFloods(t *testing.T) {
	s := started(t, &serviceConfig{exports: one(t.TempDir()), rdma: "127.0.0.1:0", tcp: "127.0.0.1:0", config: &transport.Config{}})
	_, port, _ := net.SplitHostPort(addrOf(s.tcp))
	ports, _ := startProxy(t, "--to", "nfs+rdma://"+addrOf(s.rdma)+"/?mountport="+port, "--listen", "127.0.0.1:0", "--mount-listen", "127.0.0.1:0",
		"--status", "127.0.0.1:0", "--client-connections", "32")
	from := func(ip, addr string) net.Conn {
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() }) // nothing is awaited
		return c
	}
	for _, name := range []string{"TCP", "MOUNT"} {
		for range 40 {
			from("127.0.0.2", ports[name])
		}
		c := must(transport.NewStreamClient(context.Background(), from("127.0.0.3", ports[name]), nil))(t)
		call := &rpc.Call{Prog: 100003, Vers: 3}
		if name == "MOUNT" {
			call = &rpc.Call{Prog: mount3.Program, Vers: mount3.Version, Proc: uint32(mount3.ProcExport)}
		}
		var reply rpc.Reply
		if err := c.Do(t.Context(), call, &reply); err != nil || reply.Header.Err() != nil {
			t.Errorf("%s: %v, %v", name, err, reply.Header.Err())
		}
		reply.Release()
		_ = c.Close() // nothing is awaited
	}
	metrics := string(get(t, "http://"+ports["STATUS"]+"/metrics", http.StatusOK))
	for _, want := range []string{"nfsdemo_transport_too_many_total 8", "nfsdemo_proxy_mount_refused_total 8"} {
		if !strings.Contains(metrics, "\n"+want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}
