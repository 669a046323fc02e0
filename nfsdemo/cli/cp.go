package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/transport"
)

// copier is one run of cp.
type copier struct {
	a         *app
	s         *session
	bar       *progress
	recursive bool
	preserve  bool // -p
	keep      bool // -n: existing files stay
	verbose   bool
	push      pushFlags
	pushed    pushTotals
	partial   bool // something was reported and skipped

	found int64  // names below the argument
	top   target // the directory made for the argument; nil: none yet
}

// cpCmd is the command cp.
func (a *app) cpCmd() *cobra.Command {
	c := &copier{a: a}
	cmd := &cobra.Command{
		Use:   "cp [-r] [-p] [-n] SOURCE... DESTINATION",
		Short: "Copy files to, from and between servers",
		Long: `cp copies files. Sources and destination are URLs or local paths; at least one of
them must be a URL. "-" is standard input or output. The destination is the new name,
or a directory to copy into. With -r, directories are copied with their contents, and
symbolic links as links; devices, pipes and sockets are skipped.

Files are durable on the server when cp ends (COMMIT). If cp fails, it removes the part
of a new file that it has written.

With --push, cp appends the data to a log of yours at the server, by RDMA Write and
Flush (docs/pushfile.md). Data that cannot be pushed are written as usual; the last
lines say how much was pushed, and how much was written. The file of --push-secret
holds the secret of the log, readable only by you; by default it is in nfsdemo/push in
your configuration directory.`,
		Example: `  nfsdemo cp big.iso nfs+rdma://127.0.0.1/srv/data/
  nfsdemo cp -r nfs+rdma://127.0.0.1/srv/data/src ./src
  nfsdemo cp nfs://old/export/file nfs+rdma://new/export/file
  nfsdemo cp --push journal nfs+rdma://127.0.0.1/srv/data/
  tar c . | nfsdemo cp - nfs+rdma://127.0.0.1/srv/data/backup.tar`,
		Args: nArgs(2, -1, "a source and a destination"),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
	}
	cmd.Flags().BoolVarP(&c.recursive, "recursive", "r", false, "copy directories")
	cmd.Flags().BoolVarP(&c.preserve, "preserve", "p", false, "keep the mode and the time of the last change")
	cmd.Flags().BoolVarP(&c.keep, "no-clobber", "n", false, "do not overwrite existing files")
	cmd.Flags().BoolVarP(&c.verbose, "verbose", "v", false, "print the names of copied files")
	cmd.Flags().BoolVar(&a.json, "json", false, "print a JSON object per copied file, which also says how it was written")
	a.addTreeFlag(cmd)
	c.push.add(cmd)
	a.addRepliesFlag(cmd)
	a.addClientFlags(cmd)
	return cmd
}

// run copies all but the last argument to the last.
func (c *copier) run(ctx context.Context, args []string) (err error) {
	from, to := args[:len(args)-1], args[len(args)-1]
	if err := checkCopy(from, to); err != nil {
		return err
	}
	if err := c.push.check(to); err != nil {
		return err
	}
	if c.s, err = c.a.session(); err != nil {
		return err
	}
	defer c.s.close()
	c.bar = newProgress(c.a.stderr, c.a.quiet)
	defer c.bar.end()
	if to == "-" {
		return c.a.each(ctx, from, func(arg string) error { return c.s.cat(ctx, arg) })
	}
	dst, name, err := c.destination(ctx, to, len(from) > 1)
	if err != nil {
		return err
	}
	defer dst.close()
	err = c.a.each(ctx, from, func(arg string) error { return c.one(ctx, arg, dst, name) })
	c.bar.end()
	c.pushed.report(c.a)
	if err == nil && c.partial {
		return errReported
	}
	return err
}

// checkCopy refuses arguments that make no sense, before cp connects anywhere.
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

