package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/conformance/internal/probe"
	"github.com/stag-rdma/stag/rdmap/capture"
)

// probeFlags are the flags of probe.
type probeFlags struct {
	list, json, verbose bool
	only, skip, write   string
	timeout, quiet      time.Duration
	program, version    uint32
	clients, pid        int
	expect, junit       string
	handle              string
	listen, server, run string
}

func probeCmd() *cobra.Command {
	var f probeFlags
	cmd := &cobra.Command{
		Use:   "probe HOST:PORT",
		Short: "Send bad input to a live server, and see whether it survives",
		Long: `probe connects to a server that speaks RPC-over-RDMA on iWARP, ours or anybody's, and
sends it bad input, and valid input of unusual kinds, each on its own connection: startup
frames, FPDUs, DDP segments, RDMAP messages, RPC-over-RDMA headers, RPC calls. It says
what the server did about each, and gives a verdict:

  ok         what the RFC names
  tolerated  something that the RFC allows, or that a known server does without harm
  FAILS      another answer, silence, memory touched that nobody offered, a bad call
             executed; or the server did not survive: after each case it must answer a
             NULL call on a fresh connection, and another on one that has been open from
             the start

The probe changes nothing at the server: it calls only NULL, and procedures, versions
and programs that do not exist; with --handle also READ. But a server may not survive it: probe one that nobody
needs meanwhile.

Each connection is judged as well (conformance judge): a case fails if the server breaks
a rule that a client may not ignore. The last cases are about load and, with --pid, about
what the server's process uses afterwards.

With --listen it is the other way round: a hostile server for clients of any kind. It passes
everything on to the good --server and back, but each case changes what the server says.
--run is a shell command that is run for each case, with $STAG_ADDRESS, $STAG_HOST and
$STAG_PORT; without it a client must connect by itself for each case. A case fails if the
client crashes, hangs, gets what it wants from a server that it must refuse, or sends what
the RFCs forbid.

Exit status: 0 nothing fails, or --expect is met; 1 something does, --expect is not met,
or there is no server; 2 bad command line.`,
		Example: `  conformance probe 127.0.0.1:20049
  conformance probe --list --only '^mpa/'
  conformance probe --only '^(ddp|rdmap)/' --skip terminate --verbose 192.0.2.1:20049
  conformance probe --program 100005 --json 192.0.2.1:20049 >probe.json
  conformance probe --expect knfsd.expect --junit probe.xml 192.0.2.1:20049
  conformance probe --listen 127.0.0.1:0 --server 127.0.0.1:20049 --run 'nfsdemo ls nfs+rdma://$STAG_ADDRESS/data'
  conformance probe --pid "$(pidof nfsdemo)" 127.0.0.1:20049
  conformance probe --write probe.pcapng 127.0.0.1:20049; conformance decode probe.pcapng`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.list || f.listen != "" {
				return wantArgs(0, "")(cmd, args)
			}
			return wantArgs(1, "the server's HOST:PORT")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.listen == "" && (f.server != "" || f.run != ""):
				return usagef("--server and --run are about --listen")
			case f.listen != "" && f.server == "" && !f.list:
				return usagef("--listen wants --server HOST:PORT, a good server")
			case f.listen != "":
				return f.trap(cmd)
			}
			p, err := f.prober(args)
			if err != nil {
				return err
			}
			all := (&probe.Prober{Usage: func() (u probe.Usage, err error) { return u, nil }}).Cases()
			return f.play(cmd, p.Cases(), all, &p.Capture, func(ctx context.Context) (string, player, error) { return p.Address, p.Run, nil })
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.list, "list", false, "print what would be sent and what is wanted, and stop")
	flags.StringVar(&f.only, "only", "", "play only the cases whose names match this `REGEXP`")
	flags.StringVar(&f.skip, "skip", "", "leave out the cases whose names match this `REGEXP`")
	flags.BoolVar(&f.json, "json", false, "print one JSON object per case")
	flags.BoolVar(&f.verbose, "verbose", false, "print everything about every case, not only about those that fail")
	flags.DurationVar(&f.timeout, "timeout", probe.DefaultTimeout, "limit of the server's silence on a connection")
	flags.DurationVar(&f.quiet, "quiet", probe.DefaultQuiet, "how long to wait for something that should not come")
	flags.Uint32Var(&f.program, "program", probe.DefaultProgram, "call NULL of this RPC program")
	flags.Uint32Var(&f.version, "version", probe.DefaultVersion, "its version")
	flags.StringVar(&f.handle, "handle", "", "an NFSv3 file handle in hexadecimal: also READ this file, whose 5 first octets anybody may read")
	flags.IntVar(&f.clients, "clients", probe.DefaultClients, "connections of the case load/clients")
	flags.IntVar(&f.pid, "pid", 0, "the server's `PROCESS` on this machine: compare what it uses before and after (/proc)")
	flags.StringVar(&f.expect, "expect", "", "compare with `FILE`: lines with case, fails or tolerated, and after # the reason")
	flags.StringVar(&f.junit, "junit", "", "write a JUnit report to `FILE`")
	flags.StringVar(&f.listen, "listen", "", "be a hostile server at this `ADDRESS`")
	flags.StringVar(&f.server, "server", "", "the good server behind --listen, `HOST:PORT`")
	flags.StringVar(&f.run, "run", "", "the client of --listen, a shell `COMMAND`")
	flags.StringVar(&f.write, "write", "", "record all connections in this pcapng `FILE`")
	return cmd
}

