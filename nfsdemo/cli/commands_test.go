package cli

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport"
)

// start serves a new directory in this process and returns its path and URLs.
func start(t *testing.T) (dir, rdma, tcp string) {
	t.Helper()
	dir = t.TempDir()
	s := started(t, &serviceConfig{
		exports: one(dir), rdma: "127.0.0.1:0", tcp: "127.0.0.1:0",
		config: &transport.Config{Startup: transport.Startup{Timeout: time.Minute}},
	})
	return dir, "nfs+rdma://" + addrOf(s.rdma) + s.path, "nfs://" + addrOf(s.tcp) + s.path
}

// result is the exit status and the output of a command.
type result struct {
	status         int
	stdout, stderr string
}

// command runs one command in this process.
func command(ctx context.Context, stdin string, args ...string) result {
	var out, errs bytes.Buffer
	a := &app{stdin: strings.NewReader(stdin), stdout: &out, stderr: &errs, hard: ctx}
	status := a.run(ctx, args)
	return result{status, out.String(), errs.String()}
}

// stuckReader says when it is read, and does not return until its test ends.
type stuckReader struct{ read, end chan struct{} }

func (s stuckReader) Read([]byte) (int, error) {
	close(s.read)
	<-s.end
	return 0, errors.New("the test ended")
}

