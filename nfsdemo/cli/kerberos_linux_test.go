package cli

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/stag-rdma/stag/nfsdemo/internal/exports"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/gss"
	"github.com/stag-rdma/stag/transport/gss/krb5"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// realm is a KDC of MIT on loopback.
type realm struct {
	t               *testing.T
	name, dir, addr string
}

// newRealm starts a KDC, with principals whose password is "secret", and has the test use it.
func newRealm(t *testing.T, users ...string) *realm {
	t.Helper()
	r := newKDC(t, "STAG.TEST", users...)
	r.keytab("nfs.keytab", "nfs/localhost")
	r.conf("")
	t.Setenv("KRB5_CONFIG", r.dir+"/krb5.conf")
	t.Setenv("KRB5CCNAME", "FILE:"+r.dir+"/cc")
	return r
}

// conf writes what a client knows of the realm.
func (r *realm) conf(more string) {
	r.write("krb5.conf", "[libdefaults]\n default_realm = "+r.name+"\n dns_lookup_kdc = false\n dns_canonicalize_hostname = false\n rdns = false\n"+
		" udp_preference_limit = 1\n[realms]\n "+r.name+" = {\n  kdc = "+r.addr+"\n }\n"+more)
}

// newKDC starts the KDC of a realm.
func newKDC(t *testing.T, name string, users ...string) *realm {
	t.Helper()
	for _, p := range []string{"krb5kdc", "kdb5_util", "kadmin.local", "kinit"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%v: packages krb5-kdc, krb5-admin-server and krb5-user have it", err)
		}
	}
	r := &realm{t: t, name: name, dir: t.TempDir()}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	noErr(t, err)
	addr := l.Addr().String()
	l.Close()
	r.addr = addr
	r.write("kdc.conf", "[kdcdefaults]\n kdc_listen = "+addr+"\n kdc_tcp_listen = "+addr+"\n[realms]\n "+name+" = {\n"+
		"  database_name = "+r.dir+"/principal\n  key_stash_file = "+r.dir+"/stash\n  acl_file = "+r.dir+"/acl\n"+
		"  supported_enctypes = aes256-cts:normal aes256-sha2:normal\n }\n")
	r.conf("")
	r.run("", "kdb5_util", "create", "-s", "-P", "master", "-r", name)
	for _, u := range users {
		r.admin("addprinc", "-pw", "secret", u)
	}
	kdc := exec.Command("krb5kdc", "-n", "-r", name)
	kdc.Env = r.env()
	log, err := os.Create(r.dir + "/kdc.log")
	noErr(t, err)
	defer log.Close()
	kdc.Stdout, kdc.Stderr = log, log
	noErr(t, kdc.Start())
	t.Cleanup(func() {
		_ = kdc.Process.Kill()
		_ = kdc.Wait()
	})
	eventually(t, func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	}, "the KDC does not listen")
	return r
}

func (r *realm) write(name, text string) {
	noErr(r.t, os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600))
}

// run runs a program of Kerberos.
func (r *realm) run(stdin string, args ...string) {
	r.t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Stdin = r.env(), strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("%q: %v\n%s", args, err, out)
	}
}

func (r *realm) env() []string {
	return append(os.Environ(), "KRB5_KDC_PROFILE="+r.dir+"/kdc.conf", "KRB5_CONFIG="+r.dir+"/krb5.conf")
}

func (r *realm) admin(args ...string) {
	r.t.Helper()
	r.run("", append([]string{"kadmin.local", "-r", r.name}, args...)...)
}

// keytab makes a keytab of a new service.
func (r *realm) keytab(name, service string) {
	r.admin("addprinc", "-randkey", service)
	r.admin("ktadd", "-k", filepath.Join(r.dir, name), service)
}

// kinit gets a ticket for a user.
func (r *realm) kinit(user string, more ...string) {
	r.run("secret\n", append(append([]string{"kinit"}, more...), user)...)
}

