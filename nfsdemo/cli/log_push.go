package cli

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/internal/pushwrite"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/push"
)

// waitingJSON is a line of log push --json.
type waitingJSON struct {
	Log       string `json:"log"`
	Record    uint64 `json:"record"`
	Lease     uint64 `json:"lease"`
	File      string `json:"file,omitempty"` // its handle; none: the lease is unknown
	Offset    uint64 `json:"offset"`
	Octets    int    `json:"octets"`
	Discarded bool   `json:"discarded"`
}

// logPushCmd is the command log push.
func (a *app) logPushCmd() *cobra.Command {
	var ask pushAsk
	cmd := &cobra.Command{
		Use: "push DIR", Short: "Print the records in push logs, and discard those that can never be applied",
		Long: `push prints the records that wait in the logs of serve --push-log DIR: they were
acknowledged to a client, but are not in their files yet. Stop the server first. When
it starts again, it applies all records that it can.

A record that can never be applied, for example because somebody has removed its file
locally, holds up the records after it. The server's /status and its log name the
record and its lease. --discard LEASE prints what would be lost with this lease. With
--force it is lost: when the server starts, it discards these records and applies the
others. The clients were told that these data are durable.

A log that is damaged or condemned, or that nobody uses, takes up room, and operations
on the files that wait for a damaged log fail. --give-up NAME prints what can be read
of the log. With --force it removes the log, and the records that wait in it are lost.`,
		Example: `  nfsdemo log push /var/lib/stag
  nfsdemo log push /var/lib/stag --discard 7
  nfsdemo log push /var/lib/stag --discard 7 --force
  nfsdemo log push /var/lib/stag --give-up nfsdemo-7XVO
  nfsdemo log push --json /var/lib/stag | jq -r .lease | sort | uniq -c`,
		Args: nArgs(1, 1, "one directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ask.check(cmd.Flags().Changed("discard"), cmd.Flags().Changed("give-up")); err != nil {
				return err
			}
			return a.logPush(args[0], &ask)
		},
	}
	cmd.Flags().Uint64Var(&ask.lease, "discard", 0, "print the records that wait under this `lease`; with --force, discard them")
	cmd.Flags().StringVar(&ask.log, "give-up", "", "print the records that wait in the log of this `name`; with --force, remove the log")
	cmd.Flags().BoolVar(&ask.force, "force", false, "carry out --discard or --give-up")
	return cmd
}

// pushAsk says what log push prints, or gives up: the records of a lease, of a log, or all.
type pushAsk struct {
	lease uint64
	log   string
	force bool
}

// check refuses flags that contradict each other.
func (p *pushAsk) check(discard, giveUp bool) error {
	switch {
	case discard && giveUp:
		return usagef("--discard is for a lease and --give-up for a whole log: use only one of them")
	case discard && p.lease == 0:
		return usagef("--discard 0: want the number of a lease; leave out --discard to print them all")
	case giveUp && p.log == "":
		return usagef("--give-up wants the name of a log: the name of its file without .log")
	case p.force && !discard && !giveUp:
		return usagef("--force needs --discard LEASE or --give-up NAME: add one of them")
	}
	return nil
}

// logPush prints the records that wait in the logs of a directory: all, or those to be given up. With
// force it gives them up.
func (a *app) logPush(dir string, ask *pushAsk) error {
	records, octets := 0, 0
	err := pushwrite.Inspect(dir, pmem.File, func(w *pushwrite.Waiting) error {
		if ask.lease != 0 && w.Lease != ask.lease || ask.log != "" && w.Log != ask.log {
			return nil
		}
		records, octets = records+1, octets+w.Octets
		return a.printWaiting(w, records == 1)
	})
	if errors.Is(err, pmem.ErrLocked) {
		return fmt.Errorf("%s: a server has it open: stop it first", dir)
	}
	if ask.lease == 0 && ask.log == "" {
		return err
	}
	if err != nil { // about another log, or about this one: no reason to keep it
		a.report(err)
	}
	what := fmt.Sprintf("%s, %d octets of data", plural(records, "record"), octets)
	if ask.log != "" {
		if unreadable(err, ask.log) {
			what += ", and everything that cannot be read"
		}
		return a.giveUpLog(dir, ask, what)
	}
	switch {
	case records == 0:
		return fmt.Errorf("%s: no record waits under lease %d", dir, ask.lease)
	case !ask.force:
		fmt.Fprintf(a.stderr, "nfsdemo: %s would be lost; use --force to discard them\n", what)
		return nil
	}
	if err := pushwrite.Discard(dir, ask.lease); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "nfsdemo: %s will not be written\n", what)
	return nil
}

// unreadable reports whether err is, or contains, an error about the log.
func unreadable(err error, log string) bool {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		return slices.ContainsFunc(all.Unwrap(), func(err error) bool { return unreadable(err, log) })
	}
	e, ok := errors.AsType[*push.Error](err)
	return ok && e.Log == log
}

// giveUpLog prints what would be lost with a log; with force it removes the log.
func (a *app) giveUpLog(dir string, ask *pushAsk, what string) error {
	if !ask.force {
		if _, err := os.Stat(push.LogFile(push.Dir(dir, pmem.File), ask.log)); err != nil {
			return fmt.Errorf("%s: %q: %w", dir, ask.log, pushwrite.ErrNoLog)
		}
		fmt.Fprintf(a.stderr, "nfsdemo: the log %s would be removed, and this would be lost: %s; use --force to remove it\n", ask.log, what)
		return nil
	}
	if err := pushwrite.GiveUp(dir, ask.log); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "nfsdemo: removed the log %s; lost: %s\n", ask.log, what)
	return nil
}

// printWaiting prints a line.
func (a *app) printWaiting(w *pushwrite.Waiting, first bool) error {
	if a.json {
		return a.printJSON(waitingJSON{w.Log, w.Record, w.Lease, hex.EncodeToString(w.File), w.Offset, w.Octets, w.Void})
	}
	if first {
		if _, err := fmt.Fprintf(a.stdout, "%-16s %10s %8s %12s %8s  %s\n", "LOG", "RECORD", "LEASE", "OFFSET", "OCTETS", "FILE"); err != nil {
			return err
		}
	}
	file := hex.EncodeToString(w.File)
	switch {
	case w.Void:
		file = "discarded"
	case w.File == nil:
		file = "the lease is not this log's: the log is condemned"
	}
	_, err := fmt.Fprintf(a.stdout, "%-16s %10d %8d %12d %8d  %s\n", w.Log, w.Record, w.Lease, w.Offset, w.Octets, file)
	return err
}
