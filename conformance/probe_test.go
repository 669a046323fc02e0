package main

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/probe"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

func TestProbeExitStatus(t *testing.T) {
	for _, tt := range []struct {
		name   string
		args   string
		status int
		stderr string
	}{
		{"help", "--help", 0, ""},
		{"no address", "", 2, "conformance: probe wants the server's HOST:PORT: see conformance probe --help"},
		{"two addresses", "a:1 b:1", 2, `conformance: unexpected argument "b:1": see conformance probe --help`},
		{"list with an address", "--list a:1", 2, `conformance: unexpected argument "a:1": see conformance probe --help`},
		{"no port", "localhost", 2, `conformance: "localhost" is not an address: write host:port, for example 127.0.0.1:20049`},
		{"timeout", "--timeout 0s a:1", 2, "conformance: --timeout 0s, --quiet 150ms: want more than 0"},
		{"no regexp", "--only ( a:1", 2, `conformance: --only "(": error parsing regexp`},
		{"no such case", "--only nix a:1", 2, `conformance: --only "nix" --skip "": no case has such a name: see conformance probe --list`},
		{"all left out", "--skip . a:1", 2, `conformance: --only "" --skip ".": no case has such a name: see conformance probe --list`},
		{"no regexp to skip", "--skip ( a:1", 2, `conformance: --skip "(": error parsing regexp`},
		{"no process", "--pid 999999999 a:1", 2, "conformance: --pid 999999999: "},
		{"no clients", "--clients 0 a:1", 2, "conformance: --clients 0, --pid 0: want more than 0"},
		{"nobody there", "127.0.0.1:1", 1, "conformance: 127.0.0.1:1: no RPC-over-RDMA server answers: dial tcp 127.0.0.1:1: "},
		{"nowhere to record", "--write /nowhere/x.pcapng 127.0.0.1:1", 1, "conformance: open /nowhere/x.pcapng: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, _, stderr := runCommand(t, nil, append([]string{"probe"}, strings.Fields(tt.args)...)...)
			if status != tt.status {
				t.Errorf("status %d, want %d", status, tt.status)
			}
			if !strings.HasPrefix(stderr, tt.stderr) || tt.stderr == "" && stderr != "" || strings.Count(stderr, "\n") > 1 {
				t.Errorf("stderr %q, want one line %q", stderr, tt.stderr)
			}
		})
	}
}

// probed is a server of ours.
func probed(t *testing.T) string {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	srv := &transport.Server{Handler: rpc.HandlerFunc(func(context.Context, *rpc.Request, *rpc.Response) {})}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() { srv.Close(); <-done })
	return l.Addr().String()
}

func TestProbeSays(t *testing.T) {
	addr := probed(t)
	status, stdout, stderr := runCommand(t, nil, "probe", "--only", "^mpa/cut$", "--verbose", addr)
	want := `ok         mpa/cut                       closed 3
  sends  a Request that ends too early, then FIN
  wants  closed (RFC 5044 Section 8)
  nothing: ok: closed the connection
  inside the key: ok: closed the connection
  inside the private data: ok: closed the connection
` + addr + ": 1 cases, 3 connections: 1 ok, 0 tolerated, 0 fail\n"
	if status != 0 || stdout != want || stderr != "" {
		t.Errorf("%d %q %s", status, stderr, stdout)
	}
	file := filepath.Join(t.TempDir(), "probe.pcapng")
	status, stdout, stderr = runCommand(t, nil, "probe", "--only", "^mpa/cut$", "--json", "--write", file, addr)
	var r probe.Result
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || status != 0 || stderr != "" || r.Verdict != "ok" || len(r.Tries) != 3 || r.Rows[0] != 13 || r.Seconds <= 0 {
		t.Errorf("%d %q %+v %v", status, stderr, r, err)
	}
	status, stdout, _ = runCommand(t, nil, "decode", file)
	if status != 0 || !strings.Contains(stdout, "MPA Request") {
		t.Errorf("%d: the recording says %s", status, stdout)
	}
}

