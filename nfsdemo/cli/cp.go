package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/internal/crew"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
)

// copier is one run of cp.
type copier struct {
	a         *app
	s         *session
	bar       *progress
	recursive bool
	preserve  bool     // -p
	archive   bool     // -a: what cannot be kept is an error
	root      bool     // it may give files away
	keep      bool     // -n: existing files stay
	update    bool     // files that are not newer than their copies are skipped
	resume    bool     // what an earlier run has copied is not copied again
	verify    bool     // copies are read again and compared
	exclude   []string // patterns of names that are skipped
	transfers int      // files at a time
	verbose   bool

	crew   *crew.Crew
	large  chan struct{}           // files of more than one block, each with several in flight
	user   context.Context         //nolint:containedctx // ends with an interrupt
	cancel context.CancelCauseFunc // ends the run

	names sync.Map // files that have several

	mu      sync.Mutex // guards the following, and lines of output
	left    int        // copies that remain unfinished
	partial bool       // something was reported and skipped
	losses  map[string]loss
}

// maxTransfers limits --transfers. Choice: the default of the server's credits is 64.
const maxTransfers = 1024

// cpCmd is the command cp.
func (a *app) cpCmd() *cobra.Command {
	c := &copier{a: a}
	cmd := &cobra.Command{
		Use:   "cp [-r] [-p] [-a] [-n] SOURCE... DESTINATION",
		Short: "Copy files to, from and between servers",
		Long: `cp copies files, several at a time. Sources and destination are URLs or local paths; at
least one of them must be a URL. "-" is standard input or output. The destination is the
new name, or a directory to copy into. With -r, directories are copied with their
contents, and symbolic links as links; devices, pipes and sockets are skipped.

A file is written as NAME.part, and renamed when all of it is there and, on a server,
durable (COMMIT): under its name there is the old file or the new one, never a part. If cp
is interrupted, or loses its connection, NAME.part stays; the same command with --resume
skips the files that were copied (the copy has the size of the source and is not older),
and continues the others. If a copy fails otherwise, cp removes NAME.part.

-p keeps the mode with its set-id and sticky bits, the time of the last change and, where cp
may, the owner. What was not kept is said at the end: times before 1970 and after 2106, of
which NFS knows none, hard links, which are copied as files of their own, extended attributes
and ACLs. With -a, which is -r and -p, that is a failure. Holes stay holes.

--exclude takes a pattern like *.o, for names below the sources; with a slash in it, as in
build/*.o, it is for paths relative to a source. An excluded directory is not entered.

cp exits with status 0 if everything was copied, 1 if something was not, 2 if it did not
understand the command line, and 130 after Ctrl-C.`,
		Example: `  nfsdemo cp big.iso nfs+rdma://127.0.0.1/srv/data/
  nfsdemo cp -r --exclude .git --exclude '*.o' src nfs+rdma://127.0.0.1/srv/data/
  nfsdemo cp -r --resume --verify nfs+rdma://127.0.0.1/srv/data/src ./src
  nfsdemo cp -a --update photos nfs://fileserver/export/
  nfsdemo cp nfs://old/export/file nfs+rdma://new/export/file
  tar c . | nfsdemo cp - nfs+rdma://127.0.0.1/srv/data/backup.tar`,
		Args: nArgs(2, -1, "a source and a destination"),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.BoolVarP(&c.recursive, "recursive", "r", false, "copy directories")
	flags.BoolVarP(&c.preserve, "preserve", "p", false, "keep mode, time of the last change and, as root, owner of files and directories")
	flags.BoolVarP(&c.archive, "archive", "a", false, "-r and -p, with status 1 if something could not be kept")
	flags.BoolVarP(&c.keep, "no-clobber", "n", false, "do not overwrite existing files")
	flags.BoolVarP(&c.update, "update", "u", false, "skip files whose copies are newer, or of the same time and size")
	flags.BoolVar(&c.resume, "resume", false, "continue what an earlier cp has left: skip files that were copied, continue NAME.part")
	flags.BoolVar(&c.verify, "verify", false, "read source and copy again and compare them, before NAME.part gets its name")
	flags.StringArrayVar(&c.exclude, "exclude", nil, "skip names that match this `pattern`; may be given several times")
	flags.BoolVarP(&c.verbose, "verbose", "v", false, "print the names of copied files")
	flags.BoolVar(&a.json, "json", false, "print a JSON object per copied file")
	addTransfersFlag(cmd, &c.transfers, "copy `N` files at a time")
	a.addTreeFlag(cmd)
	a.addRepliesFlag(cmd)
	a.addClientFlags(cmd)
	return cmd
}

// addTransfersFlag declares the flag of commands that handle many files at a time.
func addTransfersFlag(cmd *cobra.Command, n *int, usage string) {
	cmd.Flags().IntVar(n, "transfers", nfsclient.DefaultParallel, usage)
}

// checkTransfers refuses a useless number.
func checkTransfers(n int) error {
	if n < 1 || n > maxTransfers {
		return usagef("--transfers %d: want 1 to %d", n, maxTransfers)
	}
	return nil
}

// check refuses flags and arguments that make no sense, before cp connects anywhere.
func (c *copier) check(from []string, to string) error {
	if err := checkCopy(from, to); err != nil {
		return err
	}
	if err := checkTransfers(c.transfers); err != nil {
		return err
	}
	for _, pattern := range c.exclude {
		if _, err := path.Match(pattern, ""); err != nil {
			return usagef("--exclude %q is not a pattern: * and ? match within a name, [ must be closed, and \\ quotes", pattern)
		}
	}
	stream := from[0] == "-" || to == "-"
	switch {
	case c.verify && stream:
		return usagef("--verify with -: a stream cannot be read again; leave it out")
	case c.resume && stream:
		return usagef("--resume with -: a stream cannot be continued; leave it out")
	}
	return nil
}

// run copies all but the last argument to the last.
func (c *copier) run(ctx context.Context, args []string) (err error) {
	from, to := args[:len(args)-1], args[len(args)-1]
	c.recursive, c.preserve = c.recursive || c.archive, c.preserve || c.archive
	if err := c.check(from, to); err != nil {
		return err
	}
	if c.s, err = c.a.session(); err != nil {
		return err
	}
	defer c.s.close()
	c.root = c.s.cfg.Cred.UID == 0
	if to == "-" {
		return c.a.each(ctx, from, func(arg string) error { return c.s.cat(ctx, arg) })
	}
	dst, name, err := c.destination(ctx, to, len(from) > 1)
	if err != nil {
		return err
	}
	defer dst.close()
	c.start()
	list, err := c.sources(ctx, from)
	if err != nil {
		return err
	}
	err = c.copyArgs(ctx, list, dst, name)
	if c.left > 0 {
		fmt.Fprintf(c.a.stderr, "nfsdemo: %s left as NAME.part: the same command with --resume continues\n", plural(c.left, "file"))
	}
	return err
}

// start makes what copies need.
func (c *copier) start() {
	c.crew = crew.New(max(c.transfers, 1), c.a.client.maxNames)
	c.large = make(chan struct{}, largeTransfers)
}

// checkCopy refuses arguments that make no sense.
func checkCopy(from []string, to string) error {
	urls := 0
	for _, arg := range append([]string{to}, from...) {
		if !nfsclient.IsURL(arg) {
			continue
		}
		urls++
		if _, err := nfsclient.ParseURL(arg); err != nil {
			return err
		}
	}
	if urls == 0 {
		return usagef("no argument is a URL: use cp(1) for local files")
	}
	for _, arg := range from {
		if !nfsclient.IsURL(arg) && !nfsclient.IsURL(to) {
			return usagef("%s and %s are both local: use cp(1)", arg, to)
		}
		if arg == "-" && len(from) > 1 {
			return usagef("standard input cannot be one of several sources")
		}
	}
	return nil
}

// sources finds the sources. Those that cannot be copied are reported, if there are others.
func (c *copier) sources(ctx context.Context, args []string) ([]*source, error) {
	var list []*source
	err := c.a.each(ctx, args, func(arg string) error {
		src, err := c.source(ctx, arg)
		if err != nil {
			return err
		}
		if src.mode.IsDir() && !c.recursive {
			return argErr(arg, "", fmt.Errorf("%w (use cp -r)", errIsDir))
		}
		list = append(list, src)
		return nil
	})
	if errors.Is(err, errReported) {
		c.partial = true
		err = nil
	}
	return list, err
}

// source finds a source. It follows symbolic links unless they are to be copied as links.
func (c *copier) source(ctx context.Context, arg string) (*source, error) {
	if arg == "-" {
		return &source{show: "standard input", stream: c.a.stdin, size: -1, mode: 0o644}, nil
	}
	if !nfsclient.IsURL(arg) {
		return localSource(arg, !c.recursive)
	}
	r, err := c.s.lookup(ctx, arg, c.recursive)
	if err != nil {
		return nil, err
	}
	src := remoteSource(r.c, r.n)
	src.name = base(r.u)
	return src, nil
}

// destination finds the directory to copy into and the name there; "" means the name of each
// source.
func (c *copier) destination(ctx context.Context, arg string, several bool) (target, string, error) {
	if !nfsclient.IsURL(arg) {
		return localDestination(arg, several)
	}
	r, err := c.s.remote(ctx, arg)
	if err != nil {
		return nil, "", err
	}
	// A symbolic link that the user has named is followed: the file that it leads to is replaced, not the link.
	if n, err := r.c.Lookup(ctx, r.u.Path); err == nil && !n.IsDir() && !r.u.DirHint {
		r.u = r.u.WithPath(n.Path)
	}
	dir, name, err := c.s.place(ctx, r, several)
	return &remoteDir{c: r.c, n: dir}, name, err
}

// localDestination is destination for a local path.
func localDestination(arg string, several bool) (target, string, error) {
	st, err := os.Stat(arg)
	slash := strings.HasSuffix(arg, string(filepath.Separator))
	switch {
	case err == nil && st.IsDir():
		d, err := openLocal(arg)
		if err != nil {
			return nil, "", err
		}
		return d, "", nil
	case err == nil && (several || slash):
		return nil, "", argErr(arg, "", errNotDir)
	case err != nil && (several || slash):
		return nil, "", argErr(arg, "", errNoDir)
	}
	if err == nil && st.Mode().IsRegular() { // the file that a link leads to is replaced, not the link
		if to, err := filepath.EvalSymlinks(arg); err == nil {
			arg = to
		}
	}
	dir := filepath.Dir(arg)
	if up, err := os.Stat(dir); err != nil || !up.IsDir() {
		return nil, "", argErr(dir, "", errNoDir)
	}
	d, err := openLocal(dir)
	if err != nil {
		return nil, "", err
	}
	name := filepath.Base(arg)
	if st != nil && !st.Mode().IsRegular() {
		d.direct = name
	}
	return d, name, nil
}

// copyArgs copies the sources into dst, or the only one to name in dst.
func (c *copier) copyArgs(ctx context.Context, list []*source, dst target, name string) error {
	if name != "" {
		for _, src := range list {
			src.name = name
		}
	}
	taken := make(map[string]bool)
	for _, src := range list {
		switch {
		case src.stream != nil && src.name == "":
			return usagef("give the file's name: standard input has none")
		case src.name == "/" || src.name == "." || src.name == "..":
			return argErr(src.show, "", errors.New("has no name to copy it to: name the destination file"))
		case taken[src.name]:
			return argErr(src.show, "", fmt.Errorf("another source has the name %s too: they would overwrite each other", src.name))
		}
		taken[src.name] = true
	}
	run, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.user, c.cancel = ctx, cancel
	c.bar = newProgress(c.a.stderr, c.a.quiet)
	var counting sync.WaitGroup
	if c.bar != nil {
		counting.Go(func() { c.count(run, list) })
	}
	c.all(run, nil, func(yield func(*source, error) bool) {
		for _, src := range list {
			if !yield(src, nil) {
				return
			}
		}
	}, dst)
	cancel(nil)
	counting.Wait()
	c.bar.end()
	c.tellLosses()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case c.partial:
		return errReported
	}
	return nil
}

