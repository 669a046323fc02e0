package cli

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/pushwrite"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
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
	var lease uint64
	var force bool
	cmd := &cobra.Command{
		Use: "push DIR", Short: "Print what push logs hold, and discard what can never be applied",
		Long: `push prints the records that wait in the logs of serve --push-log DIR: they were
acknowledged to a client, and are not in their files yet. The server must not run;
what it can apply, it applies when it starts.

A record that can never be applied, such as that of a file that somebody has removed
past NFS, holds up those behind it. --status of the server, and its log, say which it
is and under which lease. --discard LEASE prints what would be lost with this lease;
with --force it is lost: the server releases those records when it starts, and
applies the others. The clients were told that these data are durable.`,
		Example: `  nfsdemo log push /var/lib/stag
  nfsdemo log push /var/lib/stag --discard 7
  nfsdemo log push /var/lib/stag --discard 7 --force
  nfsdemo log push --json /var/lib/stag | jq -r .lease | sort | uniq -c`,
		Args: nArgs(1, 1, "one directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch some := cmd.Flags().Changed("discard"); {
			case some && lease == 0:
				return usagef("--discard 0: leases have numbers above zero; without --discard they are printed")
			case force && !some:
				return usagef("--force is for --discard LEASE: give both")
			}
			return a.logPush(args[0], lease, force)
		},
	}
	cmd.Flags().Uint64Var(&lease, "discard", 0, "give up what waits under this `lease`; shows it, and does it with --force")
	cmd.Flags().BoolVar(&force, "force", false, "with --discard: do it")
	return cmd
}

// logPush prints what waits in the logs of a directory; with a lease, what waits under it, which
// is discarded with force.
func (a *app) logPush(dir string, lease uint64, force bool) error {
	records, octets := 0, 0
	err := pushwrite.Inspect(dir, pmem.File, func(w *pushwrite.Waiting) error {
		if lease != 0 && w.Lease != lease {
			return nil
		}
		records, octets = records+1, octets+w.Octets
		return a.printWaiting(w, records == 1)
	})
	if errors.Is(err, pmem.ErrLocked) {
		return fmt.Errorf("%s: a server has it open: stop it first", dir)
	}
	if lease == 0 {
		return err
	}
	if err != nil { // another log: what is wrong with it is no reason to keep this
		a.report(err)
	}
	what := fmt.Sprintf("%s, %d octets of data", plural(records, "record"), octets)
	switch {
	case records == 0:
		return fmt.Errorf("%s: no record waits under lease %d", dir, lease)
	case !force:
		fmt.Fprintf(a.stderr, "nfsdemo: %s would be lost; --force does it\n", what)
		return nil
	}
	if err := pushwrite.Discard(dir, lease); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "nfsdemo: %s will not be written\n", what)
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