// prober checks the flags.
func (f *probeFlags) prober(args []string) (*probe.Prober, error) {
	p := &probe.Prober{Program: f.program, Version: f.version, Timeout: f.timeout, Quiet: f.quiet}
	if f.timeout <= 0 || f.quiet <= 0 {
		return nil, usagef("--timeout %v, --quiet %v: want more than 0", f.timeout, f.quiet)
	}
	if f.clients < 1 || f.pid < 0 {
		return nil, usagef("--clients %d, --pid %d: want more than 0", f.clients, f.pid)
	}
	p.Clients = f.clients
	if f.pid > 0 {
		p.Usage = func() (probe.Usage, error) { return probe.UsageOf(f.pid) }
		if _, err := p.Usage(); err != nil {
			return nil, usagef("--pid %d: %v", f.pid, err)
		}
	}
	var err error
	if p.Handle, err = hex.DecodeString(f.handle); err != nil || len(p.Handle) > 64 {
		return nil, usagef("--handle %q: want at most 64 octets in hexadecimal", f.handle)
	}
	if p.Only, err = pattern("--only", f.only); err != nil {
		return nil, err
	}
	if p.Skip, err = pattern("--skip", f.skip); err != nil {
		return nil, err
	}
	if len(p.Cases()) == 0 {
		return nil, usagef("--only %q --skip %q: no case has such a name: see conformance probe --list", f.only, f.skip)
	}
	if len(args) > 0 {
		p.Address = args[0]
		if _, _, err := net.SplitHostPort(p.Address); err != nil {
			return nil, usagef("%q is not an address: write host:port, for example 127.0.0.1:20049", p.Address)
		}
	}
	return p, nil
}

// pattern compiles the value of a flag; nil stands for none.
func pattern(flag, expr string) (*regexp.Regexp, error) {
	if expr == "" {
		return nil, nil //nolint:nilnil // no pattern is no error
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, usagef("%s %q: %v", flag, expr, err)
	}
	return re, nil
}

// player plays cases, and reports each. It returns how many failed.
type player func(ctx context.Context, report func(*probe.Result)) (failed int, err error)

// play lists the cases, or plays them to the peer at the address that open returns. all are those that --expect may name.
func (f *probeFlags) play(cmd *cobra.Command, cases, all []probe.Case, to **capture.Writer, open func(context.Context) (string, player, error)) (err error) {
	out := &probeText{w: cmd.OutOrStdout(), json: f.json, verbose: f.verbose}
	if f.list {
		for _, c := range cases {
			out.describe(&c)
		}
		return nil
	}
	expected, err := f.expectations(all)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	addr, run, err := open(ctx)
	if err != nil {
		return err
	}
	if f.write != "" {
		if *to, err = capture.Create(f.write); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, (*to).Close()) }()
	}
	return f.conclude(cmd, out, addr, expected, func(report func(*probe.Result)) (int, error) { return run(ctx, report) })
}

// expectations reads the file of --expect; nil without one.
func (f *probeFlags) expectations(all []probe.Case) (probeExpect, error) {
	if f.expect == "" {
		return nil, nil //nolint:nilnil // none is no error
	}
	names := make(map[string]bool)
	for _, c := range all {
		names[c.Name] = true
	}
	return readProbeExpect(f.expect, func(name string) bool { return names[name] })
}

// conclude plays the cases and prints what comes of them.
func (f *probeFlags) conclude(cmd *cobra.Command, out *probeText, addr string, expected probeExpect, play func(func(*probe.Result)) (int, error)) error {
	if f.junit != "" { // a name that cannot be written is worth knowing before, not afterwards
		if err := create(f.junit, func(io.Writer) error { return nil }); err != nil {
			return err
		}
	}
	verdicts := make(map[string]string)
	suite := junitSuite{Name: "probe " + addr}
	failed, err := play(func(r *probe.Result) {
		out.result(r)
		verdicts[r.Name] = r.Verdict
		suite.add(r, expected[r.Name])
	})
	out.sum(addr)
	if f.junit != "" {
		if err != nil {
			suite.broken(err)
		}
		if e := create(f.junit, suite.write); e != nil {
			return e
		}
	}
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	case err != nil:
		return fmt.Errorf("%s: %w", addr, err)
	case expected != nil:
		text := cmd.OutOrStdout()
		if f.json {
			text = cmd.ErrOrStderr()
		}
		if expected.diff(text, f.expect, verdicts) {
			return &exitError{exitFailed, ""}
		}
	case failed > 0:
		return &exitError{exitFailed, ""}
	}
	return nil
}

