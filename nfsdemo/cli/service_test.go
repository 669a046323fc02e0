package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/internal/exports"
	"github.com/stag-rdma/stag/nfsdemo/internal/lockd"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/transport/rpcbind"
)

// TestHandlers: however many handlers are in front of the NFS handler, what it says about calls
// reaches the transport.
func TestHandlers(t *testing.T) {
	for name, change := range map[string]func(c *serviceConfig, dir string){
		"plain":   func(*serviceConfig, string) {},
		"push":    func(c *serviceConfig, dir string) { c.push = pushConfig{dir: filepath.Join(dir, "push")} },
		"replies": func(c *serviceConfig, _ string) { c.replies = "127.0.0.1:0" },
		"all": func(c *serviceConfig, dir string) {
			c.push = pushConfig{dir: filepath.Join(dir, "push")}
			c.replies = "127.0.0.1:0"
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := &serviceConfig{exports: one(t.TempDir()), rdma: "127.0.0.1:0", config: &transport.Config{}}
			change(cfg, t.TempDir())
			s := started(t, cfg)
			got := ""
			for _, p := range [...]struct{ prog, vers uint32 }{
				{nfs3.Program, nfs3.Version},
				{mount3.Program, mount3.Version},
				{lockd.NLMProgram, lockd.Version4},
				{lockd.NLMProgram, lockd.Version1},
				{lockd.NSMProgram, lockd.NSMVersion},
				{rpcbind.Program, 3},
				{push.Program, push.Version},
				{replies.Program, 1},
				{400_000, 1},
			} {
				for proc := range uint32(24) {
					if a := says(s.srv.Handler, p.prog, p.vers, proc); a != "" {
						got += fmt.Sprintf("%d %d %d:%s\n", p.prog, p.vers, proc, a)
					}
				}
			}
			want := traitsOfNFS
			if name == "push" || name == "all" {
				want += traitsOfPush
			}
			if got != want {
				t.Errorf("%s\nwant\n%s", got, want)
			}
		})
	}
}

// What the service says about calls without arguments, by program, version and procedure.
const (
	traitsOfNFS = `100003 3 2: blocks once
100003 3 6: blocks
100003 3 7: blocks once
100003 3 8: blocks once
100003 3 9: blocks once
100003 3 10: blocks once
100003 3 11: blocks once
100003 3 12: blocks once
100003 3 13: blocks once
100003 3 14: blocks once
100003 3 15: blocks once
100003 3 16: blocks
100003 3 17: blocks
100003 3 21: blocks
100005 3 1: blocks
`
	traitsOfPush = `544437351 1 1: blocks once
544437351 1 2: blocks
544437351 1 3: blocks
544437351 1 5: blocks
544437351 1 6: blocks
`
)

// says returns what a handler says about a call.
func says(h rpc.Handler, prog, vers, proc uint32) (s string) {
	req := &rpc.Request{}
	req.Prog, req.Vers, req.Proc = prog, vers, proc
	t := rpc.Describe(h, req)
	if t.Blocks {
		s += " blocks"
	}
	if t.Once {
		s += " once"
	}
	if t.Lazy {
		s += " lazy"
	}
	return s
}

// started starts a service as serve does. It ends with the test.
func started(t testing.TB, cfg *serviceConfig) *service {
	t.Helper()
	if cfg.state == "" && !cfg.memory && cfg.volume == nil {
		cfg.state = filepath.Join(t.TempDir(), "state") // else what other tests leave is this one's
	}
	if cfg.push.dir != "" {
		noErr(t, cfg.push.check(cfg))
	}
	s := must(newService(t.Context(), cfg))(t)
	t.Cleanup(func() {
		if err := s.stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Servers under test keep their keys in one place that is not the user's.
func init() { os.Setenv("STATE_DIRECTORY", filepath.Join(os.TempDir(), "nfsdemo-test-state")) }

// one exports a directory to everybody.
func one(path string) []exports.Export {
	return []exports.Export{{Export: server.Export{Path: path, Squash: server.SquashNone}}}
}

// TestHandleKey: the key is made once, and only its owner can read it; one that is damaged is not replaced.
func TestHandleKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	first, err := handleKey(dir)
	if err != nil || len(first) != keySize {
		t.Fatal(len(first), err)
	}
	again, err := handleKey(dir)
	if err != nil || !bytes.Equal(again, first) {
		t.Errorf("another key, %v", err)
	}
	name := filepath.Join(dir, "handles.key")
	if st, err := os.Stat(name); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("left behind: %v", list)
	}
	if other, err := handleKey(t.TempDir()); err != nil || bytes.Equal(other, first) {
		t.Errorf("the same key in another directory, %v", err)
	}
	noErr(t, os.WriteFile(name, first[:5], 0o600))
	if _, err := handleKey(dir); err == nil || !strings.Contains(err.Error(), "32 octets") {
		t.Errorf("a damaged key: %v", err)
	}
}

// TestKeepsKey: a directory that nobody has asked for may fail.
func TestKeepsKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	noErr(t, os.WriteFile(file, nil, 0o600))
	t.Setenv("STATE_DIRECTORY", filepath.Join(file, "below"))
	if key, err := (&serviceConfig{}).openKey(); key != nil || err != nil {
		t.Errorf("%x, %v", key, err)
	}
	if _, err := (&serviceConfig{state: filepath.Join(file, "asked")}).openKey(); err == nil || !strings.Contains(err.Error(), "--state") {
		t.Error(err)
	}
}

