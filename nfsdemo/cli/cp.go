package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/internal/crew"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/transport/rpc"
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
	*n = nfsclient.DefaultParallel
	cmd.Flags().Var(number[int]{n, 1, maxTransfers, 0}, "transfers", usage)
}

// check refuses flags and arguments that make no sense, before cp connects anywhere.
func (c *copier) check(from []string, to string) error {
	if err := checkCopy(from, to); err != nil {
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
	c.crew = crew.New(c.transfers, c.a.client.maxNames)
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
	c.all(run, nil, sound(list), dst)
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
	if walk(sound(list)) {
		c.bar.counted()
	}
}

// sound yields a list as what has no errors.
func sound[T any](list []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, x := range list {
			if !yield(x, nil) {
				return
			}
		}
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

// maxLate limits how many names of a directory wait until all others are copied.
const maxLate = 10000

// all copies children into dst, several at a time, and returns when that is done. It reports errors. top is
// the directory that was made for the argument, nil in the one above.
func (c *copier) all(ctx context.Context, top target, children iter.Seq2[*source, error], dst target) {
	var wg sync.WaitGroup
	var now sync.Map // names of files in transfer
	var late []*source
	for child, err := range children {
		if err == nil && !c.crew.Name() {
			err = fmt.Errorf("%s: %w", child.show, nfsclient.ErrTreeEndless)
		}
		if err == nil && len(late) > maxLate {
			err = fmt.Errorf("%s: more than %d names that end in %s in a directory: copy them apart, with --exclude", child.show, maxLate, partSuffix)
		}
		switch {
		case err != nil:
		case !child.mode.IsDir() && strings.HasSuffix(child.name, partSuffix):
			late = append(late, child)
		case child.mode.IsDir():
			c.crew.Dir(&wg, func() { c.done(ctx, c.copyDir(ctx, top, child, dst)) })
		default:
			if _, twice := now.LoadOrStore(child.name, nil); twice {
				continue // it was renamed while the directory was listed
			}
			err = c.crew.File(ctx, &wg, func() {
				defer now.Delete(child.name)
				c.done(ctx, c.copy(ctx, child, dst))
			})
		}
		if c.done(ctx, err); err != nil || ctx.Err() != nil {
			break
		}
	}
	wg.Wait()
	// While NAME is copied, NAME.part is what becomes of it. So files of such names have their turn after all
	// others, the shorter ones first, one by one.
	slices.SortStableFunc(late, func(a, b *source) int { return cmp.Compare(len(a.name), len(b.name)) })
	for _, child := range late {
		c.done(ctx, c.copy(ctx, child, dst))
	}
}

// done reports the error of one file or directory, and ends the run if it is useless to go on.
func (c *copier) done(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return // what ends the run has been reported, or will be
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	c.partial = true
	c.bar.above(func() { c.a.report(err) })
	if endsTree(err) {
		c.cancel(err)
	}
}

// endsTree reports whether after err it is useless, or endless, to go on with the rest of a tree.
func endsTree(err error) bool {
	for _, end := range []error{
		nfsclient.ErrDirLoop, nfsclient.ErrDirEndless, nfsclient.ErrTooDeep, nfsclient.ErrTreeEndless, nfsclient.ErrNoProgress,
		context.DeadlineExceeded,
		nfs3.ErrNoSpc, nfs3.ErrDQuot, nfs3.ErrROFS, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EMFILE, syscall.ENFILE,
	} {
		if errors.Is(err, end) {
			return true
		}
	}
	return isLost(err)
}

// isLost reports whether the connection is gone.
func isLost(err error) bool {
	_, lost := errors.AsType[*rpc.OpError](err)
	return lost
}

// copy copies what is not a directory.
func (c *copier) copy(ctx context.Context, src *source, dst target) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case isLink(src.mode):
		to, err := src.link(ctx)
		if err != nil {
			return err
		}
		c.say(src, dst, src.name)
		return c.link(ctx, src, dst, to)
	case src.mode.IsRegular():
		return c.put(ctx, src, dst)
	}
	return fmt.Errorf("%s: skipped: a %s", src.show, typeOf(src.mode).name)
}

// link makes a symbolic link, and replaces one.
func (c *copier) link(ctx context.Context, src *source, dst target, to string) error {
	set, err := dst.symlink(ctx, src.name, to)
	if errors.Is(err, fs.ErrExist) {
		if c.keep {
			return nil
		}
		if old, ferr := dst.find(ctx, src.name); ferr != nil || old == nil || !isLink(old.mode) {
			return err
		}
		if err := dst.remove(ctx, src.name); err != nil {
			return err
		}
		set, err = dst.symlink(ctx, src.name, to)
	}
	if err != nil || !c.preserve {
		return err
	}
	return c.keepAll(ctx, src, set)
}

