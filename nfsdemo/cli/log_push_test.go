package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/push"
)

// startPush serves an export that takes push-mode writes.
func startPush(t *testing.T, export, logs string) *service {
	t.Helper()
	cfg := &serviceConfig{
		export: export, squash: server.SquashNone, rdma: "127.0.0.1:0", config: &transport.Config{},
		push: pushConfig{dir: logs, recall: 1e9},
	}
	if err := cfg.push.check(cfg); err != nil {
		t.Fatal(err)
	}
	s, err := newService(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// pushClient returns a client of s that pushes to a log called mine.
func pushClient(t *testing.T, s *service) *nfsclient.Client {
	t.Helper()
	u, err := nfsclient.ParseURL("nfs+rdma://" + addrOf(s.rdma) + s.path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := nfsclient.Dial(t.Context(), u, &nfsclient.Config{Push: &nfsclient.PushConfig{
		Log: "mine", Keep: func(push.Secret) error { return nil },
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestLogPush: a file that is removed at the server while a client pushes to it holds up what
// lies behind, until log push has shown what would be lost and lost it.
func TestLogPush(t *testing.T) {
	export, logs := t.TempDir(), filepath.Join(t.TempDir(), "logs")
	s := startPush(t, export, logs)
	c := pushClient(t, s)
	for _, name := range []string{"gone", "kept"} {
		n, err := c.Create(t.Context(), c.Root(), name, 0o644, true)
		if err != nil {
			t.Fatal(err)
		}
		f, err := c.OpenPush(t.Context(), n, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if name == "gone" {
			if err := os.Remove(filepath.Join(export, name)); err != nil {
				t.Fatal(err)
			}
		}
		if _, level, err := f.WriteAt(t.Context(), []byte("data of "+name), 5); err != nil {
			t.Fatal(level, err)
		}
	}
	run := func(status int, args ...string) result {
		t.Helper()
		r := command(t.Context(), "", append([]string{"log", "push"}, args...)...)
		if r.status != status {
			t.Errorf("%v: %d, %s", args, r.status, r.stderr)
		}
		return r
	}
	says := func(text, want string) {
		t.Helper()
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	says(run(1, logs).stderr, "a server has it open: stop it first")
	c.Close() //nolint:errcheck // as if it were killed
	if err := s.stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	out := run(0, logs).stdout
	says(out, "mine                      1        1            5       12  ")
	says(out, "mine                      2        2            5       12  ")
	says(run(0, "--json", logs).stdout, `{"log":"mine","record":1,"lease":1,"file":"`)
	r := run(0, logs, "--discard", "1")
	says(r.stderr, "1 record, 12 octets of data would be lost; use --force to discard them")
	if strings.Count(r.stdout, "\n") != 2 || run(0, logs).stdout != out {
		t.Errorf("more than lease 1, or discarded without --force:\n%s", r.stdout)
	}
	says(run(1, logs, "--discard", "3", "--force").stderr, "no record waits under lease 3")
	says(run(2, logs, "--force").stderr, "--force needs --discard")
	says(run(2, logs, "--discard", "0").stderr, "want the number of a lease")
	says(run(1, t.TempDir()).stderr, "no push logs here")
	says(run(0, logs, "--discard", "1", "--force").stderr, "1 record, 12 octets of data will not be written")
	says(run(0, logs).stdout, "12  discarded")
	if err := startPush(t, export, logs).stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if out := run(0, logs).stdout; out != "" {
		t.Errorf("waits still:\n%s", out)
	}
	if b, err := os.ReadFile(filepath.Join(export, "kept")); string(b) != "\x00\x00\x00\x00\x00data of kept" {
		t.Errorf("%q, %v", b, err)
	}
}
