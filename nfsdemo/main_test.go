package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stag-rdma/stag/nfsdemo/cli"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

// TestMain makes this test binary the program that the scripts run.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"nfsdemo": nfsdemo})
}

// nfsdemo is the program, which also fails when a goroutine outlives its command.
func nfsdemo() {
	status := cli.Main(recorded(os.Args[1:]), os.Stdin, os.Stdout, os.Stderr)
	if err := rdmaptest.Leaks(); err != nil {
		fmt.Fprintln(os.Stderr, "leaked:", err)
		status = 99
	}
	os.Exit(status)
}

// recorded adds --pcap to the arguments of commands that open connections when STAG_RECORD names a directory, for the
// judge (make judged).
func recorded(args []string) []string {
	dir := os.Getenv("STAG_RECORD")
	if dir == "" || len(args) == 0 || !slices.Contains([]string{"cat", "cp", "ls", "mkdir", "rm", "mv", "stat", "df", "demo"}, args[0]) || slices.Contains(args, "--pcap") {
		return args
	}
	file := filepath.Join(dir, fmt.Sprintf("%s.%d.pcapng", args[0], os.Getpid()))
	return slices.Insert(slices.Clone(args), 1, "--pcap", file)
}

// TestScripts runs the command line as a user sees it.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			// A program built with -race sleeps for a second when it ends.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
			env.Setenv("STAG_RECORD", os.Getenv("STAG_RECORD"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"ready":   ready,
			"random":  random,
			"oneline": oneline,
		},
	})
}

// ready FILE waits for the port file of a server and sets $EXPORT, $RDMA, $TCP,
// $MOUNT, and the URLs $URL (RDMA) and $TCPURL of the export.
func ready(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: ready file")
	}
	name := ts.MkAbs(args[0])
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(2 * time.Millisecond) {
		if _, err := os.Stat(name); err == nil {
			break
		}
		if time.Now().After(deadline) {
			ts.Fatalf("the server is not ready")
		}
	}
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		ts.Setenv(key, value)
	}
	ts.Setenv("URL", "nfs+rdma://"+ts.Getenv("RDMA")+ts.Getenv("EXPORT"))
	ts.Setenv("TCPURL", "nfs://"+ts.Getenv("TCP")+ts.Getenv("EXPORT"))
}

// random FILE N writes N octets that look random, the same each time.
func random(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: random file octets")
	}
	n := 0
	_, err := fmt.Sscan(args[1], &n)
	ts.Check(err)
	ts.Check(os.MkdirAll(filepath.Dir(ts.MkAbs(args[0])), 0o777))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), noise(n), 0o666))
}

// oneline demands that the last command printed nothing but one line of error.
func oneline(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: oneline")
	}
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("standard output is not empty: %q", out)
	}
	text := ts.ReadFile("stderr")
	if strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "nfsdemo: ") || strings.Contains(text, "goroutine ") {
		ts.Fatalf("want one line of error, got %q", text)
	}
}

// noErr ends the test if err is an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
