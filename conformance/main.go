// Command conformance looks at iWARP and RPC-over-RDMA from outside:
//
//	conformance decode FILE...      what the packets of a capture say, one line per frame
//	conformance judge FILE...       which rules of the RFCs the peers in a capture break
//	conformance probe HOST:PORT     bad input for a live server, and whether it survives
//	conformance matrix DIR          several peers, compared on one page
//	conformance rping               either side of the RDMA world's own ping
//
// All commands follow the same conventions. Results go to standard output, as JSON with --json; everything
// else goes to standard error. An error is one line. The exit status is 0 if all went well, and 2 if the
// command line was not understood; the help of each command lists the others.
//
// The tests also check the project itself: the layering, the documentation.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/internal/cliout"
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

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run runs the command in args (without the program's name) and returns the exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
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
	cmd.AddCommand(decodeCmd(), judgeCmd(), rpingCmd(), probeCmd(), matrixCmd())
	return cmd
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