// count adds up what is to be copied, for the bar. Errors are those of the copy, which reports them.
func (c *copier) count(ctx context.Context, list []*source) {
	names := int64(0)
	var walk func(children iter.Seq2[*source, error]) bool
	walk = func(children iter.Seq2[*source, error]) bool {
		for src, err := range children {
			if names++; err != nil || ctx.Err() != nil || names > c.a.client.maxNames {
				return false
			}
			switch {
			case src.mode.IsDir():
				if !walk(c.children(ctx, src)) {
					return false
				}
			case src.mode.IsRegular():
				c.bar.found(src.size)
			}
		}
		return true
	}
	whole := walk(func(yield func(*source, error) bool) {
		for _, src := range list {
			if !yield(src, nil) {
				return
			}
		}
	})
	if whole {
		c.bar.counted()
	}
}

// say prints what is copied, if -v was given.
func (c *copier) say(src *source, dst target, name string) {
	if c.verbose {
		c.line(fmt.Sprintf("%s -> %s", src.show, path.Join(dst.show(), name)))
	}
}

// line prints a line on standard error, above the bar.
func (c *copier) line(s string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bar.above(func() { fmt.Fprintln(c.a.stderr, s) })
}

// isLink reports whether m is that of a symbolic link.
func isLink(m fs.FileMode) bool { return m&fs.ModeSymlink != 0 }