// TestPlacesHanging: where an export leads is not waited for, if its file system does not answer. The others are checked.
func TestPlacesHanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan struct{})
		defer close(answers)
		in := func(dir, place string) bool {
			return inTime(dir, place, func(dir, place string) bool {
				if dir == "/hangs" {
					<-answers
				}
				return dir == "/link" && place == "/there/state"
			})
		}
		cfg := &serviceConfig{state: "/none/state"}
		noErr(t, cfg.checkPlaces(one("/hangs"), in))
		cfg.state = "/there/state"
		if err := cfg.checkPlaces(append(one("/hangs"), one("/link")...), in); err == nil || !strings.Contains(err.Error(), "inside the export /link") {
			t.Error(err)
		}
	})
}

// TestPlaces: what the server keeps from clients is in no export, not by a link either, and a capture is its owner's.
func TestPlaces(t *testing.T) {
	top := t.TempDir()
	export, link := filepath.Join(top, "export"), filepath.Join(top, "link")
	noErr(t, os.Mkdir(export, 0o755))
	noErr(t, os.Symlink(export, link))
	taken, err := net.Listen("tcp", "127.0.0.1:0") // what is not refused ends there
	noErr(t, err)
	defer taken.Close()
	for _, flags := range [][]string{
		{"--state", filepath.Join(export, "state")},
		{"--state", filepath.Join(link, "new", "state")},
		{"--state", export},
		{"--pcap", filepath.Join(export, "x.pcapng")},
		{"--pcap", filepath.Join(link, "y.pcapng")},
		{"--push-log", filepath.Join(link, "log")},
	} {
		r := command(t.Context(), "", append([]string{"serve", "--export", export, "--listen", taken.Addr().String()}, flags...)...)
		if r.status != exitUsage || !strings.Contains(r.stderr, flags[0]+" "+flags[1]+" is inside the export "+export) {
			t.Errorf("%v: status %d, %s", flags, r.status, r.stderr)
		}
		if made, err := os.ReadDir(export); err != nil || len(made) > 0 {
			t.Errorf("%v: refused, but it has made %v, %v", flags, made, err)
		}
	}
	t.Setenv("STATE_DIRECTORY", filepath.Join(top, "usual"))
	cfg := &serviceConfig{exports: one(export)}
	if key, err := cfg.openKey(); err != nil || len(key) != keySize || cfg.checkPlaces(one(export), inside) != nil {
		t.Errorf("%d octets, %v", len(key), err)
	}
	if err := cfg.checkPlaces(one(top), inside); err == nil {
		t.Error("the configuration that is read again exports the key that nobody has named")
	}
	name := filepath.Join(top, "old.pcapng")
	noErr(t, os.WriteFile(name, nil, 0o644))
	for _, name := range []string{name, filepath.Join(top, "new.pcapng")} {
		command(t.Context(), "", "--pcap", name, "ls", "nfs://127.0.0.1:1/x") // it fails
		if st, err := os.Stat(name); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", st, err)
		}
	}
}

// client mounts an export. It does not wait for one that is away.
func client(t *testing.T, s *service, path string) (*nfsclient.Client, error) {
	t.Helper()
	u, err := nfsclient.ParseURL("nfs+rdma://" + addrOf(s.rdma) + path)
	noErr(t, err)
	c, err := nfsclient.Dial(t.Context(), u, &nfsclient.Config{Jukebox: -1})
	if err == nil {
		t.Cleanup(func() { _ = c.Close() }) // nothing is open
	}
	return c, err
}

