package cli

import (
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
	noErr(t, os.MkdirAll(filepath.Join(export, "in"), 0o700))
	base := serviceConfig{exports: one(export), rdma: "127.0.0.1:0", push: pushConfig{dir: logs}}
	for want, change := range map[string]func(*serviceConfig){
		"":                                 func(*serviceConfig) {},
		"needs --listen":                   func(c *serviceConfig) { c.rdma = "" },
		"--push-listen needs":              func(c *serviceConfig) { c.push.dir, c.push.listen = "", "127.0.0.1:0" },
		"--client-push-logs -2: want 1 to": func(c *serviceConfig) { c.push.limits.clientLogs = -2 },
		"need --push-log DIR":              func(c *serviceConfig) { c.push.dir, c.push.limits.space = "", 1 },
		"not a directory":                  func(c *serviceConfig) { c.push.dir = "/dev/null/logs" },
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
