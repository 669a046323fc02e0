package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// badTail says what is wrong with a log whose tail word is impossible, and what to do. Salvage
// returned i.
func badTail(path string, i *commitlog.Info) error {
	what := fmt.Sprintf("%s: its tail word, 8 octets at octet 8192, is damaged: %#x is not a multiple of 64 up to %d", path, i.TailWord, i.Head+i.Capacity)
	if i.Poison != nil {
		return fmt.Errorf("%s, and records after the last good one are missing: %w", what, i.Poison)
	}
	return fmt.Errorf("%s. Restore the latest state from a copy; or, if you know that only the good records were acknowledged, "+
		"run nfsdemo log mend %s --force", what, path)
}

// logMendCmd is the command log mend.
func (a *app) logMendCmd() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "mend FILE", Short: "Replace the damaged tail word of a log",
		Long: `mend is for a log that cannot be opened because its tail word is impossible. It looks for
		good records that follow one another from the head of the log, and prints how many it has
		found. With --force the log then ends after the last of them, and can be opened again.

		Acknowledged records after that, if there were any, are lost, and nothing will say so. A
		copy of the latest state of the file is better than mend. First stop the process that uses
		the log.`,
		Example: `  nfsdemo log dump /var/lib/stag/nfsdemo-7XVO.log
  nfsdemo log mend /var/lib/stag/nfsdemo-7XVO.log
  nfsdemo log mend /var/lib/stag/nfsdemo-7XVO.log --force`,
		Args: nArgs(1, 1, "one file"),
		RunE: func(_ *cobra.Command, args []string) error { return a.mendLog(args[0], force) },
	}
	cmd.Flags().BoolVar(&force, "force", false, "write the new tail word")
	return cmd
}

// mendLog prints what would mend the log in a file; with force it mends the log.
func (a *app) mendLog(path string, force bool) error {
	mem, err := pmem.Open(pmem.File, path, nil)
	if errors.Is(err, pmem.ErrLocked) {
		return fmt.Errorf("%s: another process has it open: stop it first", path)
	}
	if err != nil {
		return err
	}
	info, err := salvageOf(mem, force)
	if err = errors.Join(err, mem.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := a.printLog(info, info.NextSeq-info.HeadSeq); err != nil {
		return err
	}
	if !force {
		fmt.Fprintf(a.stderr, "nfsdemo: the tail word would be %d; acknowledged records after it, if any, would be lost; use --force to write it\n", info.Tail)
		return nil
	}
	fmt.Fprintf(a.stderr, "nfsdemo: %s: the tail word is now %d\n", path, info.Tail)
	return nil
}

// salvageOf mends mem with force, and a copy of it without, to see what Mend would do.
func salvageOf(mem *pmem.Memory, force bool) (*commitlog.Info, error) {
	if force {
		return commitlog.Mend(mem)
	}
	b := make(region.Bytes, len(mem.Bytes()))
	copy(b, mem.Bytes())
	return commitlog.Mend(b)
}
