package cli

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/pushwrite"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/push"
)

// waitingJSON is a line of log push --json.
type waitingJSON struct {
	Log       string `json:"log"`
	Record    uint64 `json:"record"`
	Lease     uint64 `json:"lease"`
	File      string `json:"file,omitempty"` // its handle; none: the lease is not known
	Offset    uint64 `json:"offset"`
	Octets    int    `json:"octets"`
	Discarded bool   `json:"discarded"`
}

// logPushCmd is the command log push.
func (a *app) logPushCmd() *cobra.Command {
	var ask pushAsk
	cmd := &cobra.Command{
		Use: "push DIR", Short: "Print what push logs hold, and discard what can never be applied",
		Long: `push prints the records that wait in the logs of serve --push-log DIR: they were
acknowledged to a client, and are not in their files yet. The server must not run;
what it can apply, it applies when it starts.

A record that can never be applied, such as that of a file that somebody has removed
past NFS, holds up those behind it. --status of the server, and its log, say which it
is and under which lease. --discard LEASE prints what would be lost with this lease;
with --force it is lost: the server releases those records when it starts, and
applies the others. The clients were told that these data are durable.

A log that is damaged or condemned, or that nobody uses, takes room, and the files
that wait for a damaged one answer with errors. --give-up NAME prints what can be read
of it; with --force it is removed, and what waits in it is lost.`,
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
	cmd.Flags().Uint64Var(&ask.lease, "discard", 0, "give up what waits under this `lease`; shows it, and does it with --force")
	cmd.Flags().StringVar(&ask.log, "give-up", "", "remove the log of this `name` and what waits in it; shows it, and does it with --force")
	cmd.Flags().BoolVar(&ask.force, "force", false, "with --discard or --give-up: do it")
	return cmd
}

// pushAsk is what log push is to print or to give up: what waits under a lease, a log, or neither.
type pushAsk struct {
	lease uint64
	log   string
	force bool
}

// check refuses what cannot be meant.
func (p *pushAsk) check(discard, giveUp bool) error {
	switch {
	case discard && giveUp:
		return usagef("--discard is for a lease and --give-up for a whole log: give one of them")
	case discard && p.lease == 0:
		return usagef("--discard 0: leases have numbers above zero; without --discard they are printed")
	case giveUp && p.log == "":
		return usagef("--give-up wants the name of a log, that of its file without .log")
	case p.force && !discard && !giveUp:
		return usagef("--force is for --discard LEASE or --give-up NAME: give both")
	}
	return nil
}

// logPush prints what waits in the logs of a directory, or what of it is to be given up, and gives
// it up with force.
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
	if err != nil { // of another log, or what is wrong with this one: no reason to keep it
		a.report(err)
	}
	what := fmt.Sprintf("%s, %d octets of data", plural(records, "record"), octets)
	if ask.log != "" {
		if unreadable(err, ask.log) {
			what += ", and what cannot be read"
		}
		return a.giveUpLog(dir, ask, what)
	}
	switch {
	case records == 0:
		return fmt.Errorf("%s: no record waits under lease %d", dir, ask.lease)
	case !ask.force:
		fmt.Fprintf(a.stderr, "nfsdemo: %s would be lost; --force does it\n", what)
		return nil
	}
	if err := pushwrite.Discard(dir, ask.lease); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "nfsdemo: %s will not be written\n", what)
	return nil
}

// unreadable says whether a log is among those of which err tells.
func unreadable(err error, log string) bool {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		return slices.ContainsFunc(all.Unwrap(), func(err error) bool { return unreadable(err, log) })
	}
	e, ok := errors.AsType[*push.Error](err)
	return ok && e.Log == log
}

// giveUpLog removes a log, with force.
func (a *app) giveUpLog(dir string, ask *pushAsk, what string) error {
	if !ask.force {
		if _, err := os.Stat(push.LogFile(push.Dir(dir, pmem.File), ask.log)); err != nil {
			return fmt.Errorf("%s: %q: %w", dir, ask.log, pushwrite.ErrNoLog)
		}
		fmt.Fprintf(a.stderr, "nfsdemo: the log %s would be removed; lost would be: %s; --force does it\n", ask.log, what)
		return nil
	}
	if err := pushwrite.GiveUp(dir, ask.log); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "nfsdemo: the log %s is removed; lost: %s\n", ask.log, what)
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
		file = "no lease of this log: the log is condemned"
	}
	_, err := fmt.Fprintf(a.stdout, "%-16s %10d %8d %12d %8d  %s\n", w.Log, w.Record, w.Lease, w.Offset, w.Octets, file)
	return err
}
