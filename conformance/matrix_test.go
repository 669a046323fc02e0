package main

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

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/conformance/internal/probe"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// matrixServer runs a server of ours whose handler does f.
func matrixServer(t testing.TB, f rpc.HandlerFunc) string {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	srv := &transport.Server{Handler: f}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() { srv.Close(); <-done })
	return l.Addr().String()
}

// good has NULL alone.
func good(_ context.Context, req *rpc.Request, resp *rpc.Response) {
	if req.Proc != 0 {
		resp.Stat = xdr.ProcUnavail
	}
}

// TestMatrix: a cell for each case and peer, a link to each cell, and for what is not ok a link to the capture and the
// packets that break a rule.
func TestMatrix(t *testing.T) {
	dir := t.TempDir()
	addr := matrixServer(t, good)
	bad := matrixServer(t, func(_ context.Context, req *rpc.Request, resp *rpc.Response) {
		if req.Proc == 0 && req.Prog == 100003 {
			return
		}
		resp.Results = append(resp.Results, 0, 0, 0, 1)
	})
	peers := []*Peer{
		{Name: "good-1", About: "ours", Server: addr},
		{Name: "good-2", Server: addr},
		{Name: "bad", Server: bad},
		{Name: "client", Behind: addr, Client: func(context.Context, string) probe.ClientRun { return probe.ClientRun{Did: "done <b>", OK: true} }},
	}
	for _, p := range peers {
		p.Date, p.Only = "2026-11-23", regexp.MustCompile("^(rpc/(procedure|program)|mpa/wrong-key|client/(crc|pad))$")
		check(t, playMatrix(t.Context(), dir, p, func(*Cell) {}))
	}
	page := writePage(t, dir)
	for _, want := range []string{
		`<b id="good-1-mpa-wrong-key">good-1</b> <b id="good-2-mpa-wrong-key">`, `href="#bad-rpc-procedure"`, "RFC 5531", "not reached", "<code>4d504120",
		`in the capture from packet `, `href="bad.pcapng.gz"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	for _, id := range regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(page, -1) {
		if strings.Count(page, `id="`+id[1]+`"`) != 1 {
			t.Errorf("a link to %s, which is not in one place", id[1])
		}
	}
	for _, file := range regexp.MustCompile(`href="([^"#]+)"`).FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.Join(dir, file[1])); err != nil {
			t.Errorf("a link to a file: %v", err)
		}
	}
	t.Run("packets", func(t *testing.T) { packets(t, dir, page) })
	t.Run("resume", func(t *testing.T) {
		p := *peers[2]
		p.Resume, p.Only = true, regexp.MustCompile("^(rpc/(procedure|program|version)|mpa/wrong-key)$")
		var played []string
		check(t, playMatrix(t.Context(), dir, &p, func(c *Cell) { played = append(played, c.Case) }))
		if strings.Join(played, " ") != "rpc/version" {
			t.Errorf("played again: %q", played)
		}
		packets(t, dir, writePage(t, dir))
	})
}

// writePage writes the page and returns it.
func writePage(t *testing.T, dir string) string {
	t.Helper()
	var b bytes.Buffer
	check(t, writeMatrix(&b, dir, "test", "a test"))
	return b.String()
}

// packets: the cells of the bad server name the violations that the judge finds in its capture, and to no others.
func packets(t *testing.T, dir, page string) {
	f := must(os.Open(filepath.Join(dir, "bad.pcapng.gz")))(t)
	defer f.Close()
	rep := must(judge.File(f, nil))(t)
	want := make(map[string]bool)
	for _, v := range rep.Violations {
		if v.Dir == decode.FromAccepter && v.Rule.Severity != judge.Note {
			want[fmt.Sprintf(`, %s in packet %d`, v.Rule.ID, v.Frame)] = true
		}
	}
	for link := range want {
		if !strings.Contains(page, link) {
			t.Errorf("no %s", link)
		}
	}
	if n := strings.Count(page, " in packet "); n != len(want) || n == 0 {
		t.Errorf("%d links, the judge finds %d", n, len(want))
	}
}
