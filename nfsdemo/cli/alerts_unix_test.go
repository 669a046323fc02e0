//go:build unix

package cli

import (
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/transport/rpcbind"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// sick is a volume with a file system that is full, and whose files are found as resolve says.
type sick struct {
	backend.FS
	full    atomic.Bool
	resolve atomic.Pointer[func() error]
}

func (s *sick) Export(string) (backend.FS, error) { return s, nil }
func (s *sick) Close() error                      { return nil }

func (s *sick) Info() backend.Info {
	i := s.FS.Info()
	i.MayBlock = true
	return i
}

func (s *sick) Usage() (backend.Usage, error) {
	u := backend.Usage{TotalBytes: 100 << 20, AvailBytes: 50 << 20, TotalFiles: 1000, AvailFiles: 500}
	if s.full.Load() {
		u.AvailBytes, u.AvailFiles = 1<<20, 10
	}
	return u, nil
}

func (s *sick) Resolve(from net.Addr, h []byte) (backend.Node, error) {
	if f := s.resolve.Load(); f != nil {
		if err := (*f)(); err != nil {
			return nil, err
		}
	}
	return s.FS.Resolve(from, h)
}

// ward is a service of a sick volume with a client, over TCP.
type ward struct {
	t   *testing.T
	fs  *sick
	s   *service
	url *nfsclient.URL
	c   *nfsclient.Client
}

func newWard(t *testing.T, change func(*serviceConfig)) *ward {
	w := &ward{t: t, fs: &sick{FS: mem.New(nil)}}
	cfg := &serviceConfig{exports: one("/e"), volume: w.fs, tcp: "127.0.0.1:0", status: "127.0.0.1:0", state: t.TempDir(), config: &transport.Config{Logger: zap.NewNop()}}
	if change != nil {
		change(cfg)
	}
	w.s = started(t, cfg)
	w.url = must(nfsclient.ParseURL("nfs://" + addrOf(w.s.tcp) + "/e"))(t)
	w.c = must(nfsclient.Dial(t.Context(), w.url, &nfsclient.Config{Jukebox: -1}))(t)
	t.Cleanup(func() { _ = w.c.Close() }) // nothing is open
	return w
}

// resolves says how files are found from now on.
func (w *ward) resolves(f func() error) { w.fs.resolve.Store(&f) }

func (w *ward) metrics() string {
	return string(get(w.t, "http://"+addrOf(w.s.statusL)+"/metrics", 200))
}

// TestAlerts makes what each alert of docs/alerts.yaml is about happen to a real server: its metrics must be there, and, as
// promtool says, fire it, and not before.
func TestAlerts(t *testing.T) {
	text := string(must(os.ReadFile("../../docs/alerts.yaml"))(t))
	rules := make(map[string]string)
	for _, m := range regexp.MustCompile(`alert: (\w+)\n +expr: (.*)`).FindAllStringSubmatch(text, -1) {
		rules[m[1]] = m[2]
	}
	asks := func(w *ward) { _ = w.c.Refresh(t.Context(), w.c.Root()) } // its error is the matter
	cases := map[string]func(t *testing.T) (before, after string){
		"NFSNotReady NFSExportAway": func(t *testing.T) (string, string) {
			s, url := watched(t)
			before := string(get(t, url+"/metrics", 200))
			noErr(t, os.Remove(s.path))
			settled(t, s, 1)
			return before, string(get(t, url+"/metrics", 200))
		},
		"NFSLocksOff": func(t *testing.T) (string, string) {
			localRPCBind(t)
			cfg := &serviceConfig{
				exports: one(t.TempDir()), state: t.TempDir(), rdma: "127.0.0.1:0", mount: "127.0.0.1:0", register: true, locks: locksAuto,
				config: new(transport.Config), status: "127.0.0.1:0",
			}
			look := func() string {
				s := must(newService(t.Context(), cfg))(t)
				defer s.stop(t.Context()) //nolint:errcheck // a test
				return string(get(t, "http://"+addrOf(s.statusL)+"/metrics", 200))
			}
			before := look()
			l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
			defer l.Close() //nolint:errcheck // a test
			other := lockEntries(l.Addr(), nil)
			noErr(t, rpcbind.Register(t.Context(), other[0]))
			return before, look()
		},
		"NFSExportFull NFSExportFewFiles": func(t *testing.T) (string, string) {
			before := newWard(t, nil).metrics()
			w := newWard(t, nil)
			w.fs.full.Store(true)
			w.s.set.list[0].measure(w.fs, nil)
			return before, w.metrics()
		},
		"NFSDiskErrors": func(t *testing.T) (string, string) {
			w := newWard(t, nil)
			asks(w)
			before := w.metrics()
			w.resolves(func() error { return nfs3.ErrIO })
			asks(w)
			return before, w.metrics()
		},
		"NFSSlow": func(t *testing.T) (string, string) {
			w := newWard(t, nil)
			asks(w)
			before := w.metrics()
			w.resolves(func() error { time.Sleep(1100 * time.Millisecond); return nil }) // a slow disk
			asks(w)
			return before, w.metrics()
		},
		"NFSPanic": func(t *testing.T) (string, string) {
			w := newWard(t, nil)
			before := w.metrics()
			w.resolves(func() error { panic("a bug") })
			asks(w)
			return before, w.metrics()
		},
		"NFSWaitsForMemory": func(t *testing.T) (string, string) {
			w := newWard(t, func(c *serviceConfig) { c.config.Limits.Memory = minMemory })
			before := w.metrics()
			c := must(transport.DialStream(t.Context(), "tcp", addrOf(w.s.tcp), nil))(t)
			defer c.Close() //nolint:errcheck // a test
			root := must(nfsclient.NewMounter(c, nfsclient.ProcessCred()).Mount(t.Context(), "/e"))(t)
			end := make(chan struct{})
			w.resolves(func() error { <-end; return nil })
			var wg sync.WaitGroup
			defer wg.Wait()
			defer close(end)
			for range 8 {
				wg.Go(func() {
					args := nfs3.WriteArgs{Handle: root, Count: 512 << 10, Data: make([]byte, 512<<10)}
					var reply rpc.Reply
					defer reply.Release()
					_ = c.Do(t.Context(), &rpc.Call{Prog: nfs3.Program, Vers: nfs3.Version, Proc: uint32(nfs3.ProcWrite), Args: xdr.Encode(nil, &args), MaxResults: 4096}, &reply)
				})
			}
			var after string
			eventually(t, func() bool { after = w.metrics(); return !strings.Contains(after, "\nnfsdemo_transport_waiting 0\n") }, "nobody waits")
			return before, after
		},
		"NFSTooManyConnections": func(t *testing.T) (string, string) {
			w := newWard(t, func(c *serviceConfig) { c.config.Limits.Conns = 1 })
			before := w.metrics()
			if c, err := nfsclient.Dial(t.Context(), w.url, nil); err == nil {
				_ = c.Close()
				t.Error("two connections")
			}
			return before, w.metrics()
		},
		"NFSMountsRefused": func(t *testing.T) (string, string) {
			w := newWard(t, nil)
			before := w.metrics()
			c := must(transport.DialStream(t.Context(), "tcp", addrOf(w.s.tcp), nil))(t)
			defer c.Close() //nolint:errcheck // a test
			for range 2 {   // a minute
				if _, err := nfsclient.NewMounter(c, nfsclient.ProcessCred()).Mount(t.Context(), "/none"); err == nil {
					t.Error("a mount of nothing")
				}
			}
			return before, w.metrics()
		},
		"NFSFewDescriptors": func(t *testing.T) (string, string) {
			w := newWard(t, nil)
			before := w.metrics()
			var old syscall.Rlimit
			noErr(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old))
			for range 64 { // of which the 8 that are left below are less than a fifth
				f := must(os.Open(os.DevNull))(t)
				defer f.Close() //nolint:errcheck // a test
			}
			open, _ := os.ReadDir("/proc/self/fd") // only Linux has it, and the metric
			few := old
			few.Cur = uint64(len(open)) + 8
			noErr(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
			after := w.metrics()
			noErr(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old))
			return before, after
		},
	}
	promtool, err := exec.LookPath("promtool")
	tried := make(map[string]bool)
	for names, provoke := range cases {
		before, after := provoke(t)
		for name := range strings.FieldsSeq(names) {
			tried[name] = true
			for _, m := range regexp.MustCompile(`\b(?:nfsdemo|process)_\w+`).FindAllString(rules[name], -1) {
				if !strings.Contains(after, "\n"+m+" ") && !strings.Contains(after, "\n"+m+"{") {
					t.Errorf("%s: no metric %s", name, m)
				}
			}
			if err == nil {
				fires(t, promtool, text, name, rules[name], before, after)
			}
		}
	}
	if !maps.Equal(tried, mapOf(rules)) {
		t.Errorf("tried %v, there are %v", slices.Sorted(maps.Keys(tried)), slices.Sorted(maps.Keys(rules)))
	}
	if err != nil {
		t.Skip("the metrics are there; whether they fire the alerts is left out: no promtool here (make alerts)")
	}
}

