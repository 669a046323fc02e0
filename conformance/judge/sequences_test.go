package judge_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/judge"
	"github.com/stag-rdma/stag/rdmap/capture"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

// There is a small capture of every sequence of messages of logs at a server, made by our two sides, and judged: the one
// that a test has just made, and the one in testdata. -update makes those in testdata anew.
var update = flag.Bool("update", false, "make the captures in testdata anew")

// TestMain fails the package when a test leaves a goroutine behind.
func TestMain(m *testing.M) { rdmaptest.Main(m) }

// relay returns an address behind which is addr, and what is said to it is in the capture.
type relay func(addr string) string

// sequence has say talk, and judges what was said. Both captures must have all of these in
// them, at least so often: see count.
func sequence(t *testing.T, name string, want map[string]int, say func(t *testing.T, to relay)) {
	t.Helper()
	made, kept := filepath.Join(t.TempDir(), name+".pcapng"), filepath.Join("testdata", name+".pcapng")
	if *update {
		made = kept
	}
	w, err := capture.Create(made)
	check(t, err)
	t.Run("say", func(t *testing.T) {
		say(t, func(addr string) string { return rdmaptest.Relayed(t, w, addr) })
	})
	check(t, w.Close())
	for _, file := range []string{made, kept} {
		judge.Check(t, file)
		got := count(t, file)
		for what, n := range want {
			if got[what] < n {
				t.Errorf("%s: %d of %q, want %d; it has %v", file, got[what], what, n, got)
			}
		}
	}
}

// count counts the calls of a capture by program and procedure, the frames of commit sessions by
// what they do, and the connections.
func count(t *testing.T, file string) map[string]int {
	t.Helper()
	f, err := os.Open(file)
	check(t, err)
	defer f.Close()
	n, conns := make(map[string]int), make(map[int]bool)
	for ev, err := range decode.Events(f, nil) {
		check(t, err)
		conns[ev.Conn.ID] = true
		if ev.RPC != nil && !ev.RPC.IsReply {
			n[fmt.Sprintf("%d.%d", ev.RPC.Prog, ev.RPC.Proc)]++
		}
		if ev.Commit != nil {
			n[ev.Commit.Kind.String()]++
		}
	}
	n["connections"] = len(conns)
	return n
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	return l
}

// check ends the test at an error.
func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// running runs servers until the test ends.
func running(t *testing.T, stop func(), serve ...func()) {
	t.Helper()
	var wg sync.WaitGroup
	for _, f := range serve {
		wg.Go(f)
	}
	t.Cleanup(func() { stop(); wg.Wait() })
}

// background outlives the context of the test, which ends before its Cleanup.
var background = context.Background()
