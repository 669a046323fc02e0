package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/transport/push"
)

const secretHelp = "`file` with the secret of the log"

// appendedJSON is a line of log append --json.
type appendedJSON struct {
	Seq   uint64 `json:"seq"`
	Level string `json:"level"`
	Rung  string `json:"rung"`
}

// logAppendCmd is the command log append.
func (a *app) logAppendCmd() *cobra.Command {
	var secret string
	cmd := &cobra.Command{
		Use: "append URL", Short: "Append the lines of standard input to a push log at a server",
		Long: `append makes a record of each line of standard input, in a log at a server (serve
--push-log), and prints its number and level as soon as it is durable. The first time it makes
the log and the file with its secret: whoever has the file has the log. Another process that
appends to it is ended. When the log is full, append says so and ends: release records.`,
		Example: `  date | nfsdemo log append --push-secret ~/mine nfs+rdma://127.0.0.1/srv/data`,
		Args:    nArgs(1, 1, "one URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.atLog(cmd.Context(), args[0], secret, openSecret, a.appendLog)
		},
	}
	cmd.Flags().StringVar(&secret, "push-secret", "", secretHelp+"; made if it does not exist")
	a.addClientFlags(cmd)
	return cmd
}

// logReleaseCmd is the command log release.
func (a *app) logReleaseCmd() *cobra.Command {
	var secret string
	cmd := &cobra.Command{
		Use: "release URL NUMBER", Short: "Free the room of the records of a push log up to a number",
		Long: `release frees the room of a record in a log at a server (serve --push-log), and of all
before it: nobody can read them anymore. The process that appends to the log goes on.`,
		Example: `  nfsdemo log release --push-secret ~/mine nfs+rdma://127.0.0.1/srv/data 12`,
		Args:    nArgs(2, 2, "one URL and the number of a record"),
		RunE: func(cmd *cobra.Command, args []string) error {
			seq, err := strconv.ParseUint(args[1], 10, 64)
			if err != nil || seq == 0 {
				return usagef("%q is not the number of a record: take one that nfsdemo log cat prints", args[1])
			}
			return a.atLog(cmd.Context(), args[0], secret, readSecret, func(ctx context.Context, r *remote, s *secretFile) error {
				log, err := push.NewReader(r.c.Caller(), s.name, s.secret, nil)
				if err != nil {
					return err
				}
				return log.Release(ctx, seq)
			})
		},
	}
	cmd.Flags().StringVar(&secret, "push-secret", "", secretHelp)
	a.addClientFlags(cmd)
	return cmd
}

// atLog opens the file with the secret of a log, and calls do with a connection to the log's server.
func (a *app) atLog(ctx context.Context, url, file string, open func(string) (*secretFile, error),
	do func(context.Context, *remote, *secretFile) error,
) error {
	if file == "" {
		return usagef("name the file with the secret of the log: --push-secret FILE")
	}
	s, err := a.session()
	if err != nil {
		return err
	}
	defer s.close()
	r, err := s.remote(ctx, url) // first: a wrong URL leaves no secret behind
	if err != nil {
		return err
	}
	secret, err := open(file)
	if err != nil {
		return err
	}
	defer secret.close()
	return do(ctx, r, secret)
}

// appendLog appends the lines of standard input.
func (a *app) appendLog(ctx context.Context, r *remote, secret *secretFile) error {
	log, err := push.Dial(ctx, r.c.Caller(), secret.name, &push.Config{Secret: secret.secret, Host: r.u.Host, Dial: r.cfg.DialLog(r.u)})
	if err != nil {
		return err
	}
	defer log.Close(context.WithoutCancel(ctx)) //nolint:errcheck // what was acknowledged is in the log
	lines := bufio.NewScanner(&ctxReader{ctx, a.stdin})
	lines.Buffer(nil, log.Limit()+1) // with its end
	n := 1
	for ; lines.Scan(); n++ {
		res, err := log.Append(ctx, lines.Bytes())
		if err != nil {
			return fmt.Errorf("line %d was not appended: %w", n, err)
		}
		if a.json {
			err = a.printJSON(appendedJSON{res.Seq, res.Level.String(), log.Rung().String()})
		} else {
			_, err = fmt.Fprintf(a.stdout, "record %d: %v, %v\n", res.Seq, res.Level, log.Rung())
		}
		if err != nil {
			return err
		}
	}
	if err = lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		err = fmt.Errorf("line %d was not appended: it is longer than %d octets, the most in this log: split it", n, log.Limit())
	}
	return err
}