// TestProbeFails: a failure makes exit status 1, and is printed with what was sent and wanted.
func TestProbeFails(t *testing.T) {
	out := new(strings.Builder)
	o := &probeText{w: out}
	o.result(&probe.Result{
		Case: probe.Case{Name: "a/b", Rows: []int{3}, Rule: "RFC 1 Section 2", Sends: "x", Wants: "y"}, Verdict: "fails",
		Tries: []probe.Try{
			{Answer: "closed", Did: "closed the connection", Verdict: "ok"},
			{Name: "n", Answer: "closed", Did: "closed the connection", Verdict: "tolerated", Why: "w"},
			{Name: "m", Answer: "silence", Did: "silence", Verdict: "fails"},
		},
		Alive: []string{"dead"},
	})
	want := `FAILS      a/b                           closed 2, silence 1
  sends  x
  wants  y (RFC 1 Section 2)
  closed: w
  m: fails: silence
  afterwards: dead
`
	if out.String() != want || o.failed != 1 {
		t.Errorf("%s", out)
	}
}

// TestProbeExpect: with --expect the status is 0 if exactly the verdicts of the file come, and every line has a
// reason; --junit says the same to a CI system.
func TestProbeExpect(t *testing.T) {
	addr := probed(t)
	for _, tt := range []struct {
		file   string
		status int
		says   string
	}{
		{"# nothing\n", 0, "as "},
		{"mpa/wrong-key fails  # it always has\n", 1, "mpa/wrong-key ok, expected: fails"},
		{"mpa/depths tolerated # not played\n", 0, "as "},
		{"mpa/wrong-key fails\n", 2, "line 1: want the reason after #"},
		{"mpa/wrong-key ok # so what\n", 2, "line 1: want a case, then fails or tolerated"},
		{"mpa/nix fails # x\n", 2, "line 1: no case mpa/nix"},
	} {
		dir := t.TempDir()
		name, junit := filepath.Join(dir, "x.expect"), filepath.Join(dir, "x.xml")
		check(t, os.WriteFile(name, []byte(tt.file), 0o600))
		status, stdout, stderr := runCommand(t, nil, "probe", "--only", "^mpa/wrong-key$", "--expect", name, "--junit", junit, addr)
		if status != tt.status || !strings.Contains(stdout+stderr, tt.says) {
			t.Errorf("%q: status %d, want %d and %q:\n%s%s", tt.file, status, tt.status, tt.says, stdout, stderr)
		}
		if tt.status == 2 {
			continue
		}
		b := must(os.ReadFile(junit))(t)
		var s junitSuite
		if err := xml.Unmarshal(b, &s); err != nil || s.Tests != 1 || s.Failures != tt.status || len(s.Cases) != 1 || s.Cases[0].Name != "wrong-key" ||
			s.Time <= 0 || s.Cases[0].Time != s.Time || s.Cases[0].Rule.Value != "RFC 5044 Section 7.1.2" {
			t.Errorf("%q: %v: %s", tt.file, err, b)
		}
	}
}

// TestLinuxExpect: the files of --expect for knfsd say what the matrix has found, with a reason for each case.
func TestLinuxExpect(t *testing.T) {
	files, err := filepath.Glob("linux/knfsd-*.expect")
	if err != nil || len(files) == 0 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, name := range files {
		b, err := os.ReadFile(filepath.Join("testdata/matrix", strings.TrimSuffix(filepath.Base(name), ".expect")+".json"))
		check(t, err)
		var column struct {
			Cells []struct{ Case, Verdict string }
		}
		check(t, json.Unmarshal(b, &column))
		got := make(map[string]string)
		for _, c := range column.Cells {
			got[c.Case] = c.Verdict
		}
		want := must(readProbeExpect(name, func(c string) bool { return got[c] != "" }))(t)
		var diff strings.Builder
		if want.diff(&diff, name, got) || len(got) < 80 {
			t.Errorf("%d cells: %s", len(got), &diff)
		}
	}
}

// TestJUnitName: a report that cannot be written is refused before anything is played.
func TestJUnitName(t *testing.T) {
	status, stdout, stderr := runCommand(t, nil, "probe", "--only", "^mpa/wrong-key$", "--junit", filepath.Join(t.TempDir(), "none", "x.xml"), probed(t))
	if status != 2 || stdout != "" || !strings.Contains(stderr, "x.xml: no such file or directory") {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
}
