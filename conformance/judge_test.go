package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

const (
	cleanPcap  = pcaps + "d-reject.pcap"  // a rejected startup
	brokenPcap = pcaps + "d-mpa-bad.pcap" // frames that are wrong on purpose; connection 2 has a bad CRC
)

// write makes a file for a test.
func write(t *testing.T, name, text string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	check(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// damaged returns a capture that is cut in its last packet.
func damaged(t *testing.T) string {
	t.Helper()
	b := must(os.ReadFile(brokenPcap))(t)
	return write(t, "cut.pcap", string(b[:len(b)-7]))
}

func TestJudgeExitStatus(t *testing.T) {
	cut := damaged(t)
	empty := write(t, "empty.pcap", "\xd4\xc3\xb2\xa1\x02\x00\x04\x00"+strings.Repeat("\x00", 8)+"\xff\xff\x00\x00\x01\x00\x00\x00")
	for _, tt := range []struct {
		name   string
		args   []string
		status int
		stderr string // part of it
	}{
		{"clean", []string{cleanPcap}, 0, ""},
		{"broken", []string{brokenPcap}, 1, ""},
		{"one of two", []string{brokenPcap, cleanPcap}, 1, ""},
		{"no file", nil, 2, "wants at least one file"},
		{"no such file", []string{"nosuch.pcap"}, 2, "nosuch.pcap: no such file"},
		{"no capture", []string{"judge.go"}, 2, "judge.go: decode: not a pcap"},
		{"damaged", []string{cut}, 2, cut + ": decode: packet"},
		{"unreadable counts more", []string{brokenPcap, "nosuch.pcap", cleanPcap}, 2, "nosuch.pcap: no such file"},
		{"two pages", []string{"--html", "x", cleanPcap, cleanPcap}, 2, "--html is about one capture, got 2"},
		{"limit", []string{"--limit", "0", cleanPcap}, 2, "--limit 0: want 1 or more"},
		{"page nowhere", []string{"--html", "nosuch/x", cleanPcap}, 2, "nosuch/x: no such file"},
		{"nothing judged", []string{empty}, 4, ""},
		{"broken counts more", []string{empty, brokenPcap}, 1, ""},
		{"nothing judged, as expected", []string{"--expect", write(t, "none", ""), empty}, 4, ""},
		{"explain", []string{"--explain", "MPA-030"}, 0, ""},
		{"explain all", []string{"--explain", "all"}, 0, ""},
		{"explain nothing", []string{"--explain", "MPA-999"}, 2, "--explain MPA-999: no such rule (MPA has MPA-0"},
		{"explain a file", []string{"--explain", "MPA-030", "x"}, 2, "--explain wants no file"},
		{"no expectation", []string{"--expect", "nosuch", cleanPcap}, 2, "nosuch: no such file"},
		{"bad expectation", []string{"--expect", write(t, "bad", "MPA-030 1\n"), cleanPcap}, 2, "bad: line 1: 2 fields"},
		{"as expected", []string{"--expect", write(t, "empty", "# clean\n"), cleanPcap}, 0, ""},
		{"less than expected", []string{"--expect", write(t, "more", "MPA-030 1 1\n"), cleanPcap}, 1, ""},
		{"more than expected", []string{"--expect", write(t, "empty", ""), brokenPcap}, 1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, _, stderr := runCommand(t, nil, append([]string{"judge"}, tt.args...)...)
			if status != tt.status || !strings.Contains(stderr, tt.stderr) || tt.stderr == "" && stderr != "" {
				t.Errorf("status %d, want %d; stderr %q, want in it %q", status, tt.status, stderr, tt.stderr)
			}
		})
	}
}

// TestJudgeKeepsInput: what is read is not written over, by whatever name.
func TestJudgeKeepsInput(t *testing.T) {
	b := must(os.ReadFile(brokenPcap))(t)
	in, expect := write(t, "in.pcap", string(b)), write(t, "in.expect", "# nothing\n")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(in, link); err != nil {
		t.Skip("this system lets us make no symbolic links: ", err)
	}
	out := filepath.Join(t.TempDir(), "out")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--annotate", in}, "--annotate " + in + " is the capture: name another file"},
		{[]string{"--annotate", link}, "is the capture"},
		{[]string{"--html", in}, "--html " + in + " is the capture"},
		{[]string{"--expect", expect, "--html", expect}, "is the file of --expect"},
		{[]string{"--annotate", out, "--html", out}, "are both " + out + ": name two files"},
	} {
		status, _, stderr := runCommand(t, nil, append(append([]string{"judge"}, tt.args...), in)...)
		if status != exitUsage || !strings.Contains(stderr, tt.want) {
			t.Errorf("%v: status %d, stderr %q; want 2 and %q in it", tt.args, status, stderr, tt.want)
		}
	}
	if after, err := os.ReadFile(in); err != nil || string(after) != string(b) {
		t.Errorf("the capture was written over: %d octets, had %d, %v", len(after), len(b), err)
	}
	if status, _, stderr := runCommand(t, nil, "judge", "--html", os.DevNull, os.DevNull); status != exitUsage ||
		strings.Contains(stderr, "name another") {
		t.Errorf("a device is taken for a file: status %d, %q", status, stderr)
	}
}

