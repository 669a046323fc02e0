package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/stag-rdma/stag/conformance/internal/probe"
	"github.com/stag-rdma/stag/rdmap/capture"
)

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
	out := &probeText{w: cmd.OutOrStdout(), json: f.json, verbose: f.verbose}
	if f.list {
		for _, c := range p.Cases() {
			out.describe(&c)
		}
		return nil
	}
	expected, err := f.expectations((&probe.Trap{}).Cases())
	if err != nil {
		return err
	}
	if f.run != "" {
		p.Client = func(ctx context.Context, addr string) probe.ClientRun { return runClient(ctx, f.run, addr) }
	}
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return err
	}
	defer l.Close()
	if f.run == "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "listening on %v; connect a client for each of %d cases\n", l.Addr(), len(p.Cases()))
	}
	if f.write != "" {
		if p.Capture, err = capture.Create(f.write); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.Capture.Close()) }()
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return f.conclude(cmd, out, l.Addr().String(), expected, func(report func(*probe.Result)) (int, error) {
		return p.Run(ctx, l, report)
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
