package cli

import (
	"os/exec"
	"strings"
	"testing"
)

func TestTsharkExitStatus(t *testing.T) {
	_, missing := exec.LookPath("tshark")
	for _, tt := range []struct {
		name, args     string
		asks           bool // needs tshark
		status         int
		stdout, stderr string
	}{
		{"help", "--help", false, 0, "tshark runs Wireshark's tshark", ""},
		{"no file", "", false, 2, "", "conformance: tshark wants at least one file: see conformance tshark --help"},
		{"no such file", pcaps + "none", false, 1, "", "conformance: "},
		{"all is well", pcaps + "d-terminate.pcap", true, 0, pcaps + "d-terminate.pcap: 18 FPDUs, CRCs: 0 good, 0 bad\n", ""},
		{"all is not well", pcaps + "d-mpa-bad.pcap", true, 3, pcaps + "d-mpa-bad.pcap: 56 FPDUs, CRCs: 3 good, 1 bad\ntshark finds packet ", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.asks && missing != nil {
				t.Skip("tshark is not installed here (apt-get install tshark); CI has it")
			}
			status, stdout, stderr := run(t, nil, append([]string{"tshark"}, strings.Fields(tt.args)...)...)
			if status != tt.status || !strings.HasPrefix(stdout, tt.stdout) || !strings.HasPrefix(stderr, tt.stderr) {
				t.Errorf("status %d\n%s%s", status, stdout, stderr)
			}
		})
	}
}
