package cli

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

const pcaps = "../../testdata/pcaps/"

// run calls Main and returns what it printed.
func run(t *testing.T, stdin io.Reader, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	status = Main(args, stdin, &out, &err)
	return status, out.String(), err.String()
}

// checkExit runs the command and returns its output. The status is as wanted, and stderr one line
// that begins with stderr, or nothing.
func checkExit(t *testing.T, args []string, status int, stderr string) (stdout string) {
	t.Helper()
	got, stdout, line := run(t, nil, args...)
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
	b, err := os.ReadFile(pcaps + "a-rping.pcap")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(cut, b[:len(b)-7], 0o600), os.WriteFile(hollow, b[:24], 0o600)); err != nil {
		t.Fatal(err)
	}
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
func TestExamples(t *testing.T) {
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
	f, err := os.Open(pcaps + "b-nfs3-ops.pcap")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, out, _ := run(t, f, "decode", "-")
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
	_, out, _ := run(t, nil, "decode", "--errors", pcaps+"d-mpa-bad.pcap")
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
	_, out, _ := run(t, nil, "decode", "--json", pcaps+"b-nfs3-ops.pcap")
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
	_, out, _ := run(t, nil, "decode", "--counts", pcaps+"b-nfs3-ops.pcap", pcaps+"a-rping.pcap")
	for _, want := range []string{"== " + pcaps + "a-rping.pcap\n", "opcode.0x03      125\n", "chunk.reply      14\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	_, out, _ = run(t, nil, "decode", "--counts", "--json", pcaps+"b-nfs3-ops.pcap")
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
		status := Main(args, nil, noRoom{}, &stderr)
		if status != exitFailed || !strings.Contains(stderr.String(), errNoRoom.Error()) {
			t.Errorf("%v: status %d, stderr %q; want 1 and %v", args, status, stderr.String(), errNoRoom)
		}
	}
}

// noRoom is a full disk.
type noRoom struct{}

var errNoRoom = errors.New("no room")

func (noRoom) Write([]byte) (int, error) { return 0, errNoRoom }