// copyDir copies a directory and its contents.
func (c *copier) copyDir(ctx context.Context, top target, src *source, dst target) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if dst.inside(src) || top != nil && top.is(src) { // or a server that exports this directory shows it there
		return fmt.Errorf("%s: cannot copy a directory into itself", src.show)
	}
	sub, err := dst.sub(ctx, src.name, src.mode.Perm()|0o700)
	if err != nil {
		return err
	}
	defer sub.close()
	if top == nil {
		top = sub
	}
	c.all(ctx, top, c.children(ctx, src), sub)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return sub.finish(ctx, c, src)
}

// children lists a directory, without what is excluded.
func (c *copier) children(ctx context.Context, dir *source) iter.Seq2[*source, error] {
	return func(yield func(*source, error) bool) {
		for child, err := range dir.each(ctx) {
			if err == nil {
				child.rel = path.Join(dir.rel, child.name)
				if c.excludes(child) {
					continue
				}
			}
			if !yield(child, err) || err != nil {
				return
			}
		}
	}
}

// excludes reports whether a pattern of --exclude matches.
func (c *copier) excludes(src *source) bool {
	for _, pattern := range c.exclude {
		name := src.name
		if strings.Contains(pattern, "/") {
			name = src.rel
			pattern = strings.Trim(pattern, "/")
		}
		if ok, _ := path.Match(pattern, name); ok { // bad patterns were refused
			return true
		}
	}
	return false
}

// partSuffix ends the names of copies that are not finished.
const partSuffix = ".part"

// maxName is the longest name that file systems take, in octets.
const maxName = 255

// partName returns the name under which a copy of name is written. One that would be too long is cut, with a
// hash in place of the rest.
func partName(name string) string {
	if len(name)+len(partSuffix) <= maxName {
		return name + partSuffix
	}
	h := fnv.New64a()
	_, _ = io.WriteString(h, name) // never fails
	return fmt.Sprintf("%s-%016x%s", name[:maxName-len(partSuffix)-17], h.Sum64(), partSuffix)
}

// largeTransfers is how many files of more than one block are copied at a time. Choice: several blocks of each
// are in flight, and more files need more memory but are not faster.
const largeTransfers = 4

// copyJSON is a line of cp --json.
type copyJSON struct {
	Source string `json:"source"`
	Path   string `json:"path"`   // where it was copied to
	Octets int64  `json:"octets"` // copied
}

// partFile is a copy that is being written.
type partFile interface {
	// size returns how many octets are there, from an earlier run.
	size() int64
	// fill copies src from offset from to its end, and cuts off the rest.
	fill(ctx context.Context, c *copier, src *source, from int64) (int64, error)
	// same compares src with the copy, of size octets.
	same(ctx context.Context, src *source, size int64) error
	// set is a setter.
	set(ctx context.Context, want attrs) (got attrs, err error)
	// close ends it. A file that cannot be closed is not complete.
	close() error
}

