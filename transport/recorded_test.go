package transport

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/capture"
)

// recordTo is the directory where connections of tests are recorded, for the judge (make judged); "": they are not.
var recordTo = os.Getenv("STAG_RECORD")

// recordings counts the files.
var recordings atomic.Int64

// recorded returns an address behind which is addr, and what is said to it is recorded; addr when nothing is to be.
func recorded(t testing.TB, addr string) string {
	t.Helper()
	if recordTo == "" {
		return addr
	}
	name := fmt.Sprintf("%s.%d.pcapng", strings.ReplaceAll(t.Name(), "/", "_"), recordings.Add(1))
	w, err := capture.Create(filepath.Join(recordTo, name))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	relayed := make(chan error, 1)
	go func() { relayed <- w.Relay(l, "tcp", addr) }()
	t.Cleanup(func() {
		l.Close()
		select {
		case <-relayed:
		case <-time.After(10 * time.Second):
			t.Error("a recorded connection does not end")
		}
		if err := w.Close(); err != nil {
			t.Errorf("recording: %v", err)
		}
	})
	return l.Addr().String()
}
