package tshark_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/cli"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/capture"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// recorded returns captures that this project makes of itself, by name.
func recorded(t *testing.T) map[string][]byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "demo.pcapng")
	var stderr bytes.Buffer
	if status := cli.Main([]string{"demo", "--max", "4097", "--pcap", file}, nil, &stderr, &stderr); status != 0 {
		t.Fatalf("status %d: %s", status, &stderr)
	}
	b, err := os.ReadFile(file)
	must(t, err)
	return map[string][]byte{"own-nfs": b, "own-commitlog": recordLog(t)}
}

// recordLog records a session of a commit log that appends three records.
func recordLog(t *testing.T) []byte {
	t.Helper()
	ctx := t.Context()
	var file bytes.Buffer
	w, err := capture.NewWriter(&file)
	memory := make(region.Bytes, 20480+4096)
	must(t, err, commitlog.Create(memory, &commitlog.Options{Mode: commitlog.Strict}))
	log, err := commitlog.Open(memory)
	must(t, err)
	a, b := rdmaptest.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		if c := rdmap.Server(b, commitlog.Config(nil)); c.Handshake(ctx) == nil {
			_ = log.Serve(ctx, c)
		}
	}()
	p := commitlog.NewProducer(&commitlog.ProducerOptions{Verify: true})
	c := rdmap.Client(w.TapClient(a), p.Config(nil))
	must(t, c.Handshake(ctx), p.Attach(ctx, c))
	for range 3 {
		_, err := p.Append(ctx, make([]byte, 100))
		must(t, err)
	}
	p.Close()
	must(t, c.Close())
	<-served
	must(t, log.Close(ctx), w.Close())
	return file.Bytes()
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}