// TestExportsStand: what stands at the path is served, and nothing else. A directory that is missing keeps no other from
// being served, and is served as soon as it is there; where another one takes its place, that is served.
func TestExportsStand(t *testing.T) {
	d := t.TempDir()
	a, b := filepath.Join(d, "a"), filepath.Join(d, "b")
	noErr(t, os.Mkdir(a, 0o700))
	s := started(t, &serviceConfig{
		exports: append(one(b), one(a)...), rdma: "127.0.0.1:0", status: "127.0.0.1:0", config: &transport.Config{},
	})
	if why := string(get(t, "http://"+addrOf(s.statusL)+"/readyz", http.StatusServiceUnavailable)); !strings.Contains(why, b) || strings.Contains(why, a+" ") {
		t.Error(why)
	}
	if _, err := client(t, s, b); err == nil || !strings.Contains(err.Error(), "MNT3ERR_IO") {
		t.Errorf("a mount of one that is away: %v", err)
	}
	c, err := client(t, s, a)
	noErr(t, err)
	old, err := c.Mkdir(t.Context(), c.Root(), "old", 0o700)
	noErr(t, err)

	noErr(t, os.Mkdir(b, 0o700))
	settled(t, s, 0)
	_, err = client(t, s, b)
	noErr(t, err)

	noErr(t, os.Rename(a, a+".old"))
	settled(t, s, 1)
	if err := c.Refresh(t.Context(), c.Root()); !errors.Is(err, nfs3.ErrJukebox) {
		t.Errorf("while nothing stands there: %v", err)
	}
	noErr(t, os.Mkdir(a, 0o700))
	settled(t, s, 0)
	for _, dir := range []*nfsclient.Node{c.Root(), old} {
		if _, err := c.Mkdir(t.Context(), dir, "x", 0o700); !errors.Is(err, nfs3.ErrStale) {
			t.Errorf("what stood there before: %v", err)
		}
	}
	c, err = client(t, s, a)
	noErr(t, err)
	_, err = c.Mkdir(t.Context(), c.Root(), "new", 0o700)
	noErr(t, err)
	if _, err := os.Stat(a + "/new"); err != nil {
		t.Error(err)
	}
	noErr(t, os.Rename(a, a+".new"))
	noErr(t, os.Rename(a+".old", a))
	settled(t, s, 0)
	for err = nfs3.ErrStale; errors.Is(err, nfs3.ErrStale) || errors.Is(err, nfs3.ErrJukebox); { // until the look at it
		s.set.look()
		err = c.Refresh(t.Context(), old)
	}
	noErr(t, err) // it is the same as before
}

// TestExportsNone: a server of which nothing can be served does not start, unless something may be mounted later.
func TestExportsNone(t *testing.T) {
	at := filepath.Join(t.TempDir(), "none")
	cfg := &serviceConfig{exports: one(at), rdma: "127.0.0.1:0", config: &transport.Config{}}
	if s, err := newService(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), at+": no such directory") {
		t.Error(err)
		if err == nil {
			noErr(t, s.stop(t.Context()))
		}
	}
	cfg.exports = []exports.Export{{Export: server.Export{Path: at}, Mountpoint: at}}
	if s := started(t, cfg); len(s.set.away()) != 1 {
		t.Error(s.set.away())
	}
}

// TestHangingExport: an export that does not answer keeps no other one from being served, and is served when it does.
func TestHangingExport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan struct{})
		s := &exportSet{log: slog.New(slog.DiscardHandler), make: func(path string) (backend.FS, error) {
			if path != "/other" {
				<-answers
			}
			return mem.New(nil), nil
		}}
		var served []server.Export
		noErr(t, s.serveBy(func(list []server.Export) error { served = list; return nil }))
		noErr(t, s.load(one("/first"))) // it hangs before the other one is asked
		noErr(t, s.load(append(one("/hangs"), one("/other")...)))
		if away := s.away(); len(away) != 1 || away[0].Export != "/hangs" || served[0].FS != nil || served[1].FS == nil {
			t.Errorf("served %+v, away %+v", served, away)
		}
		close(answers)
		time.Sleep(2 * checkEvery)
		if away := s.away(); len(away) != 0 || served[0].FS == nil {
			t.Errorf("later: served %+v, away %+v", served, away)
		}
		noErr(t, s.close())
	})
}

