package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stag-rdma/stag/rdmap"
)

// rpingFlags are the flags of rping server and rping client.
type rpingFlags struct {
	noCRC, requireCRC, json bool
	timeout                 time.Duration
	listen                  string
	conns                   int
	size, count             int
}

func rpingCmd() *cobra.Command {
	var f rpingFlags
	cmd := &cobra.Command{
		Use:   "rping",
		Short: "Be either side of rping, rdma-core's test of RDMA connections",
		Long: `rping speaks the protocol of rdma-core's rping on our engine: the server reads the
client's buffer by RDMA Read and writes it back by RDMA Write. The client compares
every octet. CRC32C is on when either side wants it.`,
		Example: `  conformance rping server --listen 127.0.0.1:7174
  conformance rping client --size 60000 --count 3 127.0.0.1:7174`,
		Args: wantArgs(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := cmd.PersistentFlags()
	flags.BoolVar(&f.json, "json", false, "print one JSON object per connection")
	flags.BoolVar(&f.noCRC, "no-crc", false, "do without CRC32C if the peer does not want it either")
	flags.BoolVar(&f.requireCRC, "require-crc", false, "fail if the connection has no CRC32C")
	flags.DurationVar(&f.timeout, "timeout", time.Minute, "limit of one connection")
	cmd.AddCommand(rpingServerCmd(&f), rpingClientCmd(&f))
	return cmd
}

func rpingServerCmd(f *rpingFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Answer rping clients until interrupted",
		Long: `server answers rping clients, and prints a line per connection, until it is
interrupted or --conns connections have ended.

Exit status: 0 done; 1 the address cannot be used or a connection failed; 2 bad
command line.`,
		Example: `  conformance rping server --listen 127.0.0.1:7174 --conns 1
  rping -c -a 192.0.2.1 -p 7174 -S 4096 -C 3 -V     # on a machine with RDMA`,
		Args: wantArgs(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.server(cmd) },
	}
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:7174", "`ADDRESS:PORT` to listen on")
	cmd.Flags().IntVar(&f.conns, "conns", 0, "end after this many connections; 0: never")
	return cmd
}

func rpingClientCmd(f *rpingFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "client ADDRESS:PORT",
		Short: "Ping an rping server and compare what comes back",
		Long: `client makes --count pings of --size octets over one connection and compares what
comes back. rping's own server accepts at most the octets of its -S.

Exit status: 0 done; 1 no connection, a connection that failed, or data other than
was sent; 2 bad command line.`,
		Example: `  rping -s -P -a 192.0.2.1 -p 7174 -S 60000         # on a machine with RDMA
  conformance rping client --size 60000 --count 3 192.0.2.1:7174`,
		Args: wantArgs(1, "the server's ADDRESS:PORT"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.client(cmd, args[0]) },
	}
	cmd.Flags().IntVar(&f.size, "size", 64, "octets of a ping")
	cmd.Flags().IntVar(&f.count, "count", 1, "number of pings")
	return cmd
}

// crc checks the flags, and returns what they say about CRC32C.
func (f *rpingFlags) crc() (rdmap.CRCMode, error) {
	switch {
	case f.timeout <= 0:
		return 0, usagef("--timeout %v: want more than 0", f.timeout)
	case f.noCRC && f.requireCRC:
		return 0, usagef("--no-crc and --require-crc exclude each other")
	case f.noCRC:
		return rdmap.CRCOff, nil
	}
	return rdmap.CRCOn, nil
}

// agreed returns an error if a connection worked, but without the CRC that was required.
func (f *rpingFlags) agreed(state rdmap.ConnectionState) error {
	if f.requireCRC && !state.CRC {
		return errors.New("the connection has no CRC32C")
	}
	return nil
}

func (f *rpingFlags) server(cmd *cobra.Command) error {
	crc, err := f.crc()
	if err != nil {
		return err
	}
	if f.conns < 0 {
		return usagef("--conns %d: want 0 or more", f.conns)
	}
	_, port, err := net.SplitHostPort(f.listen)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return usagef("--listen %q is not an address: write host:port, for example 127.0.0.1:0", f.listen)
	}
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	fmt.Fprintf(cmd.ErrOrStderr(), "conformance: rping server on %v\n", l.Addr())
	failed := 0
	s := &pingServer{CRC: crc, Conns: f.conns, Timeout: f.timeout, Report: func(r pingResult) {
		if r.Err == nil {
			r.Err = f.agreed(r.State)
		}
		if r.Err != nil && ctx.Err() == nil {
			failed++
		}
		f.print(cmd.OutOrStdout(), r)
	}}
	if err := s.Serve(ctx, l); err != nil || failed == 0 {
		return err
	}
	return fmt.Errorf("%d connections failed", failed)
}

func (f *rpingFlags) client(cmd *cobra.Command, addr string) error {
	crc, err := f.crc()
	switch {
	case err != nil:
		return err
	case f.size < 1 || f.size > maxPing:
		return usagef("--size %d: want 1 to %d", f.size, maxPing)
	case f.count < 1:
		return usagef("--count %d: want 1 or more", f.count)
	}
	ctx, cancel := context.WithTimeout(context.Background(), f.timeout)
	defer cancel()
	state, err := dialPing(ctx, addr, crc, f.size, f.count)
	if err == nil {
		err = f.agreed(state)
	}
	if err == nil {
		f.print(cmd.OutOrStdout(), pingResult{State: state, Pings: f.count})
		return nil
	}
	hint := ""
	if errors.Is(err, syscall.ECONNREFUSED) {
		hint = ": start the server, or give its port"
	}
	return fmt.Errorf("%s: %s%s", addr, oneLine(err), hint)
}

// oneLine returns the text of an error; joined errors have a line each.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// print writes the line of one connection.
func (f *rpingFlags) print(w io.Writer, r pingResult) {
	crc, text, peer := "off", "ok", ""
	if r.State.CRC {
		crc = "on"
	}
	if r.Err != nil {
		text = oneLine(r.Err)
	}
	if r.Remote != nil {
		peer = r.Remote.String()
	}
	if f.json {
		_ = json.NewEncoder(w).Encode(struct { // a result that nobody reads does not make the ping fail
			Peer  string `json:"peer,omitempty"`
			Pings int    `json:"pings"`
			CRC   string `json:"crc"`
			Rev   int    `json:"revision"`
			End   string `json:"end"`
		}{peer, r.Pings, crc, r.State.Revision, text})
		return
	}
	if peer != "" {
		peer += ": "
	}
	fmt.Fprintf(w, "%s%d pings, MPA revision %d, CRC %s: %s\n", peer, r.Pings, r.State.Revision, crc, text)
}
