package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
)

// start serves a new directory in this process and returns its path and URLs.
func start(t *testing.T) (dir, rdma, tcp string) {
	t.Helper()
	dir = t.TempDir()
	s := started(t, &serviceConfig{
		export: dir, squash: server.SquashNone, rdma: "127.0.0.1:0", tcp: "127.0.0.1:0",
		config: &transport.Config{HandshakeTimeout: time.Minute},
	})
	return dir, "nfs+rdma://" + addrOf(s.rdma) + s.path, "nfs://" + addrOf(s.tcp) + s.path
}

// result is what a command left behind.
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

// TestCommands runs the tools in this process: what the scripts cannot show, and
// the race detector with them.
func TestCommands(t *testing.T) {
	dir, rdma, tcp := start(t)
	content := strings.Repeat("0123456789", 30000)
	for _, tt := range []struct {
		stdin  string
		args   []string
		status int
		want   string // in standard output
	}{
		{content, []string{"cp", "-", rdma + "/file"}, 0, ""},
		{"", []string{"cat", tcp + "/file"}, 0, content},
		{"", []string{"cp", "-p", "--no-crc", rdma + "/file", tcp + "/copy"}, 0, ""},
		{"", []string{"cp", "--uid", "0", tcp + "/copy", "-"}, 0, content},
		{"", []string{"ls", "-la", "--stats", rdma}, 0, " file\n"},
		{"", []string{"ls", "--json", tcp}, 0, `"size":300000`},
		{"", []string{"mkdir", "-p", rdma + "/d/e"}, 0, ""},
		{"", []string{"mv", rdma + "/file", rdma + "/copy", rdma + "/d"}, 0, ""},
		{"", []string{"mv", rdma + "/d/file", rdma + "/none/file"}, 1, ""},
		{"", []string{"ls", "-R", rdma}, 0, "/d/e:\n"},
		{"", []string{"stat", "-L", rdma + "/d"}, 0, "directory"},
		{"", []string{"df", rdma, tcp}, 0, "Use%"},
		{"", []string{"cp", "-r", rdma + "/d", filepath.Join(dir, "local")}, 0, ""},
		{"", []string{"cp", "-r", filepath.Join(dir, "local"), tcp + "/up"}, 0, ""},
		{"", []string{"ls", tcp + "/up"}, 0, "copy\ne\nfile\n"},
		{"", []string{"rm", "-r", rdma + "/d", tcp + "/up"}, 0, ""},
		{"", []string{"rm", rdma + "/none", rdma + "/none"}, 1, ""},
		{"", []string{"cat", rdma + "/none"}, 1, ""},
		{"", []string{"cat"}, 2, ""},
		{"", []string{"cat", "--uid", "-7", rdma}, 2, ""},
		{"", []string{"cat", "--log", "debug", rdma + "/none"}, 1, ""},
		{"", []string{"--help"}, 0, "nfs+rdma://"},
	} {
		args := tt.args
		if tt.status < 2 && len(args) > 1 {
			args = append([]string{args[0], "--timeout", "1m"}, args[1:]...) // a machine may stand still
		}
		r := command(t.Context(), tt.stdin, args...)
		if r.status != tt.status || !strings.Contains(r.stdout, tt.want) { // the others build on it
			t.Fatalf("%s: status %d, output %.200q, errors %q", strings.Join(tt.args, " "), r.status, r.stdout, r.stderr)
		}
	}
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
	if !exists(filepath.Join(dir, "file")) {
		t.Error("no file on the server")
	}
	cancel(errInterrupted)
	if got := <-status; got != exitFailed || errs.String() != "nfsdemo: interrupted\n" {
		t.Errorf("status %d, %q", got, errs.String())
	}
	if exists(filepath.Join(dir, "file")) {
		t.Error("half a file is left")
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// TestSpecialFilesAreLeftOut copies a tree with a file that cannot be copied.
func TestSpecialFilesAreLeftOut(t *testing.T) {
	_, rdma, _ := start(t)
	src := t.TempDir()
	if err := os.WriteFile(filepath.Join(src, "unreadable"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c := &copier{a: &app{stderr: new(bytes.Buffer)}}
	odd := &source{name: "fifo", show: "fifo", mode: os.ModeNamedPipe}
	if err := c.copy(t.Context(), odd, nil, "fifo"); err != nil || !c.partial {
		t.Errorf("copy = %v, partial %v", err, c.partial)
	}
	if r := command(t.Context(), "", "cp", "-r", src, rdma); r.status != 0 {
		t.Errorf("status %d, %s", r.status, r.stderr)
	}
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

func ExampleMain() {
	status := Main([]string{"cp", "here", "there"}, os.Stdin, os.Stdout, os.Stdout)
	fmt.Println(status)
	// Output:
	// nfsdemo: none of these is a URL: use cp(1) for local files
	// 2
}
