package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/push"
)

// startPush serves an export that takes push-mode writes.
func startPush(t *testing.T, export, logs string) *service {
	t.Helper()
	cfg := &serviceConfig{
		exports: one(export), rdma: "127.0.0.1:0", config: &transport.Config{},
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
func pushClient(t *testing.T, s *service, secret push.Secret) *nfsclient.Client {
	t.Helper()
	u, err := nfsclient.ParseURL("nfs+rdma://" + addrOf(s.rdma) + s.path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := nfsclient.Dial(t.Context(), u, &nfsclient.Config{Push: &nfsclient.PushConfig{
		Log: "mine", Secret: secret,
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// heldUp serves an export with a log called mine, in which two records wait: the file of the first was removed
// at the server while the client pushed to it.
func heldUp(t *testing.T) (s *service, c *nfsclient.Client, secret push.Secret, export, logs string) {
	t.Helper()
	export, logs = t.TempDir(), filepath.Join(t.TempDir(), "logs")
	s = startPush(t, export, logs)
	secret = push.NewSecret()
	c = pushClient(t, s, secret)
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
	return s, c, secret, export, logs
}

// TestLogCat: the records that wait can be read while the server and the client run, and by tail until it is
// interrupted; a wrong secret is refused.
func TestLogCat(t *testing.T) {
	s, c, secret, _, _ := heldUp(t)
	defer c.Close()
	defer s.stop(context.Background()) //nolint:errcheck // another test looks at that
	url := "nfs+rdma://" + addrOf(s.rdma) + s.path
	files := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(files, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	right := file("right", fmt.Sprintf("log mine\nsecret %x\n", secret[:]))
	wrong := file("wrong", fmt.Sprintf("log mine\nsecret %032x\n", 1))
	for _, tt := range []struct {
		args   []string
		status int
		out    []string
		err    string
	}{
		{[]string{"cat", "--push-secret", right, url}, 0, []string{"SEQ  EPOCH   LENGTH  PAYLOAD\n         1      1 ", "\n         2      1 "}, ""},
		{[]string{"cat", "--push-secret", right, "--from", "2", "--json", url}, 0, []string{`{"seq":2,"epoch":1,"length":`}, ""},
		{[]string{"cat", "--push-secret", right, "--from", "3", url}, 0, nil, ""},
		{[]string{"cat", "--push-secret", wrong, url}, 1, nil, "refused"},
		{[]string{"cat", "--push-secret", file("empty", ""), url}, 1, nil, "empty: holds no secret"},
		{[]string{"cat", "--push-secret", filepath.Join(files, "none"), url}, 1, nil, "no such file"},
		{[]string{"cat", url}, 2, nil, "--push-secret FILE"},
	} {
		r := command(t.Context(), "", append([]string{"log"}, tt.args...)...)
		if r.status != tt.status || !strings.Contains(r.stderr, tt.err) || len(tt.out) == 0 && r.stdout != "" {
			t.Errorf("%v: status %d, %s\n%s", tt.args, r.status, r.stderr, r.stdout)
		}
		for _, want := range tt.out {
			if !strings.Contains(r.stdout, want) {
				t.Errorf("%v: no %q in\n%s", tt.args, want, r.stdout)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if r := command(ctx, "", "log", "tail", "--json", "--push-secret", right, url); strings.Count(r.stdout, "\n") != 2 || r.status == 0 {
		t.Errorf("tail: status %d, %s\n%s", r.status, r.stderr, r.stdout)
	}
}

// TestLogPush: a file that is removed at the server while a client pushes to it holds up what
// lies behind, until log push has shown what would be lost and lost it.
func TestLogPush(t *testing.T) {
	s, c, _, export, logs := heldUp(t)
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
