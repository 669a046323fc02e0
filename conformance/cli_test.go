package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

const pcaps = "testdata/pcaps/"

// runCommand calls run and returns what it printed.
func runCommand(t *testing.T, stdin io.Reader, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	status = run(args, stdin, &out, &err)
	return status, out.String(), err.String()
}

// checkExit runs the command and returns its output. The status is as wanted, and stderr one line
// that begins with stderr, or nothing.
func checkExit(t *testing.T, args []string, status int, stderr string) (stdout string) {
	t.Helper()
	got, stdout, line := runCommand(t, nil, args...)
	if got != status {
		t.Errorf("status %d, want %d", got, status)
	}
	if !strings.HasPrefix(line, stderr) || stderr == "" && line != "" || strings.Count(line, "\n") > 1 {
		t.Errorf("stderr %q, want one line %q", line, stderr)
	}
	return stdout
}

// exit is how a command ends.
type exit struct {
	name   string
	args   string
	status int
	stderr string // its beginning
}

// checkExits runs command with the args of each case. Only a help text shows examples.
func checkExits(t *testing.T, command string, cases []exit) {
	t.Helper()
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			stdout := checkExit(t, append([]string{command}, strings.Fields(tt.args)...), tt.status, tt.stderr)
			if tt.status == 0 != strings.Contains(stdout, "Examples:") {
				t.Errorf("stdout %q", stdout)
			}
		})
	}
}

func TestExitStatus(t *testing.T) {
	dir := t.TempDir()
	cut, hollow := filepath.Join(dir, "cut.pcap"), filepath.Join(dir, "hollow.pcap")
	b := must(os.ReadFile(pcaps + "a-rping.pcap"))(t)
	check(t, errors.Join(os.WriteFile(cut, b[:len(b)-7], 0o600), os.WriteFile(hollow, b[:24], 0o600)))
	for _, tt := range []struct {
		name   string
		args   []string
		status int
		stderr string
	}{
		{"help", []string{"decode", "--help"}, 0, ""},
		{"no command", nil, 0, ""},
		{"unknown command", []string{"decipher"}, 2, `conformance: unknown command "decipher": see conformance --help`},
		{"no file", []string{"decode"}, 2, "conformance: decode wants at least one file: see conformance decode --help"},
		{"unknown flag", []string{"decode", "--color", "x"}, 2, "conformance: unknown flag: --color (see conformance decode --help)"},
		{"bad ulp", []string{"decode", "--ulp", "smb", "x"}, 2, `conformance: --ulp "smb": want auto, rpcrdma or none`},
		{"no such file", []string{"decode", "nowhere.pcap"}, 1, "conformance: nowhere.pcap: "},
		{"not a capture", []string{"decode", "cli_test.go"}, 1, "conformance: cli_test.go: decode: not a pcap or pcapng file: "},
		{"damaged", []string{"decode", cut}, 1, "conformance: " + cut + ": decode: packet 534: "},
		{"nothing in it", []string{"decode", hollow}, 0, hollow + ": no connection to decode: conformance judge " + hollow + " says what there is"},
		{"well formed", []string{"decode", "--strict", "--errors", pcaps + "b-nfs3-ops.pcap"}, 0, ""},
		{"illegal frames", []string{"decode", pcaps + "d-mpa-bad.pcap"}, 0, ""},
		{"illegal frames, strict", []string{"decode", "--strict", pcaps + "d-mpa-bad.pcap"}, 3, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkExit(t, tt.args, tt.status, tt.stderr)
		})
	}
}

// TestExamples: every command shows how it is used.
func TestHelpExamples(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if !c.Hidden && !c.HasSubCommands() && c.Example == "" {
			t.Errorf("%s has no examples", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot())
}

func TestLines(t *testing.T) {
	f := must(os.Open(pcaps + "b-nfs3-ops.pcap"))(t)
	defer f.Close()
	_, out, _ := runCommand(t, f, "decode", "-")
	for _, want := range []string{
		"    1   0.000000 c1 > open 10.0.2.15:55870 to 10.0.2.15:20049\n",
		"c1 > FPDU ulpdulength=170 crc=off Send qn=0 msn=13 mo=0 len=152 last | RDMA_MSG xid=0x9f02ce3b credits=128 " +
			"write{0x30080401 4096@0x9f02ce3b08cb2000} | call NFSv3 READ fh=0x18a2c7af offset=0 count=4096\n",
		"inval_stag=30080401 len=180 last | RDMA_MSG xid=0x9f02ce3b credits=64 write{0x30080401 6@0x9f02ce3b08cb2000} " +
			"| reply NFSv3 READ NFS3_OK count=6 eof=true (call in 39)\n",
		"| RDMA_NOMSG xid=0x9c02ce3b credits=64 reply{0x024b7301 124@0x9c02ce3b0a04e000; 0x48d19a01 908@0x9c02ce3b08837000; " +
			"0xa33be701 0@0x9c02ce3b0a04e07c} | reply NFSv3 READDIRPLUS NFS3_OK (call in 28)\n",
		"reply NFSv3 LOOKUP NFS3ERR_NOENT",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no line %q", want)
		}
	}
}