// probeExpect holds the cases in which a server is known not to be ok, each with the reason:
//
//	mpa/markers tolerated    # siw has no markers
type probeExpect map[string]string // verdicts by case

// readProbeExpect reads a file of --expect. Cases must exist, and every line says why.
func readProbeExpect(name string, known func(string) bool) (probeExpect, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, unreadable(name, err)
	}
	defer f.Close()
	e := make(probeExpect)
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		text, why, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(text)
		reason := ""
		switch {
		case len(fields) == 0:
			continue
		case len(fields) != 2 || fields[1] != "fails" && fields[1] != "tolerated":
			reason = "want a case, then fails or tolerated"
		case strings.TrimSpace(why) == "":
			reason = "want the reason after #"
		case !known(fields[0]):
			reason = fmt.Sprintf("no case %s (conformance probe --list lists them)", fields[0])
		case e[fields[0]] != "":
			reason = fields[0] + " a second time"
		}
		if reason != "" {
			return nil, &exitError{exitUsage, fmt.Sprintf("%s: line %d: %s", name, n, reason)}
		}
		e[fields[0]] = fields[1]
	}
	if err := lines.Err(); err != nil {
		return nil, unreadable(name, err)
	}
	return e, nil
}

// diff prints how the verdicts differ from what is expected, and reports whether they do. Cases that were not
// played do not differ.
func (e probeExpect) diff(w io.Writer, name string, got map[string]string) bool {
	var lines []string
	for c, v := range got {
		want := e[c]
		if want == "" {
			want = "ok"
		}
		if v != want {
			lines = append(lines, fmt.Sprintf("  %s %s, expected: %s\n", c, v, want))
		}
	}
	slices.Sort(lines)
	if len(lines) == 0 {
		fmt.Fprintf(w, "as %s expects\n", name)
		return false
	}
	fmt.Fprintf(w, "not as %s expects:\n%s", name, strings.Join(lines, ""))
	return true
}

// trap plays a hostile server to clients.
func (f *probeFlags) trap(cmd *cobra.Command) (err error) {
	p := &probe.Trap{Server: f.server, Timeout: f.timeout}
	if !cmd.Flags().Changed("timeout") {
		p.Timeout = probe.DefaultClientTimeout
	}
	if p.Only, err = pattern("--only", f.only); err != nil {
		return err
	}
	if p.Skip, err = pattern("--skip", f.skip); err != nil {
		return err
	}
	if f.run != "" {
		p.Client = func(ctx context.Context, addr string) probe.ClientRun { return runClient(ctx, f.run, addr) }
	}
	return f.play(cmd, p.Cases(), (&probe.Trap{}).Cases(), &p.Capture, func(context.Context) (string, player, error) {
		l, err := net.Listen("tcp", f.listen)
		if err != nil {
			return "", nil, err
		}
		if f.run == "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "listening on %v; connect a client for each of %d cases\n", l.Addr(), len(p.Cases()))
		}
		return l.Addr().String(), func(ctx context.Context, report func(*probe.Result)) (int, error) {
			defer l.Close()
			return p.Run(ctx, l, report)
		}, nil
	})
}

// runClient runs a shell command that is a client of the server at addr.
func runClient(ctx context.Context, command, addr string) (r probe.ClientRun) {
	host, port, _ := net.SplitHostPort(addr)
	c := exec.CommandContext(ctx, "sh", "-c", command)
	c.Env = append(os.Environ(), "STAG_ADDRESS="+addr, "STAG_HOST="+host, "STAG_PORT="+port)
	ownGroup(c)
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	err := c.Run()
	exit, _ := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return probe.ClientRun{Did: "exit status 0", OK: true}
	case ctx.Err() != nil:
		return probe.ClientRun{Did: "stopped", Hung: true}
	case exit == nil:
		return probe.ClientRun{Did: err.Error()}
	}
	status := exit.ExitCode() // of the shell: 128 and the signal
	r.Did = fmt.Sprintf("exit status %d", status)
	r.Crashed = status < 0 || status > 128 || bytes.Contains(said.Bytes(), []byte("\ngoroutine 1 [")) || bytes.Contains(said.Bytes(), []byte("panic: "))
	return r
}
