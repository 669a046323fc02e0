package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/stag-rdma/stag/internal/cliout"
	"github.com/stag-rdma/stag/nfsdemo/internal/exports"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
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
		{serve, []string{"--client-memory", "1M"}, "\"--client-memory\" flag: want 2M to 1024T, 0 for the default, or -1 for no limit"},
		{serve, []string{"--client-memory", "-2"}, "\"--client-memory\" flag: want 2M to"},
		{serve, []string{"--client-connections", "-2"}, "\"--client-connections\" flag: want 1 to"},
		{serve, []string{"--memory-limit", "64"}, "\"--memory-limit\" flag: want 2M to 1024T, or 0 for the default"},
		{serve, []string{"--memory-limit", "2000T"}, "want 2M to 1024T"},
		{serve, []string{"--client-memory", "99999999T"}, "want 2M to 1024T"},
		{serve, []string{"--memory-limit", "64X"}, "want octets, or a number with K, M, G or T, for example 64M or 1G"},
		{serve, []string{"--max-connections", "2000000000"}, "\"--max-connections\" flag: want 1 to 1073741824"},
		{serve, []string{"--allow", "300.1.1.1"}, "nfsdemo: --allow: \"300.1.1.1\" is not a network: write "},
		{serve, []string{"--push-logs", "-2"}, "\"--push-logs\" flag: want 1 to"},
		{proxy, []string{"--backward", "-1"}, "\"--backward\" flag: want 0 to 4096"},
		{proxy, []string{"--backward", "4097"}, "\"--backward\" flag: want 0 to 4096"},
		{[]string{"proxy", "--to", "nfs+rdma://127.0.0.1:1", "--listen", "foo"}, nil, `--listen "foo" is not an address`},
		{[]string{"serve", "--memory", "--export", "/x", "--status", "nonsense"}, nil, `--status "nonsense" is not an address`},
		{[]string{"serve", "--memory", "--export", "/x", "--log-format", "yaml"}, nil, "want text or json"},
		{[]string{"completion", "tcsh"}, nil, "unknown command"},
		{[]string{"cat", "nfs://127.0.0.1:1/x"}, []string{"--reconnect", "-1s"}, "--reconnect -1s: want a positive time"},
		{[]string{"fo"}, nil, "see nfsdemo --help"},
		{[]string{"cp", "a", "nfs://127.0.0.1:1/x"}, []string{"--transfers", "0"}, "\"--transfers\" flag: want 1 to 1024"},
		{[]string{"rm", "nfs://127.0.0.1:1/x"}, []string{"--transfers", "9999"}, "\"--transfers\" flag: want 1 to 1024"},
		{[]string{"cp", "a", "nfs://127.0.0.1:1/x"}, []string{"--exclude", "["}, "--exclude \"[\" is not a pattern"},
		{[]string{"cp", "-", "nfs://127.0.0.1:1/x"}, []string{"--verify"}, "--verify with -"},
		{[]string{"cp", "-", "nfs://127.0.0.1:1/x"}, []string{"--resume"}, "--resume with -"},
		{[]string{"cp", "-", "a", "nfs://127.0.0.1:1/x"}, nil, "standard input cannot be one of several sources"},
		{[]string{"cp", "nfs://127.0.0.1:1/x", "a", "b"}, nil, "a and b are both local"},
		{[]string{"cp", "a", "nfs://127.0.0.1:1/x"}, []string{"--max-names", "-1"}, "\"--max-names\" flag: want 1 to"},
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
		{Backward: transport.Backward{Credits: maxCredits}, Limits: transport.Limits{Conns: maxCount}},
		{Limits: transport.Limits{Memory: minMemory, PerClient: transport.ClientLimits{Memory: minMemory}}},
	}
	for _, c := range good {
		if err := c.Check(); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []transport.Config{
		{Backward: transport.Backward{Credits: maxCredits + 1}},
		{Limits: transport.Limits{Conns: maxCount + 1}},
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

func TestExplain(t *testing.T) {
	rdma, tcp := must(nfsclient.ParseURL("nfs+rdma://h/x"))(t), must(nfsclient.ParseURL("nfs://h/x"))(t)
	op := func(op rpc.Op, err error) error { return &rpc.OpError{Op: op, Addr: "h:1", Err: err} }
	status := func(s nfs3.Status) error {
		return &fs.PathError{Op: "lookup", Path: "/x", Err: &nfsclient.StatusError{Proc: nfs3.ProcLookup, Status: s}}
	}
	for _, tt := range []struct {
		name string
		err  error
		want string
		code int
	}{
		{"refused", &dialError{u: rdma, err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}, "refused by h:20049: start the server", 1},
		{"not iWARP", &dialError{u: rdma, err: op(rpc.OpDial, io.ErrUnexpectedEOF)}, "no iWARP peer at h:20049: it closed the connection during the start-up: if this is not an iWARP port but NFS over TCP, use nfs://", 1},
		{"not TCP", &dialError{u: tcp, err: op(rpc.OpCall, io.EOF)}, "connection to h:1 lost: EOF: if this is an NFS/RDMA port, use nfs+rdma://", 1},
		{"silent", &dialError{u: tcp, err: op(rpc.OpCall, context.DeadlineExceeded)}, "no answer from h:2049 in time: check the host, the port and the firewall", 1},
		{"silent, says the system", &dialError{u: tcp, err: os.ErrDeadlineExceeded}, "no answer from h:2049 in time", 1},
		{"no host", &dialError{u: tcp, err: &net.DNSError{Name: "h", IsNotFound: true}}, `no such host "h"`, 1},
		{"unreachable", &dialError{u: tcp, err: syscall.ENETUNREACH}, "check the address", 1},
		{"export", &dialError{u: tcp, err: &nfsclient.ExportError{Path: "/x", Exports: []string{"/a", "/b"}}}, "/x is not exported; exported: /a, /b", 1},
		{"no exports", &dialError{u: tcp, err: &nfsclient.ExportError{Path: "/x"}}, "nothing is", 1},
		{"mount denied", &dialError{u: tcp, err: &nfsclient.MountError{Path: "/x", Status: mount3.ErrAcces}}, "permission denied (MNT answered MNT3ERR_ACCES): the server may not admit this host, or may require --reserved-port", 1},
		{"an export with TLS", &dialError{u: tcp, err: &fs.PathError{Op: "mount", Path: "/x", Err: status(nfs3.ErrAcces)}}, "the export may want TLS (--tls-ca", 1},
		{"mount gone", &dialError{u: tcp, err: &nfsclient.MountError{Path: "/x", Status: mount3.ErrNoEnt}}, "no such export (MNT answered MNT3ERR_NOENT)", 1},
		{"no MOUNT", &dialError{u: tcp, err: &nfsclient.MountServiceError{Host: "h", Err: errors.New("no")}}, "?mountport=N", 1},
		{"reserved port", &dialError{u: tcp, err: syscall.EACCES, reservedPort: true}, "--reserved-port needs privileges", 1},
		{"permission", status(nfs3.ErrAcces), "permission denied (LOOKUP answered NFS3ERR_ACCES): the server checks the user id", 1},
		{"local permission", &fs.PathError{Op: "open", Path: "/x", Err: syscall.EACCES}, "open /x: permission denied", 1},
		{"too long", status(nfs3.ErrNameTooLong), "file name too long", 1},
		{"lost", argErr("nfs://h/x", "/x", &fs.PathError{Op: "read", Path: "/x", Err: op(rpc.OpCall, syscall.ECONNRESET)}), "nfs://h/x: connection to h:1 lost: connection reset by peer", 1},
		{"lost for good", &fs.PathError{Op: "read", Path: "/x", Err: &rpc.OpError{Op: rpc.OpCall, Err: syscall.ECONNREFUSED}}, "/x: connection lost: connection refused", 1},
		{"a change lost", argErr("nfs://h/x", "/x", &rpc.OutcomeError{Prog: nfs3.Program, Proc: uint32(nfs3.ProcRemove), Err: op(rpc.OpCall, io.EOF)}), "nfs://h/x: connection to h:1 lost: EOF: the server may or may not have done it: look before you try again", 1},
		{"a question lost", argErr("nfs://h/x", "/x", &rpc.OutcomeError{Prog: nfs3.Program, Proc: uint32(nfs3.ProcRead), Err: op(rpc.OpCall, io.EOF)}), "nfs://h/x: connection to h:1 lost: EOF", 1},
		{"lost in a tree", &fs.PathError{Op: "read", Path: "/x", Err: op(rpc.OpCall, io.EOF)}, "/x: connection to h:1 lost: EOF", 1},
		{"port taken", op(rpc.OpListen, syscall.EADDRINUSE), "another server has this port", 1},
		{"low port", op(rpc.OpListen, syscall.EACCES), "ports below 1024 may need privileges", 1},
		{"usage", usagef("wants more"), "wants more", 2},
		{"URL", &nfsclient.URLError{URL: "x", Reason: "bad"}, "x: bad", 2},
		{"file of --config", fmt.Errorf("--config %w", &exports.Error{Where: "f", Why: "line 3: bad"}), "--config f: line 3: bad", 2},
		{"two lines", fmt.Errorf("a\nb"), "a; b", 1},
		{"setting", (&transport.Config{Credits: -1}).Check(), "Credits is -1, want 1 to 4096", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := explain(tt.err)
			if !strings.Contains(got, tt.want) || strings.Contains(got, "\n") {
				t.Errorf("got %q, want it to contain %q", got, tt.want)
			}
			if code := exitStatus(tt.err); code != tt.code {
				t.Errorf("status %d, want %d", code, tt.code)
			}
		})
	}
}

// TestExamples: every command shows how it is used.
func TestExamples(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if !c.Hidden && !c.HasSubCommands() && c.Example == "" {
			t.Errorf("%s has no examples", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk((&app{}).root())
}

func TestModeString(t *testing.T) {
	for m, want := range map[fs.FileMode]string{
		0o644:                             "-rw-r--r--",
		0o755 | fs.ModeDir:                "drwxr-xr-x",
		0o777 | fs.ModeSymlink:            "lrwxrwxrwx",
		0o755 | fs.ModeSetuid:             "-rwsr-xr-x",
		0o644 | fs.ModeSetgid:             "-rw-r-Sr--",
		0o1 | fs.ModeSticky:               "---------t",
		fs.ModeSticky:                     "---------T",
		fs.ModeNamedPipe:                  "p---------",
		fs.ModeSocket:                     "s---------",
		fs.ModeDevice:                     "b---------",
		fs.ModeDevice | fs.ModeCharDevice: "c---------",
	} {
		if got := modeString(m); got != want {
			t.Errorf("modeString(%v) = %q, want %q", m, got, want)
		}
	}
}

func TestListTime(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for want, at := range map[string]time.Time{
		"Nov  1 08:05": time.Date(2026, 11, 1, 8, 5, 0, 0, time.UTC),
		"Nov  1  2025": time.Date(2025, 11, 1, 8, 5, 0, 0, time.UTC),
		"Nov 21  2030": time.Date(2030, 11, 21, 8, 5, 0, 0, time.UTC),
	} {
		if got := listTime(at, now); got != want {
			t.Errorf("listTime(%v) = %q, want %q", at, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	for _, tt := range []struct {
		text, want string
		n          int64
	}{
		{"0", "0", 0},
		{"-1", "-1", -1},
		{"1000", "1000", 1000},
		{"64k", "64K", 64 << 10},
		{"64M", "64M", 64 << 20},
		{"1G", "1G", 1 << 30},
		{"1GiB", "1G", 1 << 30},
		{"2T", "2T", 2 << 40},
		{"1024K", "1M", 1 << 20},
		{"3B", "3", 3},
		{"9223372036854775807", "9223372036854775807", math.MaxInt64},
	} {
		var n int64
		s := number[int64]{&n, math.MinInt64, math.MaxInt64, inOctets}
		if err := s.Set(tt.text); err != nil || n != tt.n || s.String() != tt.want {
			t.Errorf("%s: %d (%s), %v", tt.text, n, s, err)
		}
	}
	for _, text := range []string{"", "M", "64X", "6 4M", "1.5G", "0x10", "9223372036854775808", "8388608T", "64MM", "-8388609T"} {
		var n int64
		if err := (number[int64]{&n, math.MinInt64, math.MaxInt64, inOctets}).Set(text); err == nil {
			t.Errorf("%q is taken, as %d", text, n)
		}
	}
}

// TestVersion: what the Go tool records becomes one line.
func TestVersion(t *testing.T) {
	for _, tt := range []struct {
		info debug.BuildInfo
		want string
	}{
		{debug.BuildInfo{}, "devel"},
		{debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "v1.2.3"},
		{debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"},
		}}, "devel 0123456789ab (modified)"},
	} {
		if got := cliout.VersionOf(&tt.info); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
	if r := command(t.Context(), "", "--version"); r.status != 0 || !strings.HasPrefix(r.stdout, "nfsdemo ") || strings.Count(r.stdout, "\n") != 1 {
		t.Errorf("%+v", r)
	}
}

// TestForeignNames: JSON has the octets of names that are not UTF-8, so that two of them are
// not told as one.
func TestForeignNames(t *testing.T) {
	dir, rdma, _ := start(t)
	if err := os.WriteFile(filepath.Join(dir, "a\xff\xfe"), nil, 0o600); err != nil {
		t.Skip("no such names here:", err)
	}
	if err := os.Symlink("b\x80", filepath.Join(dir, "link")); err != nil {
		t.Skip("no such links here:", err)
	}
	r := command(t.Context(), "", "ls", "--json", rdma)
	if r.status != 0 {
		t.Fatal(r.stderr)
	}
	d := json.NewDecoder(bytes.NewReader([]byte(r.stdout)))
	for _, want := range []struct{ path, target string }{{dir + "/a\xff\xfe", ""}, {"", "b\x80"}} {
		var got fileJSON
		if err := d.Decode(&got); err != nil || string(got.PathOctets) != want.path || string(got.TargetOctets) != want.target {
			t.Errorf("%+v %v", got, err)
		}
	}
}

var manDir = flag.String("man", "", "the directory for the manual pages (packaging/release.sh)")

// TestMan writes the manual pages, dated by SOURCE_DATE_EPOCH: every command has one with its flags and its name, the file of
// exports one with what each option means, and none has what roff takes for a request.
func TestMan(t *testing.T) {
	dir := *manDir
	if dir == "" {
		dir = t.TempDir()
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := Command()
	cmd.DisableAutoGenTag = true
	if err := doc.GenManTree(cmd, &doc.GenManHeader{Section: "1", Source: "stag", Manual: "nfsdemo"}, dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../packaging/nfsdemo.toml.5.md")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, o := range exports.Options() {
		fmt.Fprintf(&b, "**%s**\n: %s\n\n", o[0], cmp.Or(o[1], "as there"))
	}
	page := md2man.Render(fmt.Appendf(nil, string(text), b.String()))
	if err := os.WriteFile(filepath.Join(dir, "nfsdemo.toml.5"), page, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"nfsdemo.toml.5": "crossmnt\nreaches file systems of disks", "nfsdemo.1": "nfsdemo-serve(1)", "nfsdemo-serve.1": "--mount-listen", "nfsdemo-proxy.1": "--backward", "nfsdemo-log-verify.1": "verify",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if plain := strings.NewReplacer(`\fB`, "", `\fP`, "", `\`, "").Replace(string(text)); err != nil || !strings.Contains(plain, want) {
			t.Errorf("%s: %v, no %q", name, err, want)
		}
	}
}

// writeLog makes the file of a log with records.
func writeLog(t *testing.T, change func(b []byte), records ...string) string {
	t.Helper()
	size := must(commitlog.MemorySize(4096))(t)
	mem := make(region.Bytes, size)
	noErr(t, commitlog.Create(mem, nil))
	l := must(commitlog.Open(mem))(t)
	p := commitlog.NewProducer(nil)
	noErr(t, l.Local(t.Context(), p))
	for _, r := range records {
		must(p.Append(t.Context(), []byte(r)))(t)
	}
	p.Close()
	noErr(t, l.Close(t.Context()))
	if change != nil {
		change(mem)
	}
	path := filepath.Join(t.TempDir(), "log")
	noErr(t, os.WriteFile(path, mem, 0o600))
	return path
}

func TestLog(t *testing.T) {
	good := writeLog(t, nil, "first", "\x00\xff", strings.Repeat("long ", 20))
	bad := writeLog(t, func(b []byte) { b[20480+64+28] ^= 1 }, "first", "second", "third")
	version := writeLog(t, func(b []byte) { b[11] = 7 })
	tail := writeLog(t, func(b []byte) { b[8192+7] = 7 }, "first", "second")
	header := writeLog(t, func(b []byte) { b[4096+90] ^= 1 }) // of the only session, which has no record
	head := writeLog(t, func(b []byte) { b[16384] ^= 1 })
	short := writeLog(t, nil)
	noErr(t, os.Truncate(short, 20500))
	for _, tt := range []struct {
		args   []string
		status int
		out    []string
		err    string
	}{
		{[]string{"verify", good}, 0, []string{"version 2, wal, ring of 4096, epoch 1", "tail 256", "records: 3 good: 1 to 3, next 4"}, ""},
		{[]string{"dump", good}, 0, []string{`1      1            0        5  "first"`, "2  00ff", `100  "long long long long long long lo"...`}, ""},
		{[]string{"dump", "--json", good}, 0, []string{`{"seq":1,"epoch":1,"position":0,"length":5,"payload":"Zmlyc3Q="}`, `"records":3}`}, ""},
		{[]string{"verify", bad}, 1, []string{"records: 1 good: 1 to 1\n"}, "record 2 at position 64 is poisoned: wrong checksum"},
		{[]string{"verify", "--json", bad}, 1, []string{`"poison":{"position":64,"seq":2,"reason":"wrong checksum"}`}, "poisoned"},
		{[]string{"verify", version}, 1, nil, "version at octet 8: unknown version: got 0x7, want 0x2 (use a program of that version)"},
		{[]string{"verify", tail}, 1, []string{"(tail word 7)", "records: 2 good: 1 to 2, next 3"}, "its tail word, 8 octets at octet 8192, is damaged: 0x7 is not a multiple of 64 up to 4096. Restore"},
		{[]string{"verify", tail}, 1, nil, "nfsdemo log mend " + tail + " --force"},
		{[]string{"dump", tail}, 1, []string{`"first"`, `"second"`}, "is damaged"},
		{[]string{"mend", good}, 1, nil, "nothing to mend"},
		{[]string{"mend", bad}, 0, []string{"         3      1          128        5  \"third\"\n", "records: 1 good: 1 to 1\n"}, "the log would end at 64, and 1 good record behind the damage would be lost; use --force"},
		{[]string{"mend", "--json", bad}, 0, []string{`{"seq":3,"epoch":1,"position":128,"length":5,"payload":"dGhpcmQ="}`, `"seq":2,"reason":"wrong checksum"`}, ""},
		{[]string{"verify", bad}, 1, nil, "nfsdemo log mend shows"},
		{[]string{"mend", bad, "--force"}, 0, []string{`"third"`}, "the log now ends at 64"},
		{[]string{"verify", bad}, 0, []string{"epoch 2\n", "records: 1 good: 1 to 1, next 2"}, ""},
		{[]string{"mend", version, "--force"}, 1, nil, "unknown version"},
		{[]string{"mend", tail}, 0, []string{"records: 2 good"}, "the log would end at 128, and acknowledged records after it, if any, would be lost; use --force to cut it off there"},
		{[]string{"verify", tail}, 1, nil, "is damaged"},
		{[]string{"mend", tail, "--force"}, 0, nil, "the log now ends at 128"},
		{[]string{"verify", tail}, 0, []string{"tail 128 (tail word 128)", "records: 2 good: 1 to 2, next 3"}, ""},
		{[]string{"verify", header}, 1, []string{"epoch 0\n", "records: empty, next 1"}, "one of its two headers is damaged: commitlog: header checksum at octet 4284: wrong checksum"},
		{[]string{"verify", "--json", head}, 1, []string{`"bad_head":"head checksum"`}, "one of its two head slots is damaged"},
		{[]string{"mend", good + "x"}, 1, nil, "no such file"},
		{[]string{"verify", short}, 1, nil, "wrong size"},
		{[]string{"verify", "/dev/null"}, 1, nil, "wrong size"},
		{[]string{"verify"}, 2, nil, "one file"},
		{[]string{"verify", good + "x"}, 1, nil, "no such file"},
	} {
		r := command(t.Context(), "", append([]string{"log"}, tt.args...)...)
		if r.status != tt.status || !strings.Contains(r.stderr, tt.err) {
			t.Errorf("%v: status %d, %s", tt.args, r.status, r.stderr)
		}
		for _, want := range tt.out {
			if !strings.Contains(r.stdout, want) {
				t.Errorf("%v: no %q in\n%s", tt.args, want, r.stdout)
			}
		}
	}
}

// TestReplies: changes with --replies are noted and answered into the logs, and leave nothing
// behind; what a crash leaves, log replies shows, and the next run tells and strikes out.
func TestReplies(t *testing.T) {
	serve := func(replies string) (url string) {
		t.Helper()
		s := started(t, &serviceConfig{
			exports: one(t.TempDir()), rdma: "127.0.0.1:0", replies: replies, config: new(transport.Config),
		})
		return "nfs+rdma://" + addrOf(s.rdma) + s.path
	}
	url, dir := serve("127.0.0.1:0"), filepath.Join(t.TempDir(), "logs")
	run := func(args ...string) result {
		t.Helper()
		r := command(t.Context(), "", args...)
		if r.status != 0 {
			t.Fatalf("%v: %d, %s", args, r.status, r.stderr)
		}
		return r
	}
	run("mkdir", "--replies", dir, url+"/a", url+"/b")
	r := run("mv", "--replies", dir, url+"/a", url+"/c")
	if r.stderr != "" {
		t.Errorf("after a clean run: %s", r.stderr)
	}
	if n := strings.Count(run("log", "replies", dir).stdout, "\n"); n != 1 {
		t.Errorf("%d lines of a clean log", n)
	}
	if n := pushedReplies(t, dir); n < 3 {
		t.Errorf("%d replies were pushed", n)
	}
	crashed := crash(t, dir)
	out := run("log", "replies", crashed).stdout
	if !strings.Contains(out, "00000007  RENAME    NFS3ERR_NOENT") || !strings.Contains(out, "MKDIR     not answered") {
		t.Errorf("log replies:\n%s", out)
	}
	out = run("log", "replies", "--json", crashed).stdout
	if !strings.Contains(out, `"name":"RENAME"`) || !strings.Contains(out, `"answered":false`) {
		t.Errorf("log replies --json:\n%s", out)
	}
	r = run("rm", "-r", "--replies", crashed, url+"/c")
	if !strings.Contains(r.stderr, "was answered: RENAME") || !strings.Contains(r.stderr, "was not answered, and may have been done: MKDIR") {
		t.Errorf("the run after a crash printed %s", r.stderr)
	}
	if r = run("mkdir", "--replies", crashed, url+"/d"); r.stderr != "" {
		t.Errorf("the run after that printed %s", r.stderr)
	}
	if r = run("mkdir", "--replies", dir, serve("")+"/a"); !strings.Contains(r.stderr, "this server does not push replies") {
		t.Errorf("without pushed replies it printed %q", r.stderr)
	}
	for _, wrong := range []struct {
		want string
		args []string
	}{
		{"no reply logs here", []string{"log", "replies", t.TempDir()}},
		{"--replies is for nfs+rdma", []string{"mkdir", "--replies", dir, "nfs://127.0.0.1/export/x"}},
		{"not an address", []string{"serve", "--export", ".", "--replies", "here"}},
		{"--replies", []string{"mkdir", "--replies", "/dev/null/logs", url + "/x"}},
	} {
		if r := command(t.Context(), "", wrong.args...); r.status == 0 || !strings.Contains(r.stderr, wrong.want) {
			t.Errorf("%v: %d, %s", wrong.args, r.status, r.stderr)
		}
	}
}

// pushedReplies is how many replies the log of a directory has ever had.
func pushedReplies(t *testing.T, dir string) int {
	t.Helper()
	f := must(os.Open(filepath.Join(dir, repliesFile)))(t)
	defer f.Close()
	info := must(commitlog.Inspect(f, repliesSize, nil))(t)
	return int(info.NextSeq) - 1
}

// crash makes logs in which there is a reply and a call without one.
func crash(t *testing.T, dir string) string {
	t.Helper()
	live, dead := filepath.Join(filepath.Dir(dir), "live"), filepath.Join(filepath.Dir(dir), "dead")
	d := must(openReplies(live))(t)
	defer d.close()
	appendReply(t, d)
	silent := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	ctx, cancel := context.WithCancel(t.Context())
	c, err := replies.Open(&replies.Config{Memory: d.replies, Calls: d.calls, Redial: redial.Config{
		Dial: func(ctx context.Context) (redial.Conn, error) {
			return transport.Dial(ctx, "tcp", silent.Addr().String(), nil)
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan error)
	go func() {
		over <- c.Do(ctx, &rpc.Call{Prog: nfs3.Program, Vers: 3, Proc: uint32(nfs3.ProcMkdir)}, new(rpc.Reply))
	}()
	eventually(t, func() bool {
		_ = os.RemoveAll(dead)
		noErr(t, os.CopyFS(dead, os.DirFS(live)))
		st, err := inspectReplies(dead)
		return err == nil && len(st.Unanswered) == 1
	}, "no note of the call")
	cancel()
	if err := errors.Join(<-over, c.Close()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	return dead
}

// appendReply does what a server does.
func appendReply(t *testing.T, d *repliesDir) {
	t.Helper()
	l := must(commitlog.Open(d.replies))(t)
	p := commitlog.NewProducer(nil)
	noErr(t, l.Local(t.Context(), p))
	var b []byte
	for _, v := range []uint32{1, nfs3.Program, 3, uint32(nfs3.ProcRename)} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	b = append(b, make([]byte, 32)...)
	b = binary.BigEndian.AppendUint32(b, 7) // the RDMA header begins with the XID
	b = append(b, make([]byte, 24)...)
	b = xdr.AppendReply(b, &xdr.ReplyHeader{XID: 7})
	must(p.Append(t.Context(), xdr.AppendUint32(b, uint32(nfs3.ErrNoEnt))))(t)
	p.Close()
	noErr(t, l.Close(t.Context()))
}

// TestReplyLogsFollowMemory: there are as many logs as --memory-limit has room for, and one host has an eighth of them.
func TestReplyLogsFollowMemory(t *testing.T) {
	cfg := &transport.Config{Limits: transport.Limits{Memory: 4 << 20}} // 16 logs
	s := started(t, &serviceConfig{exports: one(t.TempDir()), rdma: "127.0.0.1:0", replies: "127.0.0.1:0", config: cfg})
	c := must(transport.Dial(t.Context(), "tcp", addrOf(s.rdma), nil))(t)
	defer c.Close()
	for i, want := range []uint32{1, 1, 2} { // to connect, to connect, busy
		var reply rpc.Reply
		args := xdr.AppendBool(xdr.AppendUint32(append(make([]byte, 15), byte(i)), 1), true)
		if err := c.Do(t.Context(), &rpc.Call{Prog: replies.Program, Vers: replies.Version, Proc: 1, Args: args, MaxResults: 400}, &reply); err != nil {
			t.Fatal(err)
		}
		if d := xdr.NewDecoder(reply.Results); d.Uint32() != want {
			t.Errorf("offer %d is answered otherwise than with %d", i, want)
		}
		reply.Release()
	}
}

// TestDoctor: the command prints what it found, and its status says who is in the way.
func TestDoctor(t *testing.T) {
	s := started(t, &serviceConfig{exports: one(t.TempDir()), rdma: "127.0.0.1:0", mount: "127.0.0.1:0", config: &transport.Config{}})
	_, mount, _ := net.SplitHostPort(addrOf(s.mount))
	at := addrOf(s.rdma) + "/?mountport=" + mount
	if r := command(t.Context(), "", "doctor", "--server-only", at); r.status != exitOK || !strings.Contains(r.stdout, "\n  mount -t nfs -o vers=3,rdma,port=") || !strings.Contains(r.stdout, ",mountport="+mount+",") || r.stderr != "" {
		t.Errorf("%+v", r)
	}
	r := command(t.Context(), "", "doctor", "--server-only", "--json", strings.Replace(at, "/?", "/none?", 1))
	var out doctorJSON
	if err := json.Unmarshal([]byte(r.stdout), &out); err != nil || r.status != exitFailed || len(out.Results) != 7 || out.Results[5].State != "failed" || out.Results[5].Fix == "" || out.Mount != "" || r.stderr != "" {
		t.Errorf("%+v %v", r, err)
	}
	for _, tt := range []struct{ arg, want string }{
		{"nfs://127.0.0.1/x", "use nfs+rdma://127.0.0.1/x"}, {"ftp://x", "nfs+rdma://"}, {"host:99999", "port"},
	} {
		if r := command(t.Context(), "", "doctor", tt.arg); r.status != exitUsage || !strings.Contains(r.stderr, tt.want) {
			t.Errorf("%s: %+v", tt.arg, r)
		}
	}
	for arg, want := range map[string]string{"host": "host:20049", "::1": "[::1]:20049", "[::1]:5": "[::1]:5", "host:7/x": "host:7"} {
		if u, err := doctorURL(arg, false, false); err != nil || u.Addr() != want {
			t.Errorf("%s: %v, %v", arg, u, err)
		}
	}
	if exitStatus(errMachine) != exitMachine || exitStatus(errReported) != exitFailed {
		t.Error("the statuses are not told apart")
	}
}

// TestDoctorOwnServer: a server of this machine is asked for its own problems, by the user who may.
func TestDoctorOwnServer(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	t.Setenv("STATE_DIRECTORY", state)
	lost := filepath.Join(dir, "lost")
	s := started(t, &serviceConfig{
		exports: append(one(dir), one(lost)...), state: state, rdma: "127.0.0.1:0", mount: "127.0.0.1:0", config: &transport.Config{},
	})
	_, mount, _ := net.SplitHostPort(addrOf(s.mount))
	look := func(want string) {
		t.Helper()
		r := command(t.Context(), "", "doctor", "--server-only", addrOf(s.rdma)+"/?mountport="+mount)
		if r.status != exitOK || !strings.Contains(r.stdout, want) {
			t.Errorf("%+v, want %q", r, want)
		}
	}
	look("warning  server     " + lost + ": no such directory: make it first\n")
	if _, err := s.unexport(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	look("ok       server     the server of this machine has no problems\n")
}

// TestDoctorNames: the server names its exports. What it names does not act on the terminal, and is no line of its own.
func TestDoctorNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a\x1b[2J\nok       port")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip("this system has no such names of directories: ", err)
	}
	s := started(t, &serviceConfig{exports: one(dir), rdma: "127.0.0.1:0", mount: "127.0.0.1:0", config: &transport.Config{}})
	_, mount, _ := net.SplitHostPort(addrOf(s.mount))
	for _, path := range []string{"/", "/none"} {
		r := command(t.Context(), "", "doctor", "--server-only", addrOf(s.rdma)+path+"?mountport="+mount)
		if strings.Contains(r.stdout, "\x1b") || strings.Contains(r.stdout, "\nok       port\n") || strings.Contains(r.stdout, "mount -t") || !strings.Contains(r.stdout, "a?[2J?ok") {
			t.Errorf("%q", r.stdout)
		}
	}
	r := command(t.Context(), "", "ls", "nfs+rdma://"+addrOf(s.rdma)+"/none?mountport="+mount)
	if r.status != exitFailed || strings.Contains(r.stderr, "\x1b") || !strings.Contains(r.stderr, "a?[2J") {
		t.Errorf("%+v", r)
	}
}
