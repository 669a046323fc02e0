package cli

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// logJSON is what log verify --json prints, and log dump --json after the records.
type logJSON struct {
	Version    int     `json:"version"`
	ID         string  `json:"id"`
	Mode       string  `json:"mode"`
	Capacity   uint64  `json:"capacity"`
	Generation uint64  `json:"generation"`
	Epoch      uint32  `json:"epoch"`
	Head       uint64  `json:"head"`
	HeadSeq    uint64  `json:"head_seq"`
	TailWord   uint64  `json:"tail_word"`
	Tail       uint64  `json:"tail"`
	Records    uint64  `json:"records"`
	Poison     *poison `json:"poison,omitempty"`
	BadHeader  string  `json:"bad_header,omitempty"`
	BadHead    string  `json:"bad_head,omitempty"`
}

type poison struct {
	Position uint64 `json:"position"`
	Seq      uint64 `json:"seq"`
	Reason   string `json:"reason"`
}

// recordJSON is a line of log dump --json, and of log cat --json.
type recordJSON struct {
	Seq      uint64  `json:"seq"`
	Epoch    uint32  `json:"epoch"`
	Position *uint64 `json:"position,omitempty"` // in a file
	Length   int     `json:"length"`
	Payload  []byte  `json:"payload"` // base64
}

// logCmd is the command log.
func (a *app) logCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Use and inspect commit logs",
		Long: `append, cat, tail and release use logs at a server that runs (serve --push-log; docs/push.md).
The others inspect files, for which the process that appends to the log must be stopped
first. They change nothing, except mend with --force. docs/commitlog-format.md explains the
numbers.`,
		Example: `  nfsdemo log append --push-secret ~/mine nfs+rdma://127.0.0.1/srv/data <lines
  nfsdemo log verify /var/lib/nfsdemo/journal`,
		Args: unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	dump := &cobra.Command{
		Use: "dump FILE", Short: "Print every record that recovery would return",
		Example: "  nfsdemo log dump /var/lib/app/log\n  nfsdemo log dump --json log | jq -r .seq",
		Args:    nArgs(1, 1, "one file"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.dumpLog(args[0], true) },
	}
	verify := &cobra.Command{
		Use: "verify FILE", Short: "Check every record and the log itself; exit 1 if something is damaged",
		Example: "  nfsdemo log verify /var/lib/app/log",
		Args:    nArgs(1, 1, "one file"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.dumpLog(args[0], false) },
	}
	for _, c := range []*cobra.Command{dump, verify, a.logMendCmd(), a.logRepliesCmd(), a.logAppendCmd(), a.logCatCmd(false), a.logCatCmd(true), a.logReleaseCmd()} {
		c.Flags().BoolVar(&a.json, "json", false, "print a JSON object per line")
		cmd.AddCommand(c)
	}
	return cmd
}

// dumpLog checks the log in a file, with its records or without.
func (a *app) dumpLog(path string, records bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if fi.IsDir() {
		return fmt.Errorf("%s: is a directory: name a log file", path)
	}
	n := uint64(0)
	see := func(r *commitlog.Record) error {
		n++
		if !records {
			return nil
		}
		return a.printRecord(r, n == 1)
	}
	info, err := commitlog.Inspect(f, fi.Size(), see)
	if commitlog.TailError(err) {
		if info, err = commitlog.Salvage(f, fi.Size(), func(r *commitlog.Record, behind bool) error {
			if behind {
				return nil
			}
			return see(r)
		}); err == nil {
			return errors.Join(a.printLog(info, n), badTail(path, info))
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := a.printLog(info, n); err != nil {
		return err
	}
	var errs []error
	if info.Poison != nil {
		errs = append(errs, fmt.Errorf("%s: %w; nfsdemo log mend shows what else can be saved", path, info.Poison))
	}
	if e := info.BadHeader; e != nil {
		errs = append(errs, fmt.Errorf("%s: one of its two headers is damaged: %w. If no copy is better, use the log as it is: "+
			"the other header counts, no client can resume its session, and the next session mends it", path, e))
	}
	if e := info.BadHead; e != nil {
		errs = append(errs, fmt.Errorf("%s: one of its two head slots is damaged: %w. If no copy is better, use the log as it is: "+
			"the other slot counts, released records may come again, and the next release mends it", path, e))
	}
	return errors.Join(errs...)
}

// printRecord prints a line. Columns have the width of usual numbers: the records are printed
// as they come, before all their widths are known.
func (a *app) printRecord(r *commitlog.Record, first bool) error {
	if a.json {
		return a.printJSON(recordJSON{r.Seq, r.Epoch, &r.Pos, len(r.Payload), r.Payload})
	}
	if first {
		if _, err := fmt.Fprintf(a.stdout, "%10s %6s %12s %8s  %s\n", "SEQ", "EPOCH", "POSITION", "LENGTH", "PAYLOAD"); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(a.stdout, "%10d %6d %12d %8d  %s\n", r.Seq, r.Epoch, r.Pos, len(r.Payload), beginning(r.Payload))
	return err
}

// beginning formats the first octets of a payload: as text if the whole payload is text,
// otherwise in hexadecimal.
func beginning(p []byte) string {
	const most = 32
	dots := ""
	if len(p) > most {
		p, dots = p[:most], "..."
	}
	if q := strconv.QuoteToASCII(string(p)); len(q) == len(p)+2 {
		return q + dots
	}
	return hex.EncodeToString(p) + dots
}

func (a *app) printLog(i *commitlog.Info, n uint64) error {
	if a.json {
		j := logJSON{
			Version: 1, ID: hex.EncodeToString(i.ID[:]), Mode: i.Mode.String(), Capacity: i.Capacity,
			Generation: i.Generation, Epoch: i.Epoch, Head: i.Head, HeadSeq: i.HeadSeq, TailWord: i.TailWord, Tail: i.Tail, Records: n,
		}
		if p := i.Poison; p != nil {
			j.Poison = &poison{p.Pos, p.Seq, p.Reason.String()}
		}
		if i.BadHeader != nil {
			j.BadHeader = i.BadHeader.Field
		}
		if i.BadHead != nil {
			j.BadHead = i.BadHead.Field
		}
		return a.printJSON(j)
	}
	_, err := fmt.Fprintf(a.stdout, "log %x, version 2, %v, ring of %s, epoch %d\nhead %d, tail %d (tail word %d)\n",
		i.ID, i.Mode, octets(i.Capacity), i.Epoch, i.Head, i.Tail, i.TailWord)
	if err != nil {
		return err
	}
	what := "empty"
	if n > 0 {
		what = fmt.Sprintf("%d good: %d to %d", n, i.HeadSeq, i.HeadSeq+n-1)
	}
	if i.Poison == nil {
		what += fmt.Sprintf(", next %d", i.NextSeq)
	}
	_, err = fmt.Fprintln(a.stdout, "records:", what)
	return err
}