// TestKerberos: commands write and read with each protection over each transport, against a KDC of MIT. Files belong to the
// user of a principal without an instance, and to nobody otherwise; who has no ticket, or one that is over, learns what to do.
func TestKerberos(t *testing.T) {
	r := newRealm(t, "daemon", "stranger", "root/admin", "ops/admin")
	k := &kerberos{file: r.dir + "/nfs.keytab", said: new(atomic.Pointer[exports.File])}
	k.said.Store(&exports.File{Principals: map[string]string{"ops/admin@STAG.TEST": "daemon"}})
	e := one("/krb")
	e[0].Squash, e[0].Secure, e[0].Sec = server.SquashNone, false, []xdr.AuthFlavor{server.Krb5p, server.Krb5i, server.Krb5}
	s := started(t, &serviceConfig{exports: e, memory: true, rdma: "127.0.0.1:0", tcp: "127.0.0.1:0", kerberos: k, config: &transport.Config{}})
	at := func(scheme string, l net.Listener) string {
		_, port, err := net.SplitHostPort(l.Addr().String())
		noErr(t, err)
		return scheme + "://localhost:" + port + "/krb"
	}
	urls := []string{at("nfs+rdma", s.rdma), at("nfs", s.tcp)}
	data := filepath.Join(r.dir, "data")
	noErr(t, os.WriteFile(data, []byte(strings.Repeat("all work and no play ", 20_000)), 0o600))
	n := 0
	for user, owner := range map[string]string{"daemon": "1", "ops/admin": "1", "stranger": "65534", "root/admin": "65534"} {
		r.kinit(user)
		for _, url := range urls {
			for _, sec := range []string{"krb5", "krb5i", "krb5p"} {
				n++
				file := fmt.Sprint(url, "/", n)
				if c := command(t.Context(), "", "cp", "--sec", sec, data, file); c.status != 0 {
					t.Fatalf("%s, %s, %s: %s", user, url, sec, c.stderr)
				}
				c := command(t.Context(), "", "cat", "--sec", sec, file)
				if want, _ := os.ReadFile(data); c.status != 0 || c.stdout != string(want) {
					t.Fatalf("%s, %s, %s: %d octets, %s", user, url, sec, len(c.stdout), c.stderr)
				}
				if c := command(t.Context(), "", "stat", "--json", "--sec", sec, file); !strings.Contains(c.stdout, `"uid": `+owner+",") && !strings.Contains(c.stdout, `"uid":`+owner+",") {
					t.Errorf("%s: want uid %s: %s%s", user, owner, c.stdout, c.stderr)
				}
			}
			if c := command(t.Context(), "", "ls", url); c.status == 0 {
				t.Errorf("AUTH_SYS passes: %s", c.stdout)
			}
		}
	}
	r.kinit("daemon")
	for _, url := range urls {
		_, mount, _ := net.SplitHostPort(s.tcp.Addr().String())
		doctorSays(t, "krb5p", url+"?mountport="+mount, "has proved to be nfs/localhost", "can be read", "sec=krb5p,")
	}
	if l, err := net.Listen("tcp", "127.0.0.1:2049"); err == nil { // else somebody has it
		_, mount, _ := net.SplitHostPort(s.tcp.Addr().String())
		doctorSays(t, "krb5p", urls[0]+"?mountport="+mount, "ok       Kerberos")
		noErr(t, l.Close())
		doctorSays(t, "krb5p", urls[0]+"?mountport="+mount, "warning  Kerberos", "--tcp :2049")
	}
	plain := started(t, &serviceConfig{exports: one("/krb"), memory: true, tcp: "127.0.0.1:0", config: &transport.Config{}})
	doctorSays(t, "krb5", at("nfs", plain.tcp), "has no Kerberos", "--keytab")
	doctorSays(t, "krb5", strings.Replace(urls[0], "localhost", "127.0.0.1", 1), "not known to Kerberos", "nfs/NAME")
	r.kinit("daemon", "-l", "1s")
	for {
		c := command(t.Context(), "", "ls", "--sec", "krb5p", urls[0])
		if c.status == 0 {
			continue
		}
		if !strings.Contains(c.stderr, "expired") || !strings.Contains(c.stderr, "kinit") {
			t.Errorf("after its end: %s", c.stderr)
		}
		break
	}
	r.kinit("daemon")
	if c := command(t.Context(), "", "ls", "--sec", "krb5p", strings.Replace(urls[0], "localhost", "127.0.0.1", 1)); !strings.Contains(c.stderr, "not an alias or an address") {
		t.Errorf("a name that the KDC does not know: %s", c.stderr)
	}
	r.run("", "kdestroy")
	if c := command(t.Context(), "", "ls", "--sec", "krb5p", urls[0]); !strings.Contains(c.stderr, "run kinit") {
		t.Errorf("without a ticket: %s", c.stderr)
	}
	// Another key: the ticket is one for keys that are gone.
	r.kinit("daemon")
	noErr(t, os.Remove(r.dir+"/nfs.keytab"))
	if err := k.load(); err == nil {
		t.Error("a keytab that is gone is read")
	}
	r.keytab("nfs.keytab", "nfs/elsewhere")
	noErr(t, k.load())
	doctorSays(t, "krb5i", urls[1], "the server says: the server's keytab has no key", "ktadd")
}

