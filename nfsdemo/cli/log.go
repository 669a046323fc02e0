package cli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/internal/ops"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
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
		return a.printRecord(r, &r.Pos, n == 1)
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

// printRecord prints a line, with the position in a file unless that is nil. Columns have the width of usual numbers: the
// records are printed as they come, before all their widths are known.
func (a *app) printRecord(r *commitlog.Record, pos *uint64, first bool) error {
	if a.json {
		return a.printJSON(recordJSON{r.Seq, r.Epoch, pos, len(r.Payload), r.Payload})
	}
	title, at := "", ""
	if pos != nil {
		title, at = fmt.Sprintf("%13s", "POSITION"), fmt.Sprintf("%13d", *pos)
	}
	if first {
		if _, err := fmt.Fprintf(a.stdout, "%10s %6s%s %8s  %s\n", "SEQ", "EPOCH", title, "LENGTH", "PAYLOAD"); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(a.stdout, "%10d %6d%s %8d  %s\n", r.Seq, r.Epoch, at, len(r.Payload), beginning(r.Payload))
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
		i.ID, i.Mode, ops.Octets(i.Capacity), i.Epoch, i.Head, i.Tail, i.TailWord)
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
		if err := a.printRecord(rec, nil, first); err != nil {
			return err
		}
		first = false
	}
}

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
		return a.printRecord(r, &r.Pos, behind == 1)
	})
	return info, behind, err
}

// secretFile is a file with the name of a push log and the secret that gives access to it: a line
// "log NAME" and a line "secret", 32 hexadecimal digits. It is locked as long as it is open,
// because only one process may append to a log.
type secretFile struct {
	f      *os.File
	path   string
	name   string
	secret push.Secret
}

// errSecretUsed reports that another process has locked the file.
var errSecretUsed = errors.New("another nfsdemo is using this push log: use another --push-secret FILE")

// openSecret opens the file, and makes it if it does not exist.
func openSecret(path string) (*secretFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	s := &secretFile{f: f, path: path}
	if err = lockFile(f); err == nil {
		err = s.read()
	}
	if err == nil && s.secret == (push.Secret{}) {
		s.name, s.secret = "nfsdemo-"+rand.Text(), push.NewSecret()
		err = s.keep()
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// read reads a file. If it is empty, there is no secret.
func (s *secretFile) read() error {
	st, err := s.f.Stat()
	switch {
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return errNotRegular
	case runtime.GOOS != "windows" && st.Mode().Perm()&0o077 != 0:
		return errors.New("others can read this secret: run chmod 600, or remove the file if the secret may be known")
	case st.Size() == 0:
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(s.f, 1024))
	if err != nil {
		return err
	}
	var digits string
	if n, err := fmt.Sscanf(string(b), "log %64s\nsecret %32s\n", &s.name, &digits); err != nil || n != 2 {
		return errNoSecret
	}
	var secret push.Secret
	if n, err := hex.Decode(secret[:], []byte(digits)); err != nil || n != len(secret) {
		return errNoSecret
	}
	s.secret = secret
	return nil
}

var errNoSecret = errors.New("holds no secret of a push log: use another --push-secret FILE; an empty or new one gets a new log")

// keep makes the secret of a new log durable, before it is used.
func (s *secretFile) keep() error {
	if _, err := s.f.WriteAt(fmt.Appendf(nil, "log %s\nsecret %x\n", s.name, s.secret[:]), 0); err != nil {
		return err
	}
	if err := s.f.Sync(); err != nil {
		return err
	}
	return pmem.SyncDir(filepath.Dir(s.path))
}

// close unlocks the log for other processes.
func (s *secretFile) close() {
	_ = s.f.Close() // what was written is synced
}

// readSecret reads a file that another process may have locked: reading a log disturbs nobody.
func readSecret(path string) (*secretFile, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: name the file of whoever appends to the log", err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := &secretFile{f: f, path: path}
	if err = s.read(); err == nil && s.secret == (push.Secret{}) {
		err = errNoSecret
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}