// TestInterrupt cancels a copy that waits for standard input: it ends, and what it
// wrote is removed.
func TestInterrupt(t *testing.T) {
	dir, rdma, _ := start(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	stdin := stuckReader{make(chan struct{}), make(chan struct{})}
	defer close(stdin.end)
	var errs bytes.Buffer
	a := &app{stdin: stdin, stdout: &errs, stderr: &errs, hard: t.Context()}
	status := make(chan int)
	go func() { status <- a.run(ctx, []string{"cp", "-", rdma + "/file"}) }()
	<-stdin.read // so the file was made
	if !exists(filepath.Join(dir, "file.part")) {
		t.Error("no file on the server")
	}
	cancel(&interruptError{os.Interrupt})
	if got := <-status; got != 130 || errs.String() != "nfsdemo: interrupted\n" {
		t.Errorf("status %d, %q", got, errs.String())
	}
	if exists(filepath.Join(dir, "file")) || exists(filepath.Join(dir, "file.part")) { // a stream cannot be continued
		t.Error("half a file is left")
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func TestPanicIsOneLine(t *testing.T) {
	var errs bytes.Buffer
	a := &app{stderr: &errs} // without an output, help fails badly
	a.stdout = panicWriter{}
	if status := a.run(t.Context(), []string{"--help"}); status != exitFailed {
		t.Errorf("status %d", status)
	}
	if s := errs.String(); strings.Count(s, "\n") != 1 || !strings.Contains(s, "internal error: boom") {
		t.Errorf("got %q", s)
	}
}

type panicWriter struct{}

func (panicWriter) Write([]byte) (int, error) { panic("boom") }

// TestFirstConnection: --reconnect is for connections that are lost, as its help says: a server that
// is not there is told at once.
func TestFirstConnection(t *testing.T) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	url := "nfs+rdma://" + l.Addr().String() + "/export"
	noErr(t, l.Close())
	for _, args := range [][]string{{"ls"}, {"ls", "--reconnect", "10h"}, {"rm", "--reconnect", "10h", "--replies", t.TempDir()}} {
		r := command(t.Context(), "", append(args, "--timeout", "10h", url+"/file")...)
		if r.status != exitFailed || !strings.Contains(r.stderr, "refused") {
			t.Errorf("%v: %+v", args, r)
		}
	}
	if r := command(t.Context(), "", "ls", "--help"); !strings.Contains(r.stdout, "the first connection is tried once") {
		t.Error(r.stdout)
	}
}

// TestSettings: impossible settings are refused before anything is opened or printed.
func TestSettings(t *testing.T) {
	serve := []string{"serve", "--export", t.TempDir(), "--listen", "127.0.0.1:0", "--mount-listen", ""}
	proxy := []string{"proxy", "--to", "nfs://127.0.0.1:1", "--listen", "127.0.0.1:0"}
	for _, tt := range []struct {
		before, flags []string
		want          string
	}{
		{serve, []string{"--credits", "-1"}, "--credits -1: want 1 to 4096, or 0 for the default"},
		{serve, []string{"--credits", "4097"}, "--credits 4097: want 1 to 4096"},
		{serve, []string{"--client-memory", "1M"}, "--client-memory 1M: want 2M to 1024T, 0 for the default, or -1 for no limit"},
		{serve, []string{"--client-memory", "-2"}, "--client-memory -2: want 2M to"},
		{serve, []string{"--client-pulls", "-2"}, "--client-pulls -2: want 1 to"},
		{serve, []string{"--memory-limit", "64"}, "--memory-limit 64: want 2M to 1024T, or 0 for the default"},
		{serve, []string{"--memory-limit", "2000T"}, "want 2M to 1024T"},
		{serve, []string{"--client-memory", "99999999T"}, "larger than 9223372036854775807 octets"},
		{serve, []string{"--memory-limit", "64X"}, "want octets, or a number with K, M, G or T, for example 64M or 1G"},
		{serve, []string{"--max-connections", "2000000000"}, "--max-connections 2000000000: want 1 to 1073741824"},
		{serve, []string{"--max-pulls", "2000000000"}, "--max-pulls 2000000000: want 1 to 1073741824"},
		{serve, []string{"--allow", "300.1.1.1"}, "nfsdemo: --allow: \"300.1.1.1\" is not a network: write "},
		{serve, []string{"--credit-pool", "-1"}, "--credit-pool -1: want 0 or more"},
		{proxy, []string{"--backward", "-1"}, "--backward -1: want 1 to 4096"},
		{proxy, []string{"--backward", "4097"}, "--backward 4097: want 1 to 4096"},
		{[]string{"proxy", "--to", "nfs+rdma://127.0.0.1:1", "--listen", "foo"}, []string{"--credits", "-1"}, "--credits -1"},
		{[]string{"serve", "--memory", "--export", "/x", "--status", "nonsense"}, nil, `--status "nonsense" is not an address`},
		{[]string{"serve", "--memory", "--export", "/x", "--log-format", "yaml"}, nil, "want text or json"},
		{[]string{"completion", "tcsh"}, nil, "unknown command"},
		{[]string{"cat", "nfs://127.0.0.1:1/x"}, []string{"--reconnect", "-1s"}, "--reconnect -1s: want a positive time"},
		{[]string{"fo"}, nil, "see nfsdemo --help"},
		{[]string{"cp", "a", "nfs://127.0.0.1:1/x"}, []string{"--transfers", "0"}, "--transfers 0: want 1 to 1024"},
		{[]string{"rm", "nfs://127.0.0.1:1/x"}, []string{"--transfers", "9999"}, "--transfers 9999: want 1 to 1024"},
		{[]string{"cp", "a", "nfs://127.0.0.1:1/x"}, []string{"--exclude", "["}, "--exclude \"[\" is not a pattern"},
		{[]string{"cp", "-", "nfs://127.0.0.1:1/x"}, []string{"--verify"}, "--verify with -"},
		{[]string{"cp", "-", "nfs://127.0.0.1:1/x"}, []string{"--resume"}, "--resume with -"},
		{[]string{"cp", "a", "nfs://127.0.0.1:1/x"}, []string{"--max-names", "-1"}, "--max-names -1"},
		{[]string{"cp", "a", "nfs://127.0.0.1:1/x"}, []string{"--call-timeout", "-1s"}, "--call-timeout -1s"},
	} {
		args := append(slices.Clone(tt.before), tt.flags...)
		r := command(t.Context(), "", args...)
		if r.status != exitUsage || r.stdout != "" || !strings.Contains(r.stderr, tt.want) || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%v: status %d, output %q, errors %q; want %q", args, r.status, r.stdout, r.stderr, tt.want)
		}
	}
}

// TestRanges: the ranges of the flags are those of transport.Config.
func TestRanges(t *testing.T) {
	good := []transport.Config{
		{Credits: maxCredits, Backward: transport.Backward{Credits: maxCredits}, Limits: transport.Limits{Conns: maxCount, Pulls: maxCount}},
		{Limits: transport.Limits{Memory: minMemory, PerClient: transport.ClientLimits{Memory: minMemory}}},
	}
	for _, c := range good {
		if err := c.Check(); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []transport.Config{
		{Credits: maxCredits + 1},
		{Backward: transport.Backward{Credits: maxCredits + 1}},
		{Limits: transport.Limits{Conns: maxCount + 1}},
		{Limits: transport.Limits{Pulls: maxCount + 1}},
		{Limits: transport.Limits{Memory: minMemory - 1<<20}},
		{Limits: transport.Limits{PerClient: transport.ClientLimits{Memory: minMemory - 1<<20}}},
	} {
		if err := c.Check(); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// TestFullOutput: every command reports that standard output is full.
func TestFullOutput(t *testing.T) {
	dir, rdma, _ := start(t)
	noErr(t, os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600))
	for _, args := range [][]string{{"df", rdma}, {"stat", rdma}, {"ls", rdma}, {"cat", rdma + "/file"}, {"demo", "--max", "0"}, {"demo", "--max", "0", "--json"}, {"--help"}} {
		var errs bytes.Buffer
		a := &app{stdout: noRoom{}, stderr: &errs, hard: t.Context()}
		if status := a.run(t.Context(), args); status != exitFailed || !strings.Contains(errs.String(), errNoRoom.Error()) {
			t.Errorf("%v: status %d, errors %q; want 1 and %v", args, status, errs.String(), errNoRoom)
		}
	}
}

// noRoom is a full disk.
type noRoom struct{}

var errNoRoom = errors.New("no room")

func (noRoom) Write([]byte) (int, error) { return 0, errNoRoom }
