package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stag-rdma/stag/rdmap"
)

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
