package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/cli"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// recorded returns captures that this project makes of itself, by name.
func recorded(t *testing.T) map[string][]byte {
	t.Helper()
	nfs, log := filepath.Join(t.TempDir(), "demo.pcapng"), filepath.Join(t.TempDir(), "log.pcapng")
	var stderr bytes.Buffer
	if status := cli.Main([]string{"demo", "--max", "4097", "--pcap", nfs}, nil, &stderr, &stderr); status != 0 {
		t.Fatalf("status %d: %s", status, &stderr)
	}
	recordLog(t, log, &commitlog.Options{Mode: commitlog.Strict})
	captures := make(map[string][]byte)
	for name, file := range map[string]string{"own-nfs": nfs, "own-commitlog": log} {
		b := must(os.ReadFile(file))(t)
		captures[name] = b
	}
	return captures
}
