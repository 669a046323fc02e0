package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// badTail says what is wrong with a log whose tail word is impossible, and what to do. Info is that
// of Salvage.
func badTail(path string, i *commitlog.Info) error {
	what := fmt.Sprintf("%s: its tail word, 8 octets at octet 8192, is damaged: %#x is not a multiple of 64 up to %d", path, i.TailWord, i.Head+i.Capacity)
	if i.Poison != nil {
		return fmt.Errorf("%s, and records behind the last good one are missing: %w", what, i.Poison)
	}
	return fmt.Errorf("%s. Restore the latest state from a copy; or, if the good records are all that was acknowledged, "+
		"which nobody else can know: nfsdemo log mend %s --force", what, path)
}

// logMendCmd is the command log mend.
func (a *app) logMendCmd() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "mend FILE", Short: "Give a log with a damaged tail word another one",
		Long: `mend is for a log that nothing can open because its tail word is impossible. It finds the
records that are good and follow one another from the head of the log on, and prints
how many they are. With --force the end of the last of them becomes the tail: the log can be
opened, and they are in it.

Records that were acknowledged behind that, if there were any, are lost without another
word. A copy of the latest state of the file is better than mend. Stop what uses the log.`,
		Example: `  nfsdemo log dump /var/lib/stag/nfsdemo-7XVO.log
  nfsdemo log mend /var/lib/stag/nfsdemo-7XVO.log
  nfsdemo log mend /var/lib/stag/nfsdemo-7XVO.log --force`,
		Args: nArgs(1, 1, "one file"),
		RunE: func(_ *cobra.Command, args []string) error { return a.mendLog(args[0], force) },
	}
	cmd.Flags().BoolVar(&force, "force", false, "do it")
	return cmd
}

// mendLog mends the log in a file, with force.
func (a *app) mendLog(path string, force bool) error {
	mem, err := pmem.Open(pmem.File, path, nil)
	if errors.Is(err, pmem.ErrLocked) {
		return fmt.Errorf("%s: somebody has it open: stop that first", path)
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
		fmt.Fprintf(a.stderr, "nfsdemo: %d would be the tail word; what was acknowledged behind it, if anything, would be lost; --force does it\n", info.Tail)
		return nil
	}
	fmt.Fprintf(a.stderr, "nfsdemo: %s has the tail word %d\n", path, info.Tail)
	return nil
}

// salvageOf mends mem, or only finds out what Mend would do.
func salvageOf(mem *pmem.Memory, force bool) (*commitlog.Info, error) {
	if force {
		return commitlog.Mend(mem)
	}
	b := make(region.Bytes, len(mem.Bytes()))
	copy(b, mem.Bytes())
	return commitlog.Mend(b)
}
