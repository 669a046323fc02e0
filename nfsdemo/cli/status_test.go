package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stag-rdma/stag/nfsdemo/internal/lockd"
	"github.com/stag-rdma/stag/nfsdemo/internal/ops"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// watched is a service with --status that a client uses, and the URL of its status.
func watched(t *testing.T) (s *service, url string) {
	t.Helper()
	dir := t.TempDir()
	export := filepath.Join(dir, "export")
	noErr(t, os.Mkdir(export, 0o700))
	s = started(t, &serviceConfig{
		exports: one(export), rdma: "127.0.0.1:0", tcp: "127.0.0.1:0", config: &transport.Config{},
		push: pushConfig{dir: filepath.Join(dir, "logs")}, status: "127.0.0.1:0",
	})
	for _, at := range []string{"nfs+rdma://" + addrOf(s.rdma), "nfs://" + addrOf(s.tcp)} {
		u := must(nfsclient.ParseURL(at + s.path))(t)
		c := must(nfsclient.Dial(t.Context(), u, nil))(t)
		t.Cleanup(func() { _ = c.Close() }) // nothing is open
		if _, err := c.Lookup(t.Context(), s.path+"/none"); err == nil {
			t.Error("a file that does not exist")
		}
	}
	return s, "http://" + addrOf(s.statusL)
}

// crowd connects to the status n times, sends each time what a client begins with, and keeps the connections.
func crowd(t *testing.T, url string, n int, begin ...string) (list []*net.TCPConn) {
	t.Helper()
	for i := range n {
		c := must(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
		t.Cleanup(func() { c.Close() })
		_ = c.(*net.TCPConn).SetReadBuffer(4096) // little fits into the way of an answer
		if _, err := io.WriteString(c, begin[i%len(begin)]); err != nil && begin[i%len(begin)] == "" {
			t.Fatal(err)
		}
		list = append(list, c.(*net.TCPConn))
	}
	return list
}

// prompt fetches a page by a connection of its own, and returns how long it took.
func prompt(t *testing.T, url string) time.Duration {
	t.Helper()
	c := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	begun := time.Now()
	r := must(c.Get(url))(t)
	defer r.Body.Close()
	if _, err := io.Copy(io.Discard, r.Body); err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, r.Status, err)
	}
	return time.Since(begun)
}

