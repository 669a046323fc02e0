package matrix_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/probe"
	"github.com/stag-rdma/stag/conformance/matrix"
	"github.com/stag-rdma/stag/transport"
)

// server runs a server of ours whose handler does f.
func server(t testing.TB, f transport.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &transport.Server{Handler: f}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() { srv.Close(); <-done })
	return l.Addr().String()
}

func good(context.Context, *transport.Request, *transport.Response) {}

// TestMatrix: a cell for each case and peer, a link to each cell, and for what is not ok the capture and links to the
// packets that break a rule.
func TestMatrix(t *testing.T) {
	dir := t.TempDir()
	addr := server(t, good)
	bad := server(t, func(_ context.Context, req *transport.Request, resp *transport.Response) {
		if req.Proc == 0 && req.Prog == 100003 {
			return
		}
		resp.Results = append(resp.Results, 0, 0, 0, 1)
	})
	m := matrix.New("test", "2026-11-23", "a test")
	only := regexp.MustCompile("^(rpc/procedure|mpa/wrong-key|client/(crc|pad))$")
	for _, p := range []matrix.Peer{
		{Name: "good one", About: "ours", Server: addr},
		{Name: "bad", Server: bad},
		{Name: "client", Behind: addr, Client: func(context.Context, string) probe.ClientRun { return probe.ClientRun{Did: "done <b>", OK: true} }},
	} {
		if err := m.Run(t.Context(), dir, p, only, nil, func(*matrix.Cell) {}); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{
		`<article id="good-one-mpa-wrong-key">`, `href="#bad-rpc-procedure"`, `RFC 5531`, "not reached", "done &lt;b&gt;", "0000  4d 50 41",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	for _, id := range regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(page, `id="`+id[1]+`"`) {
			t.Errorf("a link to %s, which is nowhere", id[1])
		}
	}
	for _, file := range regexp.MustCompile(`href="([^"#]+)(#packet-[0-9]+)?"`).FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.Join(dir, file[1])); err != nil {
			t.Errorf("a link to a file: %v", err)
		}
	}
	if !strings.Contains(page, "bad-rpc-procedure.pcapng") {
		t.Error("no capture of what the bad server did")
	}
}

func ExampleMatrix() {
	m := matrix.New("RPC-over-RDMA conformance", "2026-11-23", "probed by conformance")
	var page bytes.Buffer
	err := m.Write(&page)
	fmt.Println(err, strings.Contains(page.String(), "RPC-over-RDMA conformance"))
	// Output: <nil> true
}
