package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/cli"
)

// TestDemoCapture: what nfsdemo records of itself without privileges is a whole NFS/RDMA session, in both
// directions, to our decoder and to tshark.
func TestDemoCapture(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "demo.pcapng")
	var stderr bytes.Buffer
	if status := cli.Main([]string{"demo", "--max", "1048579", "--pcap", file}, nil, &stderr, &stderr); status != 0 {
		t.Fatalf("status %d: %s", status, &stderr)
	}
	s := session{name: "demo", pcap: file, crc: true}
	counts, _ := decodeOwn(t, s)
	for _, k := range []string{"mpa.req", "mpa.rep", "opcode.0x00", "opcode.0x01", "opcode.0x02", "opcode.0x04", "chunk.read", "chunk.write"} {
		if counts[k] == 0 {
			t.Errorf("no %s: %v", k, counts)
		}
	}
	if counts["rpc.0"] != counts["rpc.1"] || counts["rpc.0"] < 50 {
		t.Errorf("%d calls, %d replies", counts["rpc.0"], counts["rpc.1"])
	}
	judgedClean(t, file)
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed here (apt-get install tshark); CI has it")
	}
	judged(t, s)
	// Sequence and acknowledgement numbers are those of a TCP that loses nothing.
	if out := runTshark(t, tshark, "-r", file, "-o", "tcp.check_checksum:TRUE", "-Y", "tcp.analysis.flags || tcp.checksum.status == 0"); out != "" {
		t.Errorf("tshark finds fault with TCP:\n%s", out)
	}
}