// TestStatusCrowd: a thousand connections that send nothing, half a request, or read no answer, keep nobody from
// knowing whether the server lives. They are served by a few goroutines.
func TestStatusCrowd(t *testing.T) {
	_, url := watched(t)
	before := runtime.NumGoroutine()
	crowd(t, url, 1000, "", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: ", "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "G", "POST /debug/pprof/symbol HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n0x")
	var took []time.Duration
	for range 100 {
		took = append(took, prompt(t, url+"/healthz"), prompt(t, url+"/readyz"))
	}
	slices.Sort(took)
	t.Logf("median %v, 99%% %v, longest %v", took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
	if n := runtime.NumGoroutine() - before; n > 200 { // net/http has up to two for each connection
		t.Errorf("%d goroutines", n)
	}
	metrics := string(get(t, url+"/metrics", http.StatusOK))
	if strings.Contains(metrics, "nfsdemo_status_closed_total 0\n") || !strings.Contains(metrics, "nfsdemo_status_closed_total ") {
		t.Error("those that had to go were not counted")
	}
}

// TestStatusSlowReaders: clients that do not read their answers hold up others for a second.
func TestStatusSlowReaders(t *testing.T) {
	_, url := watched(t)
	crowd(t, url, 50, strings.Repeat("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 2000))
	for range 3 {
		t.Log(prompt(t, url+"/metrics"))
	}
}

// TestStatusHeader: a header has an end.
func TestStatusHeader(t *testing.T) {
	_, url := watched(t)
	c := crowd(t, url, 1, "GET /healthz HTTP/1.1\r\nX: "+strings.Repeat("x", 16<<10))[0]
	var b [40]byte
	if n, err := c.Read(b[:]); !strings.Contains(string(b[:n]), " 431 ") {
		t.Errorf("%q, %v", b[:n], err)
	}
}

// TestStatusProfiles: some profiles are taken at a time. A trace that nobody reads ends, since the runtime keeps what
// is not read.
func TestStatusProfiles(t *testing.T) {
	_, url := watched(t)
	const ask = "GET /debug/pprof/goroutine?seconds=100 HTTP/1.1\r\nHost: localhost\r\n\r\n"
	list := crowd(t, url, 2, ask)
	eventually(t, func() bool { return strings.Count(goroutines(), "net/http/pprof.handler.serveDeltaProfile(") == 2 }, "no profiles are taken")
	get(t, url+"/debug/pprof/goroutine", http.StatusServiceUnavailable)
	for _, c := range list {
		c.Close()
	}
	eventually(t, func() bool { return !strings.Contains(goroutines(), "serveDeltaProfile") }, "the profiles of clients that are gone go on")

	stop := make(chan struct{})
	defer close(stop)
	ping := make(chan struct{})
	for range 2 { // something to trace
		go func() {
			for {
				select {
				case ping <- struct{}{}:
				case <-ping:
				case <-stop:
					return
				}
			}
		}()
	}
	crowd(t, url, 1, "GET /debug/pprof/trace?seconds=100 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	eventually(t, func() bool { return strings.Contains(goroutines(), "net/http/pprof.Trace(") }, "no trace is taken")
	eventually(t, func() bool { return !strings.Contains(goroutines(), "net/http/pprof.Trace(") }, "a trace that nobody reads goes on")
}

// goroutines returns the stacks of all goroutines.
func goroutines() string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}

// TestStatus: /status and /metrics tell the counters.
func TestStatus(t *testing.T) {
	s, url := watched(t)
	var st ops.Report
	noErr(t, json.Unmarshal(get(t, url+"/status", http.StatusOK), &st))
	if st.Push == nil || st.Problems == nil || len(st.Exports) != 1 || st.Exports[0].Path != s.path || st.Addresses["push"] == "" || st.Ready != "" ||
		len(st.Clients) != 2 || len(st.Clients[0].Mounts) != 1 || st.Clients[0].Mounts[0] != s.path || len(st.Calls) == 0 {
		t.Errorf("%+v", st)
	}
	metrics := string(get(t, url+"/metrics", http.StatusOK))
	for _, want := range []string{
		"nfsdemo_push_appends_total 0", "nfsdemo_push_sessions 0", "nfsdemo_transport_drc_entries 0",
		"# TYPE nfsdemo_transport_calls_total counter", "# TYPE nfsdemo_push_logs gauge", "# TYPE process_resident_memory_bytes gauge",
		`nfsdemo_nfs_errors_total{procedure="LOOKUP",status="NFS3ERR_NOENT",transport="rdma"} 1`, "nfsdemo_ready 1",
		`nfsdemo_mounts_total{result="granted"} 2`,
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("no %q in %s", want, metrics)
		}
	}
	help := make(map[string]string)
	for line := range strings.Lines(metrics) {
		what, ok := strings.CutPrefix(line, "# HELP nfsdemo_")
		if !ok || !strings.HasPrefix(what, "transport_") && !strings.HasPrefix(what, "push_") {
			continue
		}
		name, text, _ := strings.Cut(strings.TrimSpace(what), " ")
		help[strings.TrimSuffix(name, "_total")] = text
	}
	if !maps.Equal(help, metricsHelp) {
		t.Errorf("metrics without help, or help without metrics: %v, want %v", help, metricsHelp)
	}
}

// TestMetricsLint: the metrics follow the conventions of Prometheus.
func TestMetricsLint(t *testing.T) {
	_, url := watched(t)
	problems := must(promlint.New(bytes.NewReader(get(t, url+"/metrics", http.StatusOK))).Lint())(t)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestDashboard: every metric in the dashboard exists.
func TestDashboard(t *testing.T) {
	_, url := watched(t)
	metrics := string(get(t, url+"/metrics", http.StatusOK))
	text := must(os.ReadFile("../../docs/grafana-dashboard.json"))(t)
	var d struct {
		Title  string
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	noErr(t, json.Unmarshal(text, &d))
	name, n := regexp.MustCompile(`\b(?:nfsdemo|process|go)_[a-z0-9_]+`), 0
	for _, p := range d.Panels {
		for _, e := range p.Targets {
			for _, m := range name.FindAllString(e.Expr, -1) {
				n++
				if !strings.Contains(metrics, "\n"+m+" ") && !strings.Contains(metrics, "\n"+m+"{") {
					t.Errorf("panel %q: no metric %s", p.Title, m)
				}
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d metrics in %q", n, d.Title)
	}
}

// settled waits until so many exports are away.
func settled(t *testing.T, s *service, away int) {
	t.Helper()
	eventually(t, func() bool { s.set.look(); return len(s.set.away()) == away }, "not so many exports are away: ", away)
}

// TestReady: a server without its export, or one that stops, says that it is not ready, but alive.
func TestReady(t *testing.T) {
	s, url := watched(t)
	if b := get(t, url+"/readyz", http.StatusOK); string(b) != "ready\n" {
		t.Errorf("%s", b)
	}
	noErr(t, os.Rename(s.path, s.path+".old"))
	settled(t, s, 1)
	if b := get(t, url+"/readyz", http.StatusServiceUnavailable); string(b) != "the export "+s.path+" cannot be used: no such directory: make it first\n" {
		t.Errorf("%s", b)
	}
	var st ops.Report
	if err := json.Unmarshal(get(t, url+"/status.json", http.StatusOK), &st); err != nil || len(st.Problems) != 1 || st.Problems[0].Since.IsZero() {
		t.Errorf("%+v, %v", st.Problems, err)
	}
	if b := get(t, url+"/metrics", http.StatusOK); !bytes.Contains(b, []byte("nfsdemo_export_ready{export=\""+s.path+"\"} 0\n")) {
		t.Errorf("%s", b)
	}
	noErr(t, os.Rename(s.path+".old", s.path))
	settled(t, s, 0)
	get(t, url+"/readyz", http.StatusOK)
	s.status.stopping()
	if b := get(t, url+"/readyz", http.StatusServiceUnavailable); string(b) != "the server is stopping\n" {
		t.Errorf("%s", b)
	}
	if b := get(t, url+"/healthz", http.StatusOK); string(b) != "ok\n" {
		t.Errorf("%s", b)
	}
	if b := get(t, url+"/debug/pprof/goroutine?debug=1", http.StatusOK); !bytes.HasPrefix(b, []byte("goroutine profile:")) {
		t.Errorf("%.100s", b)
	}
}

// TestStatusPage opens the page in Chromium: what a person sees is there, and nothing from the network is
// taken for markup.
func TestStatusPage(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium here (apt-get install chromium)")
	}
	s, url := watched(t)
	r := command(t.Context(), "", "stat", "nfs+rdma://"+addrOf(s.rdma)+s.path+"/<script>document.title=1</script>")
	if r.status == 0 {
		t.Error(r.stdout)
	}
	noErr(t, os.Remove(s.path))
	settled(t, s, 1)
	cmd := exec.CommandContext(t.Context(), browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--user-data-dir="+t.TempDir(), "--dump-dom", url+"/")
	out := must(cmd.Output())(t)
	dom := string(out)
	for _, want := range []string{
		"<title>nfsdemo serve: not ready</title>", `<span id="state" class="bad">not ready</span>`, "cannot be used: no such directory: make it first",
		"<td>" + s.path + "</td><td>" + modeOf(&s.set.exports()[0]) + "</td>", "<td>" + addrOf(s.rdma) + "</td>", `<table id="clients">`,
		"<td>LOOKUP</td><td>rdma</td>", `<td>` + s.path + ` </td>`,
	} {
		if !strings.Contains(dom, want) {
			t.Errorf("no %s in\n%s", want, dom)
		}
	}
}

func get(t *testing.T, url string, want int) []byte {
	t.Helper()
	req := must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody))(t)
	tr := &http.Transport{DisableKeepAlives: true}
	res := must(tr.RoundTrip(req))(t)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != want {
		t.Fatal(res.Status, err, string(b))
	}
	return b
}

// TestControlLocks: the administrator sees all to whom a directory is exported, and how; who holds a lock, of which file, and
// takes it. One that is kicked loses its connection.
func TestControlLocks(t *testing.T) {
	localRPCBind(t)
	dir, state := t.TempDir(), t.TempDir()
	noErr(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o666))
	list := one(dir)
	for _, who := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "127.0.0.1"} {
		list[0].Clients = append(list[0].Clients, server.Client{Nets: []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr(who), 32)}, AnonUID: 7, Secure: true})
	}
	s := started(t, &serviceConfig{
		exports: list, state: state, tcp: "127.0.0.1:0", register: true, locks: locksAuto, config: new(transport.Config),
	})
	if c := s.srv.Config; c.Duplicates.Owner == nil || c.Limits.Memory >= transport.DefaultMemory {
		t.Errorf("with locks the transport is told nothing of users: owners %v, %d octets", c.Duplicates.Owner != nil, c.Limits.Memory)
	}
	c := must(transport.DialStream(t.Context(), "tcp", addrOf(s.tcp), nil))(t)
	defer c.Close() //nolint:errcheck // the server closes it
	call := func(prog, vers, proc uint32, args []byte) *xdr.Decoder {
		t.Helper()
		var reply rpc.Reply
		defer reply.Release()
		noErr(t, c.Do(t.Context(), &rpc.Call{Prog: prog, Vers: vers, Proc: proc, Cred: nfsclient.ProcessCred().Auth(), Args: args, MaxResults: 4096}, &reply))
		noErr(t, reply.Header.Err())
		d := xdr.NewDecoder(append([]byte(nil), reply.Results...))
		return &d
	}
	root := must(nfsclient.NewMounter(c, nfsclient.ProcessCred()).Mount(t.Context(), s.path))(t)
	var found nfs3.LookupRes
	noErr(t, xdr.Decode(call(nfs3.Program, nfs3.Version, uint32(nfs3.ProcLookup), xdr.Encode(nil, &nfs3.LookupArgs{Dir: root, Name: "f"})), &found).Err())
	lock := func() lockd.Status {
		args := lockd.LockArgs{Exclusive: true, Lock: lockd.Lock{Caller: []byte("client\x1b7"), File: found.Handle, Owner: []byte("7"), ID: 7, Offset: 10, Len: 5}}
		var res lockd.Res
		noErr(t, lockd.Parse(call(lockd.NLMProgram, lockd.Version4, uint32(lockd.ProcLock), lockd.Append(nil, &args, lockd.Version4)), &res, lockd.Version4))
		return res.Status
	}
	if st := lock(); st != lockd.Granted {
		t.Fatal(st)
	}
	exports := func(args ...string) result {
		return command(t.Context(), "", append([]string{"exports", "--control", filepath.Join(state, "control")}, args...)...)
	}
	line := regexp.MustCompile(`(?m)^  127\.0\.0\.1 client\?7 process 7 exclusive octets 10-14 inode \d\d+ of ` + regexp.QuoteMeta(s.path) + `$`)
	if r := exports(); r.status != exitOK || !line.MatchString(r.stdout) || !strings.Contains(r.stdout, "\nlocks on\n") ||
		!strings.Contains(r.stdout, "\n  read-write, root_squash, anonuid=7 for 127.0.0.1/32\n") {
		t.Errorf("%+v", r)
	}
	if r := exports("--free-locks", "192.0.2.1"); r.status != exitFailed || !strings.Contains(r.stderr, "no client with the address or the name 192.0.2.1") {
		t.Errorf("%+v", r)
	}
	if r := exports("--free-locks", "127.0.0.1"); r.status != exitOK {
		t.Errorf("%+v", r)
	}
	if r := exports(); r.status != exitOK || line.MatchString(r.stdout) {
		t.Errorf("%+v", r)
	}
	if st := lock(); st != lockd.Granted { // it may lock again
		t.Error(st)
	}
	if r := exports("--kick", "localhost"); r.status != exitOK || !strings.HasPrefix(r.stdout, "localhost: 1 connections closed, 1 mounts forgotten") {
		t.Errorf("%+v", r)
	}
	var reply rpc.Reply
	if err := c.Do(t.Context(), &rpc.Call{Prog: nfs3.Program, Vers: nfs3.Version}, &reply); err == nil {
		t.Error("a connection that was kicked goes on")
	}
}
