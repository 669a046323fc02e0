package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stag-rdma/stag/nfsdemo/internal/status"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/transport"
)

// watched is a service with --status that a client uses, and the URL of its status.
func watched(t *testing.T) (s *service, url string) {
	t.Helper()
	dir := t.TempDir()
	export := filepath.Join(dir, "export")
	if err := os.Mkdir(export, 0o700); err != nil {
		t.Fatal(err)
	}
	s = started(t, &serviceConfig{
		exports: one(export), rdma: "127.0.0.1:0", tcp: "127.0.0.1:0", config: &transport.Config{},
		push: pushConfig{dir: filepath.Join(dir, "logs"), recall: 1e9}, status: "127.0.0.1:0",
	})
	for _, at := range []string{"nfs+rdma://" + addrOf(s.rdma), "nfs://" + addrOf(s.tcp)} {
		u, err := nfsclient.ParseURL(at + s.path)
		if err != nil {
			t.Fatal(err)
		}
		c, err := nfsclient.Dial(t.Context(), u, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() }) // nothing is open
		if _, err := c.Lookup(t.Context(), s.path+"/none"); err == nil {
			t.Error("a file that does not exist")
		}
	}
	return s, "http://" + s.status.addr()
}

// TestStatusConnections: however many connect to the status and take no answers, the server reads from a few.
func TestStatusConnections(t *testing.T) {
	const conns, most, served = 100, 16, "nfsdemo_ready 1\n"
	_, url := watched(t)
	addr := strings.TrimPrefix(url, "http://")
	before := runtime.NumGoroutine()
	var list []net.Conn
	for range conns {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
		if _, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range list[:most] { // those that are served
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if n := runtime.NumGoroutine() - before; n > 2*most+most/2 { // net/http has up to two for each
		t.Errorf("%d goroutines for %d connections", n, conns)
	}
	for _, c := range list {
		c.Close()
	}
	if page := get(t, url+"/metrics", http.StatusOK); !strings.Contains(string(page), served) {
		t.Errorf("%s", page)
	}
}

// TestStatus: /status and /metrics tell the counters.
func TestStatus(t *testing.T) {
	s, url := watched(t)
	var st status.Report
	if err := json.Unmarshal(get(t, url+"/status", http.StatusOK), &st); err != nil {
		t.Fatal(err)
	}
	if st.Push == nil || st.Problems == nil || len(st.Exports) != 1 || st.Exports[0].Path != s.path || st.Addresses["push"] == "" || st.Ready != "" ||
		len(st.Clients) != 2 || len(st.Clients[0].Mounts) != 1 || st.Clients[0].Mounts[0] != s.path || len(st.Calls) == 0 {
		t.Errorf("%+v", st)
	}
	metrics := string(get(t, url+"/metrics", http.StatusOK))
	for _, want := range []string{
		"nfsdemo_push_records_total 0", "nfsdemo_push_logs_sessions 0", "nfsdemo_push_blocked_now 0", "nfsdemo_transport_drc_entries 0",
		"# TYPE nfsdemo_transport_calls_total counter", "# TYPE nfsdemo_push_behind gauge", "# TYPE process_resident_memory_bytes gauge",
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
	problems, err := promlint.New(bytes.NewReader(get(t, url+"/metrics", http.StatusOK))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestDashboard: every metric in the dashboard exists.
func TestDashboard(t *testing.T) {
	_, url := watched(t)
	metrics := string(get(t, url+"/metrics", http.StatusOK))
	text, err := os.ReadFile("../../docs/grafana-dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Title  string
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
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

// TestReady: a server without its export, or one that stops, says that it is not ready, but alive.
func TestReady(t *testing.T) {
	s, url := watched(t)
	if b := get(t, url+"/readyz", http.StatusOK); string(b) != "ready\n" {
		t.Errorf("%s", b)
	}
	s.alive.set(os.ErrPermission)
	if b := get(t, url+"/readyz", http.StatusServiceUnavailable); string(b) != "the export "+s.path+" cannot be used: permission denied\n" {
		t.Errorf("%s", b)
	}
	var st status.Report
	if err := json.Unmarshal(get(t, url+"/status.json", http.StatusOK), &st); err != nil || len(st.Problems) != 1 || st.Problems[0].Since.IsZero() {
		t.Errorf("%+v, %v", st.Problems, err)
	}
	s.alive.set(nil)
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
	if err := os.Remove(s.path); err != nil {
		t.Fatal(err)
	}
	lost := s.usable(t.Context()) // as the service finds by itself, every ten seconds
	s.alive.set(lost)
	cmd := exec.CommandContext(t.Context(), browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--user-data-dir="+t.TempDir(), "--dump-dom", url+"/")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	dom := string(out)
	for _, want := range []string{
		"<title>nfsdemo serve: not ready</title>", `<span id="state" class="bad">not ready</span>`, "cannot be used: " + lost.Error(),
		"<td>" + s.path + "</td><td>" + modeOf(&(*s.exports.Load())[0]) + "</td>", "<td>" + addrOf(s.rdma) + "</td>", `<table id="clients">`,
		"<td>LOOKUP</td><td>rdma</td>", `<td>` + s.path + ` </td>`,
	} {
		if !strings.Contains(dom, want) {
			t.Errorf("no %s in\n%s", want, dom)
		}
	}
}

func get(t *testing.T, url string, want int) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	res, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != want {
		t.Fatal(res.Status, err, string(b))
	}
	return b
}
