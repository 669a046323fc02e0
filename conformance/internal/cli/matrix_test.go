package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMatrix: the page is written, with a column for each peer; command lines that cannot work are refused.
func TestMatrix(t *testing.T) {
	addr, dir := probed(t), filepath.Join(t.TempDir(), "out")
	status, stdout, stderr := run(t, nil, "matrix", "--server", "ours="+addr, "--about", "ours=a test", "--behind", addr,
		"--client", "nothing=true", "--only", "^(mpa/wrong-key|client/crc)$", dir)
	if status != 0 || stderr != "" || stdout != "ours: 1 ok, 0 tolerated, 0 fail\nnothing: 1 ok, 0 tolerated, 0 fail\n" {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	b, err := os.ReadFile(filepath.Join(dir, "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a test", `id="ours-mpa-wrong-key"`, `id="nothing-client-crc"`, "not reached"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %q in the page", want)
		}
	}
	for args, want := range map[string]string{
		t.TempDir():                    "has no column: name a peer with --server or --client",
		"--server a/b=c x":             "a name has letters, digits, - and . only",
		"--client a=true x":            "--client wants --behind HOST:PORT",
		"--server a x":                 `"a": want a name of its own`,
		"--server a=b --server a=c x":  `"a=c": want a name of its own`,
		"--server a=127.0.0.1:1":       "matrix wants the directory for the page",
		"--server a=127.0.0.1:1 x y":   `unexpected argument "y"`,
		"--server a=b:1 --only ( x":    `--only "("`,
		"--server a=b:1 --skip ( nope": `--skip "("`,
	} {
		if status, _, stderr := run(t, nil, append([]string{"matrix"}, strings.Fields(args)...)...); status != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %q, want 2 and %q", args, status, stderr, want)
		}
	}
	if status, _, stderr = run(t, nil, "matrix", dir); status != 0 || stderr != "" {
		t.Errorf("the page again: status %d: %s", status, stderr)
	}
	out := filepath.Join(t.TempDir(), "gone")
	status, _, stderr = run(t, nil, "matrix", "--server", "gone=127.0.0.1:1", "--only", "^mpa/wrong-key$", out)
	if b, _ := os.ReadFile(filepath.Join(out, "index.html")); status != 1 || !strings.Contains(stderr, "gone: no RPC-over-RDMA server") || !strings.Contains(string(b), "ended early") {
		t.Errorf("status %d, %q, %.200s", status, stderr, b)
	}
}

// TestProbeListen: clients are run by a shell command, and what they do is judged.
func TestProbeListen(t *testing.T) {
	addr := probed(t)
	for _, tt := range []struct {
		run    string
		status int
		says   string
	}{
		{"true", 0, "not reached"},
		{`test -n "$STAG_PORT" && test "$STAG_ADDRESS" = "$STAG_HOST:$STAG_PORT"`, 0, "not reached"},
		{"false", 1, "the client fails with a good server: exit status 1"},
		{`echo x >>%; test "$(wc -l <%)" != 2 || kill -SEGV $$`, 1, "it crashed"},
		{`echo x >>%; test "$(wc -l <%)" != 2 || sleep 60`, 1, "it had not ended after 1s"},
	} {
		counter := filepath.Join(t.TempDir(), "n")
		status, stdout, stderr := run(t, nil, "probe", "--listen", "127.0.0.1:0", "--server", addr, "--only", "^client/crc$", "--timeout", "1s",
			"--run", strings.ReplaceAll(tt.run, "%", counter))
		if status != tt.status || !strings.Contains(stdout+stderr, tt.says) {
			t.Errorf("%s: status %d, want %d and %q:\n%s%s", tt.run, status, tt.status, tt.says, stdout, stderr)
		}
	}
	for args, want := range map[string]string{
		"--listen 127.0.0.1:0":          "--listen wants --server HOST:PORT",
		"--server a:1 b:2":              "--server and --run are about --listen",
		"--listen a:1 --server b:2 c:3": "unexpected argument",
	} {
		if status, _, stderr := run(t, nil, append([]string{"probe"}, strings.Fields(args)...)...); status != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %q, want 2 and %q", args, status, stderr, want)
		}
	}
}
