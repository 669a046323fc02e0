package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/spf13/cobra"

	"github.com/stag-rdma/stag/conformance/internal/perftest"
)

// perftestFlags are the flags of perftest server and perftest client.
type perftestFlags struct {
	peerFlags
	tests, size, count int
}

func perftestCmd() *cobra.Command {
	var f perftestFlags
	cmd := &cobra.Command{
		Use:   "perftest",
		Short: "Be either side of perftest, the usual RDMA benchmarks",
		Long: `perftest speaks the protocol of ib_write_bw, ib_read_bw and ib_send_lat (with -R) on
our engine. It does not measure: it says whether the test ran, and compares what
read_bw reads. CRC32C is on when either side wants it.`,
		Example: `  conformance perftest server --listen 127.0.0.1:18515
  conformance perftest client write_bw --size 65536 --count 1000 127.0.0.1:18515`,
		Args: wantArgs(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f.add(cmd, "test")
	cmd.AddCommand(perftestServerCmd(&f), perftestClientCmd(&f))
	return cmd
}

func perftestServerCmd(f *perftestFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Answer perftest clients until interrupted",
		Long: `server answers perftest clients, one test at a time, and prints a line for each, until
it is interrupted or --tests tests have ended. It recognises which test a client runs.

Exit status: 0 done; 1 the address cannot be used or a test failed; 2 bad command
line.`,
		Example: `  conformance perftest server --listen 127.0.0.1:18515 --tests 1
  ib_write_bw -F -R -d siw_eth0 -p 18515 -s 65536 192.0.2.1     # on a machine with RDMA`,
		Args: wantArgs(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.server(cmd) },
	}
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:18515", "`ADDRESS:PORT` to listen on")
	cmd.Flags().IntVar(&f.tests, "tests", 0, "end after this many tests; 0: never")
	return cmd
}

func perftestClientCmd(f *perftestFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "client TEST ADDRESS:PORT",
		Short: "Run write_bw, read_bw or send_lat against a perftest server",
		Long: `client runs TEST (write_bw, read_bw or send_lat) against the perftest server
of the same name, which must have the same -s and -n. Before read_bw it
fills the server's buffer, and it compares what every RDMA Read brings.

Exit status: 0 done; 1 no connection, a connection that failed, or data other than
was written; 2 bad command line.`,
		Example: `  ib_read_bw -F -R -d siw_eth0 -p 18515 -s 65536 -n 100     # on a machine with RDMA
  conformance perftest client read_bw --size 65536 --count 100 192.0.2.1:18515`,
		Args: wantArgs(2, "the test and the server's ADDRESS:PORT"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.client(cmd, args[0], args[1]) },
	}
	cmd.Flags().IntVar(&f.size, "size", 65536, "octets of a message")
	cmd.Flags().IntVar(&f.count, "count", 1000, "number of messages")
	return cmd
}

func (f *perftestFlags) server(cmd *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	if f.tests < 0 {
		return usagef("--tests %d: want 0 or more", f.tests)
	}
	failed := 0
	err := f.serve(cmd, "perftest", func(ctx context.Context, l net.Listener) error {
		s := &perftest.Server{CRC: f.crc(), Tests: f.tests, Timeout: f.timeout, Report: func(r perftest.Result) {
			if r.Err == nil {
				r.Err = f.agreed(r.State)
			}
			if r.Err != nil && ctx.Err() == nil {
				failed++
			}
			printTest(cmd.OutOrStdout(), &r)
		}}
		return s.Serve(ctx, l)
	})
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d tests failed", failed)
	}
	return err
}

// printTest writes the line of one test at the server.
func printTest(w io.Writer, r *perftest.Result) {
	text := "ok"
	if r.Err != nil {
		text = oneLine(r.Err)
	}
	fmt.Fprintf(w, "%v: %d Sends, %d octets written, %d read, CRC %s: %s\n",
		r.Remote, r.Sends, r.Written, r.Read, onOff(r.State.CRC), text)
}

func (f *perftestFlags) client(cmd *cobra.Command, test, addr string) error {
	if err := f.check(); err != nil {
		return err
	}
	all := []perftest.Test{perftest.WriteBW, perftest.ReadBW, perftest.SendLat}
	at := slices.IndexFunc(all, func(t perftest.Test) bool { return t.String() == test })
	switch {
	case at < 0:
		return usagef("no test %q: want write_bw, read_bw or send_lat", test)
	case f.size < 1 || f.size > perftest.MaxSize:
		return usagef("--size %d: want 1 to %d", f.size, perftest.MaxSize)
	case f.count < 1:
		return usagef("--count %d: want 1 or more", f.count)
	}
	ctx, cancel := context.WithTimeout(context.Background(), f.timeout)
	defer cancel()
	state, err := perftest.Dial(ctx, addr, &perftest.Options{Test: all[at], Size: f.size, Count: f.count, CRC: f.crc()})
	if err == nil {
		err = f.agreed(state)
	}
	if err != nil {
		return f.failed(addr, err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %d times %d octets, CRC %s: ok\n", test, f.count, f.size, onOff(state.CRC))
	return nil
}
