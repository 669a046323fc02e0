package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
)

// logCatCmd is the command log cat, or log tail.
func (a *app) logCatCmd(tail bool) *cobra.Command {
	var secret string
	var from uint64
	cmd := &cobra.Command{
		Use: "cat URL", Short: "Print the records that a server keeps in a push log",
		Long: `cat prints the records in a log at a server (serve --push-log): those that its owner has not
released. It reads what is there, and ends. The process that appends to the log goes on
undisturbed.`,
		Example: `  nfsdemo log cat --push-secret ~/mine nfs+rdma://127.0.0.1/srv/data
  nfsdemo log cat --push-secret ~/mine --json nfs+rdma://127.0.0.1/srv/data | jq .seq`,
		Args: nArgs(1, 1, "one URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.atLog(cmd.Context(), args[0], secret, readSecret, func(ctx context.Context, r *remote, s *secretFile) error {
				return a.catLog(ctx, r, s, from, tail)
			})
		},
	}
	if tail {
		cmd.Use, cmd.Short = "tail URL", "Print the records of a push log at a server as they come"
		cmd.Long = `tail is cat, but then it waits for more records, until it is interrupted. If records
are released before tail has read them, tail says which ones it has missed.`
		cmd.Example = `  nfsdemo log tail --push-secret ~/mine nfs+rdma://127.0.0.1/srv/data`
	}
	cmd.Flags().StringVar(&secret, "push-secret", "", secretHelp)
	cmd.Flags().Uint64Var(&from, "from", 0, "`number` of the first record; 0: the oldest one that the server keeps")
	a.addClientFlags(cmd)
	return cmd
}

// catLog prints the records of a log at a server; with tail also those to come.
func (a *app) catLog(ctx context.Context, r *remote, secret *secretFile, from uint64, tail bool) error {
	open := func(from uint64) (*push.Reader, error) {
		return push.NewReader(r.c.Caller(), secret.name, secret.secret, &push.ReaderConfig{From: from, Octets: push.DefaultMaxRecord + 20})
	}
	in, err := open(from)
	if err != nil {
		return err
	}
	for first := true; ; {
		next := in.TryNext
		if tail {
			next = in.Next
		}
		rec, err := next(ctx)
		if gone, ok := errors.AsType[*commitlog.ReleasedError](err); ok && tail {
			fmt.Fprintf(a.stderr, "nfsdemo: missed the records %d to %d: they were released\n", gone.Seq, gone.First-1)
			if in, err = open(gone.First); err != nil {
				return err
			}
			continue
		}
		if err == nil && rec == nil && first {
			fmt.Fprintln(a.stderr, "nfsdemo: the log has no records")
		}
		if err != nil || rec == nil {
			return err
		}
		if err := a.printRead(rec, first); err != nil {
			return err
		}
		first = false
	}
}

// printRead prints a line of log cat.
func (a *app) printRead(r *commitlog.Record, first bool) error {
	if a.json {
		return a.printJSON(recordJSON{Seq: r.Seq, Epoch: r.Epoch, Length: len(r.Payload), Payload: r.Payload})
	}
	if first {
		if _, err := fmt.Fprintf(a.stdout, "%10s %6s %8s  %s\n", "SEQ", "EPOCH", "LENGTH", "PAYLOAD"); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(a.stdout, "%10d %6d %8d  %s\n", r.Seq, r.Epoch, len(r.Payload), beginning(r.Payload))
	return err
}