// TestPushFlags: flags that contradict each other are refused, and the error says what to do.
func TestPushFlags(t *testing.T) {
	dir := t.TempDir()
	export, logs := filepath.Join(dir, "export"), filepath.Join(dir, "logs")
	noErr(t, os.MkdirAll(filepath.Join(export, "in"), 0o700))
	base := serviceConfig{exports: one(export), rdma: "127.0.0.1:0", push: pushConfig{dir: logs}}
	for want, change := range map[string]func(*serviceConfig){
		"":                    func(*serviceConfig) {},
		"needs --listen":      func(c *serviceConfig) { c.rdma = "" },
		"--push-listen needs": func(c *serviceConfig) { c.push.dir, c.push.listen = "", "127.0.0.1:0" },
		"need --push-log DIR": func(c *serviceConfig) { c.push.dir, c.push.space = "", 1 },
		"not a directory":     func(c *serviceConfig) { c.push.dir = "/dev/null/logs" },
	} {
		cfg := base
		cfg.config = &transport.Config{}
		change(&cfg)
		switch err := cfg.push.check(&cfg); {
		case want == "" && err != nil:
			t.Error(err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%v; want %q", err, want)
		}
	}
	if st, err := os.Stat(logs); err != nil || st.Mode().Perm() != 0o700 {
		t.Error(st, err)
	}
}

func TestMountLine(t *testing.T) {
	for _, tt := range []struct {
		name string
		r    readyJSON
		want string
	}{
		{
			"RDMA",
			readyJSON{Export: "/srv/data", RDMA: "127.0.0.1:20049", Mount: "127.0.0.1:20048"},
			"mount -t nfs -o vers=3,rdma,port=20049,mountport=20048,mountproto=tcp,nolock 127.0.0.1:/srv/data /mnt",
		},
		{
			"MOUNT on the TCP port",
			readyJSON{Export: "/d", RDMA: "10.0.0.1:1", TCP: "10.0.0.1:2"},
			"mount -t nfs -o vers=3,rdma,port=1,mountport=2,mountproto=tcp,nolock 10.0.0.1:/d /mnt",
		},
		{
			"TCP",
			readyJSON{Export: "/d", TCP: "[::1]:2"},
			"mount -t nfs -o vers=3,proto=tcp,port=2,mountport=2,mountproto=tcp,nolock [::1]:/d /mnt",
		},
		{
			"quoted",
			readyJSON{Export: "/it's mine", RDMA: "1.2.3.4:1", Mount: "1.2.3.4:2"},
			`mount -t nfs -o vers=3,rdma,port=1,mountport=2,mountproto=tcp,nolock '1.2.3.4:/it'\''s mine' /mnt`,
		},
		{"nowhere to ask", readyJSON{Export: "/d", RDMA: "1.2.3.4:1"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := mountLine(&tt.r, &server.Export{}); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestReachable(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:1", "[::1]:1", "odd", "fileserver:1"} {
		if got := reachable(addr); got != addr {
			t.Errorf("reachable(%q) = %q", addr, got)
		}
	}
	host := must(os.Hostname())(t)
	for _, addr := range []string{"0.0.0.0:1", "[::]:1"} {
		if got := reachable(addr); got != host+":1" {
			t.Errorf("reachable(%q) = %q, want %s:1", addr, got, host)
		}
	}
}

func TestPortFileIsWhole(t *testing.T) {
	name := filepath.Join(t.TempDir(), "ports")
	noErr(t, writePortFile(name, &readyJSON{Export: "/d", RDMA: "a:1", PID: 7}))
	got, err := os.ReadFile(name)
	if err != nil || string(got) != "EXPORT=/d\nRDMA=a:1\nMOUNT=\nTCP=\nPID=7\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if list, _ := os.ReadDir(filepath.Dir(name)); len(list) != 1 {
		t.Error("the temporary file is left")
	}
	if err := writePortFile(filepath.Join(name, "x"), &readyJSON{}); err == nil || !strings.HasPrefix(err.Error(), "--port-file") {
		t.Errorf("got %v", err)
	}
}

// TestCgroupMemory: the least limit counts of the process's cgroup and those above it.
func TestCgroupMemory(t *testing.T) {
	for name, x := range map[string]struct {
		files string // name=content
		want  int64
	}{
		"none":             {"", 0},
		"unlimited":        {"proc/self/cgroup=0::/a sys/fs/cgroup/a/memory.max=max", 0},
		"own":              {"proc/self/cgroup=0::/a/b sys/fs/cgroup/a/b/memory.max=268435456 sys/fs/cgroup/a/memory.max=max", 256 << 20},
		"that above":       {"proc/self/cgroup=0::/a/b sys/fs/cgroup/a/b/memory.max=9000 sys/fs/cgroup/a/memory.max=8000", 8000},
		"container":        {"proc/self/cgroup=0::/ sys/fs/cgroup/memory.max=268435456", 256 << 20},
		"path of the host": {"proc/self/cgroup=0::/../../x sys/fs/cgroup/memory.max=4096", 4096},
		"version 1":        {"proc/self/cgroup=4:cpu,memory:/a sys/fs/cgroup/memory/a/memory.limit_in_bytes=5000", 5000},
		"version 1, none":  {"proc/self/cgroup=4:memory:/ sys/fs/cgroup/memory/memory.limit_in_bytes=9223372036854771712", 0},
		"both":             {"proc/self/cgroup=4:memory:/a\\n0::/a sys/fs/cgroup/memory/a/memory.limit_in_bytes=5000 sys/fs/cgroup/a/memory.max=6000", 5000},
		"nonsense":         {"proc/self/cgroup=0::/ sys/fs/cgroup/memory.max=-7", 0},
	} {
		root := fstest.MapFS{}
		for f := range strings.FieldsSeq(x.files) {
			file, content, _ := strings.Cut(f, "=")
			root[file] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(content, `\n`, "\n") + "\n")}
		}
		if got := cgroupMemory(root); got != x.want {
			t.Errorf("%s: %d octets, want %d", name, got, x.want)
		}
		// Calls of 1 MiB, with what a server has besides, would go beyond the small ones.
		if got := collectAt(root, 1<<20); x.want == 0 && got != 49<<20 || x.want > 0 && got != min(49<<20, x.want/10*9) {
			t.Errorf("%s: garbage is collected at %d octets", name, got)
		}
		for _, memory := range []int64{x.want/10*6 + 1, x.want / 10 * 6} {
			much := x.want > 2<<20 && memory > x.want/10*6
			if got := cgroupWarning(root, memory); memory > 2<<20 && (got != "") != much {
				t.Errorf("%s, %d octets for calls: %q", name, memory, got)
			}
		}
	}
}

// lines is a buffer for many goroutines.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lines) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Reset()
}

