package probe_test

import (
	"net"
	"os"
	"regexp"
	"runtime"
	"testing"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/probe"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
)

// serve runs our NFS server over memory, and returns its address and how many calls it
// has executed that were no NULL.
func serve(t testing.TB) string {
	t.Helper()
	h, err := server.New(&server.Config{Exports: []server.Export{{Path: "/mem", FS: mem.New(nil)}}})
	if err != nil {
		t.Fatal(err)
	}
	return serveWith(t, &transport.Server{Handler: h})
}

// serveWith runs a server, and returns its address.
func serveWith(t testing.TB, srv *transport.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() { srv.Close(); <-done })
	return l.Addr().String()
}

// TestOursUsage: our server keeps no descriptors and no goroutines. They are those of this process, so no other test
// runs at the same time.
func TestOursUsage(t *testing.T) {
	p := &probe.Prober{
		Address: serve(t), Only: regexp.MustCompile("^(load|fpdu|rdmap|resources)/"), Clients: 100,
		Quiet: 20 * time.Millisecond, Timeout: time.Hour,
		Usage: func() (probe.Usage, error) {
			u, err := probe.UsageOf(os.Getpid())
			return probe.Usage{Descriptors: u.Descriptors, Goroutines: runtime.NumGoroutine()}, err
		},
	}
	failed, err := p.Run(t.Context(), func(r *probe.Result) {
		if r.Verdict != "ok" {
			t.Errorf("%s: %+v %v", r.Name, r.Tries, r.Alive)
		}
	})
	if failed > 0 || err != nil {
		t.Errorf("%d failed, %v", failed, err)
	}
}

// TestOurs: our server passes every case.
func TestOurs(t *testing.T) {
	t.Parallel()
	p := &probe.Prober{
		Address: serve(t), Timeout: time.Hour, Quiet: 300 * time.Millisecond, // pulls, too, are answered by then
		Clients: 200,
	}
	n := 0
	failed, err := p.Run(t.Context(), func(r *probe.Result) {
		n++
		for _, try := range r.Tries {
			t.Logf("%s %s %q: %s %s", try.Verdict, r.Name, try.Name, try.Did, try.Why)
		}
		if r.Verdict != "ok" {
			t.Errorf("%s: %s %v", r.Name, r.Verdict, r.Alive)
		}
	})
	if err != nil || failed > 0 || n == 0 {
		t.Errorf("%d cases, %d failed, %v", n, failed, err)
	}
}
