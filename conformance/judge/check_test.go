package judge

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(capture, b, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := openFile(capture)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(write func(io.Writer) error) []string {
		var text strings.Builder
		if err := write(&text); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(strings.TrimSuffix(capture, ".pcap")+".expect", []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		var c complaints
		Check(&c, capture)
		return c
	}

	var c complaints
	Check(&c, capture)
	if all := strings.Join(c, "\n"); len(c) == 0 || !strings.Contains(all, "judge: MPA-030 conn 2 > frame 24: CRC") || !strings.Contains(all, "(RFC 5044 Section 4.4)") {
		t.Errorf("without an expectation: %s", all)
	}
	if c := expect(r.WriteExpect); len(c) > 0 {
		t.Errorf("as expected, and yet: %q", c)
	}
	if c := expect(func(w io.Writer) error { _, err := io.WriteString(w, "MPA-030 2 2"); return err }); len(c) == 0 ||
		!strings.HasSuffix(c[0], "MPA-030 connection 2: 1 found, 2 expected") && len(c) < 2 {
		t.Errorf("not as expected: %q", c)
	}
	if c := expect(func(w io.Writer) error { _, err := io.WriteString(w, "MPA-030"); return err }); len(c) != 1 || !strings.Contains(c[0], "bad.expect: line 1") {
		t.Errorf("bad expectation: %q", c)
	}
}

func TestCheckUnreadable(t *testing.T) {
	var c complaints
	Check(&c, "nosuch.pcap")
	Check(&c, "check.go")
	if len(c) != 2 || !strings.Contains(c[0], "nosuch.pcap") || !strings.Contains(c[1], "check.go: decode: not a pcap") {
		t.Errorf("%q", c)
	}
}
