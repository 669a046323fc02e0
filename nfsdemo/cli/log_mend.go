package cli

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

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
		Use: "mend FILE", Short: "Show what can be saved of a damaged log, and cut it off at the damage",
		Long: `mend is for a log with a damaged record, or with an impossible tail word. It looks for the
		good records that follow one another from the head of the log, and prints how many there
		are, and then every good record that it has found behind the damage: save those if you can use
		them (--json has their payloads). Of the last of them nobody can tell whether it was
		acknowledged.

		With --force the log then ends before the damage, and can be opened again. All records
		behind it are lost, and a client that knows of them is refused. A copy of the latest state of
		the file is better than mend. First stop the process that uses the log.`,
		Example: `  nfsdemo log dump /var/lib/stag/nfsdemo-7XVO.log
  nfsdemo log mend /var/lib/stag/nfsdemo-7XVO.log
  nfsdemo log mend /var/lib/stag/nfsdemo-7XVO.log --force`,
		Args: nArgs(1, 1, "one file"),
		RunE: func(_ *cobra.Command, args []string) error { return a.mendLog(args[0], force) },
	}
	cmd.Flags().BoolVar(&force, "force", false, "cut the log off")
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
	info, behind, err := a.salvage(mem, force)
	if err = errors.Join(err, mem.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := a.printLog(info, info.NextSeq-info.HeadSeq); err != nil {
		return err
	}
	lost := "acknowledged records after it, if any,"
	if behind > 0 {
		lost = plural(behind, "good record") + " behind the damage"
	}
	if !force {
		fmt.Fprintf(a.stderr, "nfsdemo: the log would end at %d, and %s would be lost; use --force to cut it off there\n", info.Tail, lost)
		return nil
	}
	fmt.Fprintf(a.stderr, "nfsdemo: %s: the log now ends at %d\n", path, info.Tail)
	return nil
}

// salvage prints what is behind the damage of a log, and mends it with force, or a copy of it without.
func (a *app) salvage(mem *pmem.Memory, force bool) (info *commitlog.Info, behind int, err error) {
	b := make(region.Bytes, len(mem.Bytes()))
	copy(b, mem.Bytes())
	cut := region.Memory(b)
	if force {
		cut = mem
	}
	before := bytes.NewReader(slices.Clone(b))
	if info, err = commitlog.Mend(cut); err != nil {
		return nil, 0, err
	}
	_, err = commitlog.Salvage(before, before.Size(), func(r *commitlog.Record, later bool) error {
		if !later {
			return nil
		}
		behind++
		return a.printRecord(r, behind == 1)
	})
	return info, behind, err
}
