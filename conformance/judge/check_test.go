package judge_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/judge"
)

// complaints is a TB that keeps what it is told.
type complaints []string

func (c *complaints) Helper() {}

func (c *complaints) Errorf(format string, args ...any) {
	*c = append(*c, fmt.Sprintf(format, args...))
}

// TestCheck: a capture with a bad CRC, with and without an expectation beside it.
func TestCheck(t *testing.T) {
	capture := filepath.Join(t.TempDir(), "bad.pcap")
	b, err := os.ReadFile("../testdata/pcaps/d-mpa-bad.pcap")
	check(t, err)
	check(t, os.WriteFile(capture, b, 0o600))
	r, err := judge.File(bytes.NewReader(b))
	check(t, err)
	if r.Verdict != judge.Broken {
		t.Errorf("verdict %q", r.Verdict)
	}
	expect := func(text string) []string {
		check(t, os.WriteFile(strings.TrimSuffix(capture, ".pcap")+".expect", []byte(text), 0o600))
		var c complaints
		judge.Check(&c, capture)
		return c
	}

	var c complaints
	judge.Check(&c, capture)
	if all := strings.Join(c, "\n"); len(c) == 0 || !strings.Contains(all, capture+": MPA-030 conn 2 > frame 24: CRC") || !strings.Contains(all, "RFC 5044 Section 4.4 (MUST): The CRC of an FPDU is right") {
		t.Errorf("without an expectation: %s", all)
	}
	found := ""
	for _, conn := range r.Connections {
		for id, n := range conn.Counts {
			found += fmt.Sprintln(id, conn.ID, n)
		}
	}
	if c := expect(found); len(c) > 0 {
		t.Errorf("as expected, and yet: %q", c)
	}
	if c := expect("MPA-030 2 2"); len(c) == 0 ||
		!strings.HasSuffix(c[0], "MPA-030 connection 2: 1 found, 2 expected") && len(c) < 2 {
		t.Errorf("not as expected: %q", c)
	}
	if c := expect("MPA-030"); len(c) != 1 || !strings.Contains(c[0], "bad.expect: line 1") {
		t.Errorf("bad expectation: %q", c)
	}
}

func TestCheckUnreadable(t *testing.T) {
	var c complaints
	judge.Check(&c, "nosuch.pcap")
	judge.Check(&c, "check.go")
	if len(c) != 2 || !strings.Contains(c[0], "nosuch.pcap") || !strings.Contains(c[1], "check.go: decode: not a pcap") {
		t.Errorf("%q", c)
	}
}

// TestCheckNothing: a capture without iWARP is no clean one.
func TestCheckNothing(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pcap")
	b := []byte{0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0}
	check(t, os.WriteFile(empty, b, 0o600))
	var c complaints
	if judge.Check(&c, empty); len(c) != 1 || !strings.Contains(c[0], "nothing was judged: the capture holds no packet") {
		t.Errorf("%q", c)
	}
	if r, err := judge.File(bytes.NewReader(b)); err != nil || r.Verdict != judge.Inconclusive {
		t.Errorf("%+v, %v", r, err)
	}
}

// keeper is a test that has failed.
type keeper struct {
	complaints
	dir string
}

func (k *keeper) Failed() bool        { return len(k.complaints) > 0 }
func (k *keeper) ArtifactDir() string { return k.dir }

// TestCheckKeeps: the capture of a failed test is kept, that of another is not.
func TestCheckKeeps(t *testing.T) {
	for name, want := range map[string]bool{"d-mpa-bad.pcap": true, "d-reject.pcap": false} {
		b, err := os.ReadFile("../testdata/pcaps/" + name)
		check(t, err)
		capture := filepath.Join(t.TempDir(), name) // no expectation beside it
		check(t, os.WriteFile(capture, b, 0o600))
		k := &keeper{dir: t.TempDir()}
		judge.Check(k, capture)
		kept, err := os.ReadFile(filepath.Join(k.dir, name))
		if want != (err == nil) || want && !bytes.Equal(kept, b) {
			t.Errorf("%s: %d octets, %v", name, len(kept), err)
		}
	}
}
