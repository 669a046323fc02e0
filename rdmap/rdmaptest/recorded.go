package rdmaptest

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
	relayed := make(chan struct{})
	go func() {
		defer close(relayed)
		relay(w, l, addr)
	}()
	t.Cleanup(func() {
		l.Close() //nolint:errcheck // relay returns in any case
		select {
		case <-relayed:
		case <-time.After(relayPatience):
			t.Errorf("a recorded connection has not ended %v after its test", relayPatience)
		}
	})
	return l.Addr().String()
}

// relay forwards connections to addr and records them until l is closed, and waits for their end. Both ends keep plain
// TCP connections, which a tap would hide from them. Octets are recorded before they are forwarded, and the end of a
// direction is forwarded as such.
func relay(w *capture.Writer, l net.Listener, addr string) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		wg.Go(func() {
			defer client.Close()
			server, err := net.Dial("tcp", addr)
			if err != nil {
				return
			}
			defer server.Close()
			rec := w.Conn(addrPort(client.RemoteAddr()), addrPort(server.RemoteAddr()))
			var both sync.WaitGroup
			both.Go(func() { forward(recorded{rec, capture.ToServer}, server, client) })
			both.Go(func() { forward(recorded{rec, capture.ToClient}, client, server) })
			both.Wait()
		})
	}
}

func addrPort(a net.Addr) netip.AddrPort { return a.(*net.TCPAddr).AddrPort() }

func forward(rec recorded, dst, src net.Conn) {
	_, _ = io.Copy(dst, io.TeeReader(src, rec)) // either end may go away at any time
	rec.CloseWrite(rec.dir)
	_ = dst.(*net.TCPConn).CloseWrite()
}

// recorded is a direction.
type recorded struct {
	*capture.Conn
	dir capture.Dir
}

func (r recorded) Write(p []byte) (int, error) {
	r.Conn.Write(r.dir, p)
	return len(p), nil
}
