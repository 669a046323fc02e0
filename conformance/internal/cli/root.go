// Package cli holds the commands of conformance:
//
//	conformance decode FILE...      what the packets of a capture say, one line per frame
//	conformance judge FILE...       which rules of the RFCs the peers in a capture break
//	conformance tshark FILE...      what tshark finds wrong with a capture
//	conformance probe HOST:PORT     bad input for a live server, and whether it survives
//	conformance rping               either side of the RDMA world's own ping
//
// All commands follow the same conventions. Results go to standard output, as JSON with --json; everything
// else goes to standard error. An error is one line. The exit status is 0 if all went well, and 2 if the
// command line was not understood; the help of each command lists the others.
//
// The commands are thin: the work is done in package conformance/internal/decode and its neighbours.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/internal/cliout"
	"github.com/stag-rdma/stag/rdmap"
	"golang.org/x/term"
)

// Exit statuses.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	exitStrict = 3
	exitUnsure = 4
)

// exitError is an error with its exit status. An empty message prints nothing: everything has been printed
// already.
type exitError struct {
	status int
	msg    string
}

func (e *exitError) Error() string { return e.msg }

// usagef returns an error in the command line.
func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Sprintf(format, args...)}
}

// Main runs the command in args (without the program's name) and returns the exit status.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root, out := newRoot(), cliout.New(stdout)
	root.SetArgs(append([]string{}, args...)) // nil would mean the arguments of the process
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(stderr)
	err := root.Execute()
	if err == nil {
		err = out.Err() // of callers that print without checking
	}
	if err == nil {
		return exitOK
	}
	status := exitFailed
	if e, ok := errors.AsType[*exitError](err); ok {
		status = e.status
	}
	if err.Error() != "" {
		fmt.Fprintln(stderr, "conformance: "+err.Error())
	}
	return status
}

// below names cmd without the program, whose name is already at the beginning of the line.
func below(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// newRoot builds the tree of commands.
func newRoot() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "conformance",
		Short: "Look at iWARP and RPC-over-RDMA from outside",
		Long: `conformance reads captures of iWARP and RPC-over-RDMA peers, ours or anybody's, and
tests live servers with bad input.`,
		Example: `  conformance decode trace.pcap
  conformance judge trace.pcap
  conformance probe 127.0.0.1:20049
  tcpdump -i lo -w - port 20049 | conformance decode -`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q: see %s --help", args[0], cmd.CommandPath())
			}
			return nil
		},
		Version:       cliout.Version(),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.CompletionOptions.HiddenDefaultCmd = true
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%v (see %s --help)", err, c.CommandPath())
	})
	cmd.AddCommand(decodeCmd(), judgeCmd(), tsharkCmd(), rpingCmd(), probeCmd(), matrixCmd())
	return cmd
}

// meterDelay is how long a file is read before its bar appears.
const meterDelay = 500 * time.Millisecond

// meter draws a progress bar for a file that takes long to read. A nil *meter draws nothing.
type meter struct {
	w     io.Writer
	name  string
	size  int64 // -1 if it is not known
	done  int64
	start time.Time
	bar   *progressbar.ProgressBar
}

// newMeter returns nil if w is not a terminal.
func newMeter(w io.Writer, name string, in any) *meter {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	p := &meter{w: w, name: name, size: -1, start: time.Now()}
	if f, ok := in.(*os.File); ok {
		if st, err := f.Stat(); err == nil && st.Mode().IsRegular() {
			p.size = st.Size()
		}
	}
	return p
}

// reader returns r, and counts what is read from it.
func (p *meter) reader(r io.Reader) io.Reader {
	if p == nil {
		return r
	}
	return io.TeeReader(r, p)
}

// Write counts octets.
func (p *meter) Write(b []byte) (int, error) {
	p.done += int64(len(b))
	if p.bar == nil && time.Since(p.start) > meterDelay {
		p.bar = progressbar.NewOptions64(p.size,
			progressbar.OptionSetWriter(p.w), progressbar.OptionShowBytes(true), progressbar.OptionUseIECUnits(true),
			progressbar.OptionSetDescription(p.name), progressbar.OptionSetWidth(24),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	if p.bar != nil {
		_ = p.bar.Set64(p.done) // a terminal that cannot be written to does not matter
	}
	return len(b), nil
}

// end removes the bar.
func (p *meter) end() {
	if p != nil && p.bar != nil {
		_ = p.bar.Clear()
	}
}

// peerFlags are the flags of every command that is one side of another project's protocol.
type peerFlags struct {
	noCRC, requireCRC bool
	timeout           time.Duration
	listen            string // of a server
}

// add defines them for cmd and its subcommands; what names the thing that --timeout limits.
func (f *peerFlags) add(cmd *cobra.Command, what string) {
	flags := cmd.PersistentFlags()
	flags.BoolVar(&f.noCRC, "no-crc", false, "do without CRC32C if the peer does not want it either")
	flags.BoolVar(&f.requireCRC, "require-crc", false, "fail if the connection has no CRC32C")
	flags.DurationVar(&f.timeout, "timeout", time.Minute, "limit of one "+what)
}

func (f *peerFlags) check() error {
	switch {
	case f.timeout <= 0:
		return usagef("--timeout %v: want more than 0", f.timeout)
	case f.noCRC && f.requireCRC:
		return usagef("--no-crc and --require-crc exclude each other")
	}
	return nil
}

// serve listens on --listen, says so, and calls run until it returns. The context of run ends when the
// command is interrupted; run closes the listener.
func (f *peerFlags) serve(cmd *cobra.Command, name string, run func(ctx context.Context, l net.Listener) error) error {
	if err := f.checkListen(); err != nil {
		return err
	}
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	fmt.Fprintf(cmd.ErrOrStderr(), "conformance: %s server on %v\n", name, l.Addr())
	return run(ctx, l)
}

// failed is the error of a client, on one line.
func (f *peerFlags) failed(addr string, err error) error {
	text := oneLine(err)
	if errors.Is(err, syscall.ECONNREFUSED) {
		text += ": start the server, or give its port"
	}
	return fmt.Errorf("%s: %s", addr, text)
}

// oneLine returns the text of an error; joined errors have a line each.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// checkListen refuses what cannot be an address. Listen reports whether this machine has it.
func (f *peerFlags) checkListen() error {
	_, port, err := net.SplitHostPort(f.listen)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return usagef("--listen %q is not an address: write host:port, for example 127.0.0.1:0", f.listen)
	}
	return nil
}

func (f *peerFlags) crc() rdmap.CRCMode {
	if f.noCRC {
		return rdmap.CRCOff
	}
	return rdmap.CRCOn
}

// agreed returns an error if a connection worked, but without the CRC that was required.
func (f *peerFlags) agreed(state rdmap.ConnectionState) error {
	if f.requireCRC && !state.CRC {
		return errors.New("the connection has no CRC32C")
	}
	return nil
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// wantArgs accepts exactly n arguments; what says which.
func wantArgs(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < n:
			return usagef("%s wants %s: see %s --help", below(cmd), what, cmd.CommandPath())
		case len(args) > n:
			return usagef("unexpected argument %q: see %s --help", args[n], cmd.CommandPath())
		}
		return nil
	}
}