func TestJudgeText(t *testing.T) {
	f := must(os.Open(brokenPcap))(t)
	defer f.Close()
	_, out, _ := runCommand(t, f, "judge", "-")
	for _, want := range []string{
		"connection 2: 10.0.2.15:57774 > 10.0.2.15:20049, RPC-over-RDMA, MPA revision 2, Reply with IRD 16 and ORD 16, CRC\n",
		"  > 2 FPDUs, 216 octets; < 2 FPDUs, 136 octets\n",
		"  MPA-030 error MUST, RFC 5044 Section 4.4: The CRC of an FPDU is right when either startup frame asked for CRCs.\n",
		"    frame 24 > offset 124: CRC 86eaad23 does not match the FPDU of 92 octets\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if _, out, _ = runCommand(t, nil, "judge", "nosuch.pcap"); strings.Contains(out, "clean") {
		t.Errorf("an unreadable capture is clean:\n%s", out)
	}
	_, out, _ = runCommand(t, nil, "judge", cleanPcap, cleanPcap)
	if strings.Count(out, "== "+cleanPcap+"\n") != 2 || !strings.HasSuffix(out, "10.0.2.15:7401, no octets\n  > 0 FPDUs, 0 octets; < 0 FPDUs, 0 octets\n12 packets, 2 connections: clean\n") {
		t.Error(out)
	}
}

// TestJudgeLimit: what is not printed is counted.
func TestJudgeLimit(t *testing.T) {
	_, out, _ := runCommand(t, nil, "judge", "--limit", "2", pcaps+"b-nfs3-ops.pcap")
	if !strings.Contains(out, "frame 51 < ") || strings.Contains(out, "frame 122 < ") || strings.Count(out, " more\n") != 1 ||
		!strings.Contains(out, "    and 3 more\n") {
		t.Error(out)
	}
}

// TestJudgeDamaged: what was read before the damage is told.
func TestJudgeDamaged(t *testing.T) {
	_, out, _ := runCommand(t, nil, "judge", damaged(t))
	if !strings.Contains(out, "MPA-030") {
		t.Error(out)
	}
}

// verdicts are what the tests read of --json.
type verdicts struct {
	Clean    bool
	Captures []struct {
		File, Error string
		Connections []struct {
			ID         int
			Violations map[string]int
		}
		Violations []struct {
			Rule  string
			Frame int
		}
		Unexpected []string
	}
}

// TestJudgeJSON: what comes out is what docs/judge.schema.json describes, of good captures, broken ones, damaged ones
// and none.
func TestJudgeJSON(t *testing.T) {
	b := must(os.ReadFile("../docs/judge.schema.json"))(t)
	schema := new(jsonschema.Schema)
	check(t, json.Unmarshal(b, schema))
	form := must(schema.Resolve(nil))(t)
	args := []string{"judge", "--json", cleanPcap, brokenPcap, damaged(t), "nosuch.pcap", pcaps + "d-terminate.pcap", pcaps + "r-roce-nfs3.pcap"}
	_, out, _ := runCommand(t, nil, args...)
	_, unexpected, _ := runCommand(t, nil, "judge", "--json", "--expect", write(t, "e", "MPA-030 9 9"), brokenPcap)
	for _, doc := range []string{out, unexpected} {
		var v any
		check(t, json.Unmarshal([]byte(doc), &v))
		if err := form.Validate(v); err != nil {
			t.Error(err)
		}
		v.(map[string]any)["captures"].([]any)[0].(map[string]any)["surprise"] = 1
		if form.Validate(v) == nil {
			t.Error("the schema allows a field that it does not describe")
		}
	}
	var v verdicts
	check(t, json.Unmarshal([]byte(out), &v))
	if v.Clean || len(v.Captures) != len(args)-2 || v.Captures[3].Error == "" || v.Captures[1].Connections[1].Violations["MPA-030"] != 1 {
		t.Errorf("%+v", v)
	}
}