func mapOf(rules map[string]string) map[string]bool {
	out := make(map[string]bool)
	for name := range rules {
		out[name] = true
	}
	return out
}

// fires asks promtool whether a rule fires an hour after the metrics became what they are, but not if they stay as before.
// Counters go on as they went.
func fires(t *testing.T, promtool, rules, name, expr, before, after string) {
	t.Helper()
	dir := t.TempDir()
	noErr(t, os.WriteFile(filepath.Join(dir, "alerts.yaml"), []byte(rules), 0o600))
	sample := regexp.MustCompile(`(?m)^(\w+)(?:\{(.*)\})? (\S+)$`)
	value := func(s string) float64 { v, _ := strconv.ParseFloat(s, 64); return v } // of a metric
	was := make(map[string]float64)
	for _, m := range sample.FindAllStringSubmatch(before, -1) {
		was[m[1]+m[2]] = value(m[3])
	}
	for _, sickly := range []bool{false, true} {
		text := before
		want := ""
		if sickly {
			text, want = after, "{labels: '{}', value: 1}"
		}
		series := ""
		for _, m := range sample.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(expr, m[1]) {
				continue
			}
			v, step := value(m[3]), 0.0
			if sickly && (strings.HasSuffix(m[1], "_total") || strings.HasSuffix(m[1], "_bucket")) {
				step = v - was[m[1]+m[2]]
			}
			series += fmt.Sprintf("      - {series: '%s{%s}', values: '%s+%sx60'}\n", m[1], strings.ReplaceAll(strings.TrimPrefix(m[2]+`,job="nfsdemo",instance="a"`, ","), "'", "''"),
				strconv.FormatFloat(v, 'f', -1, 64), strconv.FormatFloat(step, 'f', -1, 64))
		}
		unit := fmt.Sprintf("rule_files: [alerts.yaml]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n%s"+
			"    promql_expr_test:\n      - expr: 'count(ALERTS{alertname=\"%s\",alertstate=\"firing\"}) > bool 0'\n        eval_time: 60m\n        exp_samples: [%s]\n", series, name, want)
		file := filepath.Join(dir, "unit.yaml")
		noErr(t, os.WriteFile(file, []byte(unit), 0o600))
		if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", file).CombinedOutput(); err != nil {
			t.Errorf("%s, ill: %v: %v\n%s\n%s", name, sickly, err, out, unit)
		}
	}
}