// newKeytab writes a keytab of one service.
func newKeytab(t *testing.T, file string) {
	t.Helper()
	kt := keytab.New()
	noErr(t, kt.AddEntry("nfs/localhost", "STAG.TEST", "secret", time.Now(), 1, etypeID.AES256_CTS_HMAC_SHA1_96))
	b, err := kt.Marshal()
	noErr(t, err)
	noErr(t, os.WriteFile(file, b, 0o600))
}

// TestReloadKeytab: with a keytab that cannot be read, the exports stay as they were.
func TestReloadKeytab(t *testing.T) {
	dir, list := t.TempDir(), one(t.TempDir())
	newKeytab(t, dir+"/keytab")
	s := started(t, &serviceConfig{
		exports: list, again: func() ([]exports.Export, error) { return list, nil }, state: dir, rdma: "127.0.0.1:0", config: &transport.Config{},
		kerberos: &kerberos{file: dir + "/keytab", said: new(atomic.Pointer[exports.File])},
	})
	old := s.paths()
	list = one(t.TempDir())
	noErr(t, os.WriteFile(dir+"/keytab", nil, 0o600))
	if got, err := s.reload(); err == nil || got != old {
		t.Errorf("%v, %s", err, got)
	}
	newKeytab(t, dir+"/keytab")
	if got, err := s.reload(); err != nil || got != list[0].Path {
		t.Errorf("%v, %s", err, got)
	}
}

// TestBelieved: serve says that clients are believed if they are, by one export at least.
func TestBelieved(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: else nobody is believed")
	}
	dir := t.TempDir()
	newKeytab(t, dir+"/keytab")
	for want, lists := range map[bool][][]xdr.AuthFlavor{
		true:  {nil, {server.Krb5p, xdr.AuthSys}},
		false: {{server.Krb5}, {server.Krb5p, server.Krb5i}},
	} {
		for _, sec := range lists {
			e := one(t.TempDir())
			e[0].Sec = sec
			k := &kerberos{file: dir + "/keytab", said: new(atomic.Pointer[exports.File])}
			s := started(t, &serviceConfig{exports: e, state: dir, rdma: "127.0.0.1:0", kerberos: k, config: &transport.Config{}})
			var out bytes.Buffer
			noErr(t, (&app{stdout: &out}).announce(s, new(serveFlags)))
			if strings.Contains(out.String(), "clients are believed") != want {
				t.Errorf("sec=%s: %s", secName(sec), &out)
			}
		}
	}
}