// TestRoCE: text and JSON speak of packets and PSNs, and of nothing that RoCE has not.
func TestRoCE(t *testing.T) {
	const file = pcaps + "r-roce-nfs3.pcap"
	status, out, _ := runCommand(t, nil, "judge", file)
	for _, want := range []string{
		"connection 1: 10.9.9.2:48052 > 10.9.9.1:20049, RPC-over-RDMA, RoCE v2, REP with IRD 0 and ORD 128\n  > 80 packets, 67504 octets; < 24 packets, 3312 octets\n",
		"    frame 134 < psn 3526711: invalidates 00002809;", "143 packets, 1 connection: 1 violation\n",
	} {
		if status != 1 || !strings.Contains(out, want) {
			t.Errorf("status %d, want %q in\n%s", status, want, out)
		}
	}
	_, all, _ := runCommand(t, nil, "judge", "--json", file)
	if !strings.Contains(all, `"psn": 3526711`) || !strings.Contains(all, `"carrier": "rocev2"`) {
		t.Error(all)
	}
	for _, form := range []string{"--json", "--strict"} {
		status, out, _ := runCommand(t, nil, "decode", form, file)
		for _, no := range []string{"FPDU", "fpdu", "MPA", "mpa", "iwarp", "sinkstag"} {
			if status != 0 || strings.Contains(out, no) {
				t.Errorf("decode %s: status %d, %q in\n%s", form, status, no, out)
			}
		}
	}
}

// TestJudgeExpect: a capture is as expected when exactly what is found is written down.
func TestJudgeExpect(t *testing.T) {
	_, out, _ := runCommand(t, nil, "judge", "--json", brokenPcap)
	var v verdicts
	check(t, json.Unmarshal([]byte(out), &v))
	var lines []string
	for _, c := range v.Captures[0].Connections {
		for id, n := range c.Violations {
			lines = append(lines, fmt.Sprintf("%s %d %d # the test does it on purpose", id, c.ID, n))
		}
	}
	all := write(t, "all.expect", strings.Join(lines, "\n"))
	status, out, _ := runCommand(t, nil, "judge", "--expect", all, brokenPcap)
	if status != 0 || !strings.HasSuffix(out, "as "+all+" expects\n") {
		t.Errorf("status %d\n%s", status, out)
	}
	few := write(t, "few.expect", strings.Join(lines[1:], "\n"))
	status, out, _ = runCommand(t, nil, "judge", "--expect", few, brokenPcap)
	missing := strings.Fields(lines[0])
	if status != 1 || !strings.HasSuffix(out, fmt.Sprintf("expects:\n  %s connection %s: %s found, 0 expected\n", missing[0], missing[1], missing[2])) {
		t.Errorf("status %d\n%s", status, out)
	}
}

// TestJudgeAnnotate: the capture again, from a file and from standard input, with the violations as comments.
func TestJudgeAnnotate(t *testing.T) {
	if _, err := exec.LookPath("tshark"); err != nil {
		t.Skip("no tshark here (apt-get install tshark)")
	}
	f := must(os.Open(brokenPcap))(t)
	defer f.Close()
	var said []string
	for _, in := range []struct {
		name  string
		stdin io.Reader
	}{{brokenPcap, nil}, {"-", f}} {
		out := filepath.Join(t.TempDir(), "out.pcapng")
		if status, _, stderr := runCommand(t, in.stdin, "judge", "--annotate", out, in.name); status != 1 || stderr != "" {
			t.Fatalf("status %d, %s", status, stderr)
		}
		b, err := exec.CommandContext(t.Context(), "tshark", "-r", out, "-Y", "frame.number == 24", "-T", "fields", "-e", "frame.comment").Output()
		check(t, err)
		said = append(said, string(b))
	}
	const want = "MPA-030 MUST (RFC 5044 Section 4.4): CRC 86eaad23 does not match the FPDU of 92 octets\n"
	if said[0] != want || said[1] != want {
		t.Errorf("frame 24 says %q, want %q", said, want)
	}
}

func TestJudgePage(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.html")
	runCommand(t, nil, "judge", "--html", out, brokenPcap)
	b := must(os.ReadFile(out))(t)
	for _, want := range []string{"<title>" + brokenPcap + "</title>", "does not match the FPDU of 92 octets", "The CRC of an FPDU is right"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %q in the page", want)
		}
	}
}

func TestExplain(t *testing.T) {
	_, out, _ := runCommand(t, nil, "judge", "--explain", "mpa-030")
	for _, want := range []string{
		"MPA-030: The CRC of an FPDU is right", "source    RFC 5044 Section 4.4\n", "level     MUST\n", "severity  error", "judges    mpa ", "its twin  frame ",
		"-run 'TestTwins/MPA-030'",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	_, out, _ = runCommand(t, nil, "judge", "--explain", "all")
	if !strings.Contains(out, "MPA-030     MUST   error   RFC 5044 Section 4.4: The CRC") {
		t.Error(out)
	}
}