// put copies a regular file or a stream: to NAME.part, which becomes NAME when everything is there.
func (c *copier) put(ctx context.Context, src *source, dst target) error {
	var old *source
	if !dst.fresh() {
		var err error
		if old, err = dst.find(ctx, src.name); err != nil {
			return err
		}
	}
	p := path.Join(dst.show(), src.name)
	refuse := func(why error) error { return &fs.PathError{Op: "write", Path: p, Err: why} }
	switch {
	case old == nil:
	case c.skips(old, src):
		c.bar.skip(src.size)
		return nil
	case old.client != nil && old.client == src.client && old.id == src.id && old.fsid == src.fsid:
		return refuse(errSameFile)
	case old.mode.IsDir():
		return refuse(errIsDir)
	case old.client != nil && !old.mode.IsRegular() && !isLink(old.mode):
		return refuse(errNotRegular)
	}
	if src.size < 0 || src.size > c.a.client.block {
		select {
		case c.large <- struct{}{}:
			defer func() { <-c.large }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	c.say(src, dst, src.name)
	size, err := c.transfer(ctx, src, dst, old)
	if err != nil {
		return err
	}
	c.bar.copied()
	if !c.a.json {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.a.printJSON(copyJSON{Source: src.show, Path: p, Octets: size})
}

// skips reports whether src need not be copied over old.
func (c *copier) skips(old, src *source) bool {
	if c.keep {
		return true
	}
	if src.stream != nil || !old.mode.IsRegular() {
		return false
	}
	// As far as NFS can say: the copy of a file from 2107 is not older than that.
	was, is := stamp{nfs3.TimeOf(old.mtime).Time(), old.ctime}, stamp{nfs3.TimeOf(src.mtime).Time(), src.ctime}
	same := sameTime(was, is)
	newer := was.mtime.After(is.mtime) && !same
	alike := old.size == src.size && (newer || same)
	return c.update && (alike || newer) || c.resume && alike
}

// cleanUpTime limits the removal of an unfinished file.
const cleanUpTime = 2 * time.Second

// transfer is put without the decision whether to copy.
func (c *copier) transfer(ctx context.Context, src *source, dst target, old *source) (size int64, err error) {
	mode := src.mode.Perm()
	keep := old != nil && old.mode.IsRegular() && !c.preserve // the mode of the file that is replaced
	if keep {
		mode = old.mode.Perm()
	}
	part := partName(src.name)
	var was *source // of an earlier run
	if c.resume && !dst.fresh() {
		was, _ = dst.find(ctx, part) // what cannot be found is made
	}
	var f partFile
	if was != nil && was.mode.IsRegular() && !was.mtime.Before(src.mtime) {
		f, err = dst.open(was)
	} else {
		f, err = dst.create(ctx, part, mode)
	}
	if err != nil {
		return size, err
	}
	size, err = c.write(ctx, f, src, mode, keep)
	if cerr := f.close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = dst.rename(ctx, part, src.name)
	}
	if err == nil {
		return size, nil
	}
	// What can be continued stays: after an interrupt, a lost connection, or if the user has asked for it.
	why := err
	if ctx.Err() != nil {
		why = context.Cause(ctx)
	}
	if src.stream == nil && !errors.Is(err, errDiffers) && (c.resume || c.user.Err() != nil || isLost(why)) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.left++
		return size, err
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
	defer cancel()
	_ = dst.remove(end, part) // the error of the copy counts
	return size, err
}

// write writes the copy and its attributes.
func (c *copier) write(ctx context.Context, f partFile, src *source, mode fs.FileMode, keep bool) (size int64, err error) {
	from := c.resumeAt(f.size())
	c.bar.skipped(from)
	if size, err = f.fill(ctx, c, src, from); err != nil {
		return size, err
	}
	if err := src.complete(size); err != nil {
		return size, err
	}
	if c.verify {
		if err := f.same(ctx, src, size); err != nil {
			return size, err
		}
	}
	switch {
	case c.preserve && src.stream == nil:
		err = c.keepAll(ctx, src, f.set)
	case keep:
		_, err = f.set(ctx, attrs{mode: mode, uid: -1, gid: -1})
	}
	return size, err
}

// resumeAt returns where to continue a copy of which size octets are there. Before its end there may be holes:
// blocks that were in flight when it was interrupted. Choice: twice as many as one file has in flight.
func (c *copier) resumeAt(size int64) int64 {
	return max(0, size-2*int64(c.a.client.inFlight)*c.a.client.block)
}

// errDiffers reports a copy that is not what was copied.
var errDiffers = errors.New("the copy differs from the source")

// compared returns the outcome of a comparison that ended at octet end of size: what was not read was not compared.
func compared(end, size int64, err error) error {
	if err == nil && end < size {
		err = fmt.Errorf("%w at octet %d, where it ends", errDiffers, end)
	}
	return err
}

// comparer is an io.WriterAt that compares what it gets with r. It is safe for concurrent use.
type comparer struct {
	r    io.ReaderAt
	bufs sync.Pool
}

// WriteAt implements io.WriterAt.
func (c *comparer) WriteAt(p []byte, off int64) (int, error) {
	b, _ := c.bufs.Get().(*[]byte)
	if b == nil || cap(*b) < len(p) {
		b = new([]byte)
		*b = make([]byte, len(p))
	}
	defer c.bufs.Put(b)
	mem := (*b)[:len(p)]
	n, err := c.r.ReadAt(mem, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if !bytes.Equal(mem[:n], p) {
		at := 0
		for at < min(n, len(p)) && mem[at] == p[at] {
			at++
		}
		return 0, fmt.Errorf("%w at octet %d", errDiffers, off+int64(at))
	}
	return len(p), nil
}
