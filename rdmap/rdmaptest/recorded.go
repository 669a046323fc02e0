package rdmaptest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/rdmap/capture"
)

// TB is the part of testing.TB that this package needs.
type TB interface {
	Helper()
	Name() string
	Cleanup(f func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// relayPatience is how long relayed connections may take to end, on a busy machine.
const relayPatience = 10 * time.Second

var recordings atomic.Int64

// Recorded returns a TCP address whose connections are relayed to addr and recorded, for the judge
// (make judged). The capture is a file in the directory that the environment variable STAG_RECORD
// names; without the variable Recorded returns addr. The name of the file consists of prefix, the name
// of the test and a number.
func Recorded(t TB, prefix, addr string) string {
	t.Helper()
	dir := os.Getenv("STAG_RECORD")
	if dir == "" {
		return addr
	}
	name := fmt.Sprintf("%s%s.%d.pcapng", prefix, strings.ReplaceAll(t.Name(), "/", "_"), recordings.Add(1))
	w, err := capture.Create(filepath.Join(dir, name))
	if err != nil {
		t.Fatalf("recording: %v", err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Errorf("recording: %v", err)
		}
	})
	return Relayed(t, w, addr)
}

// Relayed is Recorded with the capture w. The caller closes w at the end of the test, in a Cleanup
// that it registered before this call.
func Relayed(t TB, w *capture.Writer, addr string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("recording: %v", err)
	}
	relayed := make(chan error, 1)
	go func() { relayed <- w.Relay(l, "tcp", addr) }()
	t.Cleanup(func() {
		l.Close() //nolint:errcheck // Relay returns in any case
		select {
		case <-relayed:
		case <-time.After(relayPatience):
			t.Errorf("a recorded connection has not ended %v after its test", relayPatience)
		}
	})
	return l.Addr().String()
}
