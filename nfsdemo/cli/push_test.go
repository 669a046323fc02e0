package cli

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/transport"
)

// TestPushFlags: flags that contradict each other are refused, and the error says what to do.
func TestPushFlags(t *testing.T) {
	dir := t.TempDir()
	export, logs := filepath.Join(dir, "export"), filepath.Join(dir, "logs")
	if err := os.MkdirAll(filepath.Join(export, "in"), 0o700); err != nil {
		t.Fatal(err)
	}
	base := serviceConfig{export: export, rdma: "127.0.0.1:0", push: pushConfig{dir: logs, recall: 1}}
	for want, change := range map[string]func(*serviceConfig){
		"":                                 func(*serviceConfig) {},
		"inside the export":                func(c *serviceConfig) { c.push.dir = filepath.Join(export, "in", "new") },
		"outlive the files":                func(c *serviceConfig) { c.memory = true },
		"--read-only":                      func(c *serviceConfig) { c.readOnly = true },
		"needs --listen":                   func(c *serviceConfig) { c.rdma = "" },
		"want a positive time":             func(c *serviceConfig) { c.push.recall = 0 },
		"--status \"x\"":                   func(c *serviceConfig) { c.push.status = "x" },
		"--push-listen needs":              func(c *serviceConfig) { c.push.dir, c.push.listen = "", "127.0.0.1:0" },
		"--push-recall needs":              func(c *serviceConfig) { c.push.dir = "" },
		"--client-push-logs -2: want 1 to": func(c *serviceConfig) { c.push.limits.clientLogs = -2 },
		"need --push-log DIR":              func(c *serviceConfig) { c.push.dir, c.push.limits.space = "", 1 },
		"not a directory":                  func(c *serviceConfig) { c.push.dir = "/dev/null/logs" },
	} {
		cfg := base
		cfg.config = &transport.Config{}
		change(&cfg)
		switch err := cfg.push.check(&cfg); {
		case want == "" && (err != nil || cfg.config.BackwardCredits == 0):
			t.Error(err, cfg.config.BackwardCredits)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%v; want %q", err, want)
		}
	}
	if st, err := os.Stat(logs); err != nil || st.Mode().Perm() != 0o700 {
		t.Error(st, err)
	}
}

// TestStatus: /status and /metrics tell the counters.
func TestStatus(t *testing.T) {
	dir := t.TempDir()
	export := filepath.Join(dir, "export")
	if err := os.Mkdir(export, 0o700); err != nil {
		t.Fatal(err)
	}
	cfg := &serviceConfig{
		export: export, rdma: "127.0.0.1:0", config: &transport.Config{},
		push: pushConfig{dir: filepath.Join(dir, "logs"), recall: 1e9, status: "127.0.0.1:0"},
	}
	s := started(t, cfg)
	commits, status := s.push.addrs()
	if commits == "" {
		t.Error("no address for commit connections")
	}
	var st statusJSON
	if err := json.Unmarshal(get(t, "http://"+status+"/status"), &st); err != nil || st.Push == nil || st.Problems == nil || st.Export == "" {
		t.Errorf("%+v %v", st, err)
	}
	metrics := string(get(t, "http://"+status+"/metrics"))
	for _, want := range []string{"nfsdemo_push_records 0", "nfsdemo_push_logs_sessions 0", "nfsdemo_push_blocked_now 0", "nfsdemo_transport_drc_entries 0"} {
		if !strings.Contains(metrics, "\n"+want+"\n") {
			t.Errorf("no %q in %s", want, metrics)
		}
	}
	help := make(map[string]string)
	for line := range strings.Lines(metrics) {
		if what, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, text, _ := strings.Cut(strings.TrimSpace(what), " ")
			help[strings.TrimPrefix(name, "nfsdemo_")] = text
		}
	}
	if !maps.Equal(help, metricsHelp) {
		t.Errorf("metrics without help, or help without metrics: %v, want %v", help, metricsHelp)
	}
	for _, want := range []string{"# TYPE nfsdemo_transport_calls counter", "# TYPE nfsdemo_push_behind gauge"} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("no %q", want)
		}
	}
}

func get(t *testing.T, url string) []byte {
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
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res.Status, err)
	}
	return b
}