// TestMIT: MIT's GSSAPI calls this server, and this client calls an acceptor of MIT's, which asserts a key of its own, with
// each service.
func TestMIT(t *testing.T) {
	python := "/usr/bin/python3" // another one in the path has not Debian's packages
	if err := exec.Command(python, "-c", "import gssapi").Run(); err != nil {
		t.Skip("package python3-gssapi is missing")
	}
	r := newRealm(t, "daemon")
	r.kinit("daemon")
	k := &kerberos{file: r.dir + "/nfs.keytab", said: new(atomic.Pointer[exports.File])}
	e := one("/krb")
	e[0].Secure, e[0].Sec = false, []xdr.AuthFlavor{server.Krb5p, server.Krb5i, server.Krb5}
	s := started(t, &serviceConfig{exports: e, memory: true, tcp: "127.0.0.1:0", kerberos: k, config: &transport.Config{}})
	_, port, err := net.SplitHostPort(s.tcp.Addr().String())
	noErr(t, err)
	out, err := exec.Command(python, "testdata/mit.py", "call", port, port, "/krb").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "flavors [390005, 390004, 390003]") {
		t.Errorf("MIT's client: %v\n%s", err, out)
	}

	peer := exec.Command(python, "testdata/mit.py", "answer", r.dir+"/nfs.keytab")
	var said bytes.Buffer
	peer.Stderr = &said
	stdout, err := peer.StdoutPipe()
	noErr(t, err)
	noErr(t, peer.Start())
	defer func() {
		_ = peer.Process.Kill()
		_ = peer.Wait()
		if t.Failed() {
			t.Logf("the peer says: %s", &said)
		}
	}()
	lines := bufio.NewReader(stdout)
	port, err = lines.ReadString('\n')
	noErr(t, err)
	for _, service := range []gss.Service{gss.None, gss.Integrity, gss.Privacy} {
		c, err := transport.DialStream(t.Context(), "tcp", "localhost:"+strings.TrimSpace(port), &transport.Config{
			GSS: transport.GSS{Client: gss.NewClient(service, krb5.FromCache("localhost"))},
		})
		noErr(t, err)
		for _, size := range []int{0, 4, 5000, 300_000} {
			args := bytes.Repeat([]byte("1234"), size/4)
			var reply rpc.Reply
			err := c.Do(t.Context(), &rpc.Call{Prog: 400_000, Vers: 1, Proc: 1, Cred: xdr.Auth{Flavor: xdr.RPCSECGSS}, Args: args, MaxResults: size}, &reply)
			if err != nil || !bytes.Equal(reply.Results, args) {
				t.Errorf("%v, %d octets: %v", service, size, err)
			}
			reply.Release()
		}
		noErr(t, c.Close())
		if who, _ := lines.ReadString('\n'); who != "daemon@STAG.TEST\n" {
			t.Errorf("%v: MIT's acceptor knows %q", service, who)
		}
	}
}

// doctorSays is what doctor finds at url under sec.
func doctorSays(t *testing.T, sec, url string, want ...string) {
	t.Helper()
	c := command(t.Context(), "", "doctor", "--server-only", "--sec", sec, url)
	for _, w := range want {
		if !strings.Contains(c.stdout, w) {
			t.Errorf("doctor --sec %s %s: want %q: %s%s", sec, url, w, c.stdout, c.stderr)
		}
	}
}

// krbServer serves /krb with a keytab over TCP, and returns its URL.
func krbServer(t *testing.T, keytab string) (*kerberos, string) {
	k := &kerberos{file: keytab, said: new(atomic.Pointer[exports.File])}
	e := one("/krb")
	e[0].Secure, e[0].Sec = false, []xdr.AuthFlavor{server.Krb5p}
	s := started(t, &serviceConfig{exports: e, memory: true, tcp: "127.0.0.1:0", kerberos: k, config: &transport.Config{}})
	_, port, err := net.SplitHostPort(s.tcp.Addr().String())
	noErr(t, err)
	return k, "nfs://localhost:" + port + "/krb?mountport=" + port
}