// TestHealth: a backend that fails, hangs and comes back is noticed, and said once each time.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var out lines
		var state atomic.Pointer[func() error]
		is := func(f func() error) { state.Store(&f) }
		is(func() error { return nil })
		h := newHealth("/srv", slog.New(slog.NewTextHandler(&out, nil)), func(context.Context) error { return (*state.Load())() })
		done := make(chan struct{})
		go func() { h.watch(ctx); close(done) }()
		said := func(want string) {
			t.Helper()
			time.Sleep(2 * checkEvery)
			synctest.Wait()
			if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, want) {
				t.Errorf("got %q, want one line with %q", got, want)
			}
			out.Reset()
			time.Sleep(3 * checkEvery)
			synctest.Wait()
			if out.String() != "" {
				t.Errorf("said again: %s", &out)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, err := h.lost(); err != nil || out.String() != "" {
			t.Errorf("%v, %s", err, &out)
		}
		is(func() error { return errors.New("input/output error") })
		said(`msg="backend lost" backend=/srv error="input/output error"`)
		is(func() error { return nil })
		said(`msg="backend back" backend=/srv after=`)
		hang := make(chan struct{})
		is(func() error { <-hang; return nil })
		said(`error="no answer in 5s"`)
		if since, err := h.lost(); err == nil || since.IsZero() {
			t.Error(since, err)
		}
		is(func() error { return nil })
		close(hang)
		said("backend back")
		cancel()
		<-done
	})
}

// TestSpareProcs: a server has spare processors, unless it was told how many to use.
func TestSpareProcs(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	t.Setenv("GOMAXPROCS", "2")
	spareProcs()
	if got := runtime.GOMAXPROCS(0); got != 2 {
		t.Errorf("told to use 2, uses %d", got)
	}
	t.Setenv("GOMAXPROCS", "")
	spareProcs()
	if got := runtime.GOMAXPROCS(leastProcs + 1); got != leastProcs {
		t.Errorf("uses %d, want %d", got, leastProcs)
	}
	spareProcs()
	if got := runtime.GOMAXPROCS(0); got != leastProcs+1 {
		t.Errorf("uses %[2]d of %[1]d processors", leastProcs+1, got)
	}
}