// one copies one argument.
func (c *copier) one(ctx context.Context, arg string, dst target, name string) error {
	if arg == "-" {
		if name == "" {
			return usagef("give the file's name: standard input has none")
		}
		return dst.put(ctx, c, name, &source{show: "standard input", stream: c.a.stdin, size: -1, mode: 0o644})
	}
	src, err := c.source(ctx, arg)
	if err != nil {
		return err
	}
	if name == "" {
		if name = src.name; name == "/" || name == "." || name == ".." {
			return argErr(arg, "", errors.New("has no name to copy it to: name the destination file"))
		}
	}
	if src.mode.IsDir() && !c.recursive {
		return argErr(arg, "", fmt.Errorf("%w (use cp -r)", errIsDir))
	}
	c.found, c.top = 0, nil
	return c.copy(ctx, src, dst, name)
}

// source finds a source. It follows symbolic links unless they are to be copied as links.
func (c *copier) source(ctx context.Context, arg string) (*source, error) {
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
	if nfsclient.IsURL(arg) {
		if c.push.on {
			c.s.push = &c.push
		}
		r, err := c.s.remote(ctx, arg)
		c.s.push = nil // sources are only read
		if err != nil {
			return nil, "", err
		}
		dir, name, err := c.s.place(ctx, r, several)
		return &remoteDir{c: r.c, n: dir}, name, err
	}
	st, err := os.Stat(arg)
	slash := strings.HasSuffix(arg, string(filepath.Separator))
	switch {
	case err == nil && st.IsDir():
		return &localDir{path: arg}, "", nil
	case err == nil && (several || slash):
		return nil, "", argErr(arg, "", errNotDir)
	case err != nil && (several || slash):
		return nil, "", argErr(arg, "", errNoDir)
	}
	dir := filepath.Dir(arg)
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return nil, "", argErr(dir, "", errNoDir)
	}
	return &localDir{path: dir}, filepath.Base(arg), nil
}

// copy copies src, and what is below it, to name in dst.
func (c *copier) copy(ctx context.Context, src *source, dst target, name string) error {
	switch {
	case src.mode.IsDir():
		return c.copyDir(ctx, src, dst, name)
	case isLink(src.mode):
		to, err := src.link(ctx)
		if err != nil {
			return err
		}
		c.say(src, dst, name)
		return dst.symlink(ctx, c, name, to)
	case src.mode.IsRegular():
		c.say(src, dst, name)
		return dst.put(ctx, c, name, src)
	}
	c.partial = true
	c.a.report(fmt.Errorf("%s: skipped: a %s", src.show, typeName(src.mode)))
	return nil
}

// copyDir copies a directory and its contents. It reports errors inside and continues with the
// rest.
func (c *copier) copyDir(ctx context.Context, src *source, dst target, name string) error {
	if dst.inside(src) {
		return fmt.Errorf("%s: cannot copy a directory into itself", src.show)
	}
	sub, err := dst.sub(ctx, name, src.mode.Perm()|0o700)
	if err != nil {
		return err
	}
	defer sub.close()
	if c.top == nil {
		c.top = sub
	}
	for child, err := range src.each(ctx) {
		if err != nil {
			return err
		}
		if c.found++; c.found > c.a.client.maxNames {
			return fmt.Errorf("%s: %w", src.show, nfsclient.ErrTreeEndless)
		}
		if child.mode.IsDir() && c.top.is(child) { // found inside the source
			err = fmt.Errorf("%s: cannot copy a directory into itself", child.show)
		} else {
			err = c.copy(ctx, child, sub, child.name)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if endsTree(err) {
			return err
		}
		if err != nil {
			c.partial = true
			c.a.report(err)
		}
	}
	return sub.finish(ctx, c, src)
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
	_, lost := errors.AsType[*transport.OpError](err)
	return lost
}

// say prints what is copied, if -v was given.
func (c *copier) say(src *source, dst target, name string) {
	if c.verbose {
		fmt.Fprintf(c.a.stderr, "%s -> %s\n", src.show, path.Join(dst.show(), name))
	}
}