func TestErrorsOnly(t *testing.T) {
	_, out, _ := runCommand(t, nil, "decode", "--errors", pcaps+"d-mpa-bad.pcap")
	for line := range strings.Lines(out) {
		if !strings.Contains(line, " !! ") {
			t.Errorf("a line without an error: %s", line)
		}
	}
	if !strings.Contains(out, "crc=bad") {
		t.Error("the bad CRC is missing")
	}
}

func TestJSON(t *testing.T) {
	_, out, _ := runCommand(t, nil, "decode", "--json", pcaps+"b-nfs3-ops.pcap")
	reads := 0
	for line := range strings.Lines(out) {
		var ev struct {
			Frame int `json:"frame"`
			RPC   struct {
				Procedure, MsgTyp string
			} `json:"rpc"`
		}
		if err := json.Unmarshal([]byte(line), &ev); err != nil || ev.Frame == 0 {
			t.Fatalf("%v: %s", err, line)
		}
		if ev.RPC.Procedure == "NFSv3 READ" && ev.RPC.MsgTyp == "call" {
			reads++
		}
	}
	if reads != 3 {
		t.Errorf("%d READ calls, want 3", reads)
	}
}

func TestCounts(t *testing.T) {
	_, out, _ := runCommand(t, nil, "decode", "--counts", pcaps+"b-nfs3-ops.pcap", pcaps+"a-rping.pcap")
	for _, want := range []string{"== " + pcaps + "a-rping.pcap\n", "opcode.0x03      125\n", "chunk.reply      14\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	_, out, _ = runCommand(t, nil, "decode", "--counts", "--json", pcaps+"b-nfs3-ops.pcap")
	var got struct {
		File   string
		Counts map[string]int
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Counts["msg_type.1"] != 7 {
		t.Errorf("%v: %s", err, out)
	}
}

// TestFullOutput: what standard output did not take is an error, of every command.
func TestFullOutput(t *testing.T) {
	for _, args := range [][]string{
		{"--help"}, {"judge", cleanPcap}, {"judge", "--json", cleanPcap}, {"judge", "--explain", "all"}, {"decode", cleanPcap}, {"decode", "--counts", cleanPcap},
	} {
		var stderr strings.Builder
		status := run(args, nil, noRoom{}, &stderr)
		if status != exitFailed || !strings.Contains(stderr.String(), errNoRoom.Error()) {
			t.Errorf("%v: status %d, stderr %q; want 1 and %v", args, status, stderr.String(), errNoRoom)
		}
	}
}

// noRoom is a full disk.
type noRoom struct{}

var errNoRoom = errors.New("no room")

func (noRoom) Write([]byte) (int, error) { return 0, errNoRoom }

// TestMatrix: the page is written, with a column for each peer; command lines that cannot work are refused.
func TestMatrixCommand(t *testing.T) {
	addr, dir := probed(t), filepath.Join(t.TempDir(), "out")
	status, stdout, stderr := runCommand(t, nil, "matrix", "--server", "ours="+addr, "--about", "ours=a test", "--behind", addr,
		"--client", "nothing=true", "--only", "^(mpa/wrong-key|client/crc)$", dir)
	if status != 0 || stderr != "" || stdout != "ours: 1 ok, 0 tolerated, 0 fail\nnothing: 1 ok, 0 tolerated, 0 fail\n" {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	b := must(os.ReadFile(filepath.Join(dir, "index.html")))(t)
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
		if status, _, stderr := runCommand(t, nil, append([]string{"matrix"}, strings.Fields(args)...)...); status != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %q, want 2 and %q", args, status, stderr, want)
		}
	}
	if status, _, stderr = runCommand(t, nil, "matrix", dir); status != 0 || stderr != "" {
		t.Errorf("the page again: status %d: %s", status, stderr)
	}
	out := filepath.Join(t.TempDir(), "gone")
	status, _, stderr = runCommand(t, nil, "matrix", "--server", "gone=127.0.0.1:1", "--only", "^mpa/wrong-key$", out)
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
		status, stdout, stderr := runCommand(t, nil, "probe", "--listen", "127.0.0.1:0", "--server", addr, "--only", "^client/crc$", "--timeout", "1s",
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
		if status, _, stderr := runCommand(t, nil, append([]string{"probe"}, strings.Fields(args)...)...); status != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %q, want 2 and %q", args, status, stderr, want)
		}
	}
}