// TestKDCRefuses: what a KDC says, or does not say, becomes what to do.
func TestKDCRefuses(t *testing.T) {
	r := newRealm(t, "daemon")
	_, url := krbServer(t, r.dir+"/nfs.keytab")
	r.kinit("daemon")
	for code, want := range map[int32][2]string{
		0:                                     {"the KDC gives no ticket", "does it run?"}, // it hangs up
		errorcode.KRB_AP_ERR_SKEW:             {"the clocks of client and server differ", "by NTP"},
		errorcode.KDC_ERR_ETYPE_NOSUPP:        {"no common encryption type", "klist -e"},
		errorcode.KDC_ERR_S_PRINCIPAL_UNKNOWN: {"nfs/localhost: the name is not known to Kerberos", "not an alias"},
		errorcode.KRB_AP_ERR_TKT_EXPIRED:      {"the ticket has expired", "run kinit"},
		errorcode.KDC_ERR_POLICY:              {"the KDC gives no ticket", "does it run?"},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		noErr(t, err)
		defer l.Close()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Read(make([]byte, 4096))
				if code != 0 {
					e := messages.NewKRBError(types.PrincipalName{NameString: []string{"krbtgt", r.name}}, r.name, code, "")
					b, _ := e.Marshal()
					_, _ = c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
				}
				c.Close()
			}
		}()
		r.write("krb5.conf", "[libdefaults]\n default_realm = "+r.name+"\n udp_preference_limit = 1\n[realms]\n "+r.name+" = {\n  kdc = "+l.Addr().String()+"\n }\n")
		doctorSays(t, "krb5p", url, want[0], want[1])
	}
	r.write("krb5.conf", "[libdefaults]\n default_realm = ELSEWHERE\n udp_preference_limit = 1\n")
	doctorSays(t, "krb5p", url, "the KDC gives no ticket", "does krb5.conf name it")
}

// TestKeytabOfAnotherType: the keytab has the service, but not as the KDC seals its tickets.
func TestKeytabOfAnotherType(t *testing.T) {
	r := newRealm(t, "daemon")
	kt := keytab.New()
	noErr(t, kt.AddEntry("nfs/localhost", r.name, "secret", time.Now(), 2, etypeID.AES128_CTS_HMAC_SHA1_96))
	b, err := kt.Marshal()
	noErr(t, err)
	r.write("nfs.keytab", string(b))
	_, url := krbServer(t, r.dir+"/nfs.keytab")
	r.kinit("daemon")
	doctorSays(t, "krb5p", url, "the server says: no common encryption type", "klist -ke")
}

// TestForeignRealm: who comes from a realm that the KDC trusts is nobody all the same, and who comes from another one has no
// ticket for the server.
func TestForeignRealm(t *testing.T) {
	r := newRealm(t, "daemon")
	other := newKDC(t, "OTHER.TEST", "daemon")
	r.conf(" OTHER.TEST = {\n  kdc = " + other.addr + "\n }\n[domain_realm]\n localhost = STAG.TEST\n")
	_, url := krbServer(t, r.dir+"/nfs.keytab")
	r.kinit("daemon@OTHER.TEST")
	doctorSays(t, "krb5p", url, "not known to Kerberos")
	for _, at := range []*realm{r, other} {
		at.admin("addprinc", "-pw", "shared", "krbtgt/STAG.TEST@OTHER.TEST")
	}
	file := strings.Replace(url, "?", "/f?", 1)
	if c := command(t.Context(), "one", "cp", "--sec", "krb5p", "-", file); c.status != 0 {
		t.Fatal(c.stderr)
	}
	c := command(t.Context(), "", "stat", "--json", "--sec", "krb5p", file)
	if !strings.Contains(strings.ReplaceAll(c.stdout, " ", ""), `"uid":65534,`) {
		t.Errorf("%s%s", c.stdout, c.stderr)
	}
}
